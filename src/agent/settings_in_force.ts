// The settings in force: which changes apply immediately when the configuration is read again, and which wait for a
// restart; and what GET /agent/v1/config and the doctor report about them.

import {
  type Config,
  RELOADED_SETTINGS,
  type ReloadedSetting,
  type Setting,
  valueText,
} from "../config/settings.ts";
import { type ConfigLine, configLines, flagWords } from "../config/sources.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import { isJsonObject, type JsonValue } from "../domain/json.ts";
import { runCommand } from "../host/program.ts";
import { describeResult } from "../host/program_output.ts";
import { keptReading } from "../http/answer/cached_reading.ts";
import type { AgentSources, ShownDiagnosis, ShownSetting } from "../http/routes/agent.ts";
import type { Now } from "../domain/instant.ts";
import type { SelfCommand } from "../runtime/executable.ts";

/** Name of a setting; a table such as the limits counts as one. */
type SettingName = keyof Config;

/** Result of a new configuration. */
export interface ReloadReport {
  /** Settings whose new value is in effect. */
  readonly applied: readonly SettingName[];
  /** Changed settings that keep their old value until a restart. */
  readonly waiting: readonly SettingName[];
  readonly log_level: Config["log_level"]["value"];
}

/** Applies a new configuration to parts that can change at runtime. */
export interface Reloads {
  /** Registers the settings that a part follows. */
  follow(names: readonly ReloadedSetting[], apply: (config: Config) => void | Promise<void>): void;
  /**
   * Reads the configuration and applies all changes; an error of one part is thrown after the other parts had
   * theirs.
   * @param refresh what is read again even if no setting has changed
   */
  reload(
    read: () => Promise<Config>,
    refresh: (next: Config) => Promise<void>,
  ): Promise<ReloadReport>;
  /**
   * The values in effect, the names of settings whose new value waits for a restart, and why the last reload
   * failed.
   */
  inForce(): {
    readonly config: Config;
    readonly waiting: readonly SettingName[];
    readonly problem: string | null;
  };
}

/** @param first the configuration that the parts were started with */
export function openReloads(first: Config): Reloads {
  const parts: {
    names: readonly SettingName[];
    apply: (config: Config) => void | Promise<void>;
  }[] = [];
  /** The values in effect: a waiting setting keeps its old one. */
  let present: Config = first;
  let waiting: readonly SettingName[] = [];
  let problem: string | null = null;
  const applyAll = async (next: Config) => {
    const changed = changedSettings(present, next);
    const applied = changed.filter((name) => parts.some((part) => part.names.includes(name)));
    const failures: unknown[] = [];
    for (const { names, apply } of parts) {
      if (!names.some((name) => changed.includes(name))) continue;
      await Promise.resolve(apply(next)).catch((error: unknown) => failures.push(error));
    }
    const taken = Object.fromEntries(applied.map((name) => [name, next[name]]));
    present = { ...present, ...taken };
    waiting = changed.filter((name) => !applied.includes(name));
    if (failures.length > 0) throw failures[0];
    return { applied, waiting, log_level: next.log_level.value };
  };
  return {
    inForce: () => ({ config: present, waiting, problem }),
    follow: (names, apply) => parts.push({ names, apply }),
    async reload(read, refresh) {
      try {
        const next = await read();
        const report = await applyAll(next);
        await refresh(next);
        problem = null;
        return report;
      } catch (error) {
        problem = messageOf(error);
        throw error;
      }
    },
  };
}

function changedSettings(before: Config, after: Config): SettingName[] {
  const names = Object.keys(after) as SettingName[];
  return names.filter((name) => comparedText(before[name]) !== comparedText(after[name]));
}

/** Compares by value; the origin of a value does not matter. A table of settings counts as one. */
function comparedText(setting: object): string {
  if ("origin" in setting && "value" in setting) return JSON.stringify(setting.value);
  return JSON.stringify(
    Object.entries(setting).map(([name, one]: [string, Setting<unknown>]) => [name, one.value]),
  );
}

const DOCTOR_KEEP_MS = 10_000;
/** Time limit of the doctor; enough for a host where several checks time out. */
const DOCTOR_DEADLINE_MS = 180_000;
/** Variables by which ssh finds the keys of the agent's user. */
const DOCTOR_VARIABLES = ["HOME", "PATH", "TMPDIR"] as const;

/**
 * Where the agent's own pages come from. The doctor runs as a process of its own, as on the command line, because it
 * reads the whole database and runs as the owner of the state folder.
 */
export function openSelfDescription(
  { self, now }: { readonly self: SelfCommand; readonly now: Now },
  inForce: Reloads["inForce"],
): AgentSources {
  const look = async (signal: AbortSignal) => {
    const words = ["doctor", "--json", ...flagWords(inForce().config)];
    const inherited = DOCTOR_VARIABLES.flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    const result = await runCommand(self.program, [...self.args, ...words], {
      env: { ...Object.fromEntries(inherited), ...self.env },
      deadlineMs: DOCTOR_DEADLINE_MS,
      signal,
    });
    const diagnoses = diagnosesIn(result.stdout) ?? unreadConfig(result.stderr);
    if (diagnoses !== undefined) return diagnoses;
    const message =
      `Cannot run the doctor: "zonewright doctor --json" ${describeResult(result)}, ` +
      "expected its findings as JSON";
    throw new AgentError("internal", message);
  };
  const clocks = { now, monotonicMs: () => performance.now() };
  return {
    settings: () => configLines(inForce().config).map(shownSetting),
    settingsWaiting: () => inForce().waiting,
    diagnoses: keptReading(
      { keepMs: DOCTOR_KEEP_MS, deadlineMs: DOCTOR_DEADLINE_MS, look },
      clocks,
    ),
  };
}

/** Parses a JSON text; undefined for any other text, which an error then shows. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The doctor exits with 1 when it finds something broken, after printing its findings. */
function diagnosesIn(stdout: string): readonly ShownDiagnosis[] | undefined {
  const printed = parsed(stdout);
  return Array.isArray(printed) && printed.every(isDiagnosis) ? printed : undefined;
}

/** The one finding of a doctor who could not read the configuration: the file has changed since the agent read it. */
function unreadConfig(stderr: string): readonly ShownDiagnosis[] | undefined {
  const found = parsed(stderr);
  if (!isJsonObject(found) || typeof found.message !== "string") return undefined;
  if (found.code !== "invalid_argument" && found.code !== "not_found") return undefined;
  return [{
    name: "config",
    outcome: "fail",
    detail: `${found.message}; the agent runs with the settings that it read before`,
    fix: "zonewright config check",
    repaired: false,
  }];
}

function isDiagnosis(value: unknown): value is ShownDiagnosis {
  return isJsonObject(value) && value.repaired === false &&
    [value.name, value.outcome, value.detail].every((text) => typeof text === "string");
}

function shownSetting({ name, row, setting }: ConfigLine): ShownSetting {
  const { origin, value } = setting;
  const text = valueText(row, value);
  const kept = row.table ?? row.key;
  return {
    name,
    // Every kind of setting reads JSON values.
    value: JSON.parse(JSON.stringify(value)) as JsonValue,
    text: text === "-" ? null : text,
    origin: origin.kind,
    source: origin.kind === "default" ? null : origin.kind === "file" ? origin.path : origin.name,
    meaning: row.meaning,
    reloads: RELOADED_SETTINGS.some((one) => one === kept),
  };
}
