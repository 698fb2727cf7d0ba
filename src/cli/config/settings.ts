// The settings of the agent as flags of a command, and `zonewright config show` and `config check`: those of an agent
// started here and now, or those in force in the running agent.

import { SETTING_ROWS, type SettingRow, valueText, variableOf } from "../../config/settings.ts";
import {
  type ConfigLine,
  configLines,
  type ConfigSources,
  type FlagValue,
  loadConfig,
  originText,
} from "../../config/sources.ts";
import { objectsAt, readObject, textIn } from "../client/answer.ts";
import {
  asksRunning,
  type Command,
  type CommandEnd,
  type Invocation,
  RUNNING_NOTE,
} from "../command/command.ts";
import { AgentError } from "../../domain/error.ts";
import type { Flag } from "../command/arguments.ts";

/** The flags of commands that work on the state folder of this machine. */
export const PLACE_FLAGS: readonly Flag[] = configFlags().filter(({ name }) =>
  name === "config" || name === "state-dir" || name === "dev"
);

/**
 * The state folder that the flags, the environment or the file names.
 * @throws {AgentError} `invalid_argument` for a configuration that cannot be read; `not_found`
 */
export async function stateDirOf(call: Invocation): Promise<string> {
  return (await loadConfig(configSources(call))).state_dir.value;
}

async function linesOf(call: Invocation): Promise<ConfigLine[]> {
  return configLines(await loadConfig(configSources(call)));
}

const ORIGIN_FLAG: Flag = { name: "origin", help: "where each value comes from" };

/** One setting as `config show` prints it. */
interface ShownLine {
  readonly name: string;
  readonly value: unknown;
  /** As written in a flag or in the file. */
  readonly text: string;
  readonly origin: string;
}

/** `zonewright config show`: the settings of a new agent started here, or of the running one. */
export const SHOW: Command = {
  summary: "print every setting, and where it comes from",
  examples: [
    ["config show --origin", "flag, variable, file or default"],
    ["config show --config ./zonewright.toml --json", "what this file would mean"],
    ["config show --running --origin", "what the running agent has in force"],
  ],
  flags: [ORIGIN_FLAG, ...configFlags()],
  notes: [RUNNING_NOTE],
  shared: "either",
  async run(call): Promise<CommandEnd> {
    if (asksRunning(call, [ORIGIN_FLAG.name])) return await showRunning(call);
    const lines = await linesOf(call);
    showLines(
      call,
      lines.map(({ name, row, setting }) => ({
        name,
        value: setting.value,
        text: valueText(row, setting.value),
        origin: originText(setting.origin),
      })),
    );
  },
};

/** Prints the settings that the running agent has in force. */
async function showRunning(call: Invocation): Promise<void> {
  const sent = await call.client.send({ method: "GET", path: "/agent/v1/config" });
  const answer = readObject(sent.body, "the settings");
  showLines(
    call,
    objectsAt(answer, "settings").map((setting) => ({
      name: textIn(setting, "name") ?? "-",
      value: setting.value ?? null,
      text: textIn(setting, "text") ?? "-",
      origin: textIn(setting, "source") ?? textIn(setting, "origin") ?? "-",
    })),
  );
  const { waiting } = answer;
  if (Array.isArray(waiting) && waiting.length > 0) {
    call.printer.note(`waiting for a restart of the agent: ${waiting.join(", ")}`);
  }
}

function showLines({ args, printer }: Invocation, lines: readonly ShownLine[]): void {
  const origins = args.has(ORIGIN_FLAG.name);
  if (printer.json) {
    const values = lines.map(({ name, value, origin }) =>
      [name, origins ? { value, origin } : value] as const
    );
    return printer.document(Object.fromEntries(values));
  }
  printer.table([
    { head: "SETTING", cell: ({ name }) => name },
    { head: "VALUE", cell: ({ text }) => text },
    ...(origins ? [{ head: "ORIGIN", cell: ({ origin }: ShownLine) => origin }] : []),
  ], lines);
}

/** `zonewright config check`: reads the configuration as `serve` does; a missing file is an error too. */
export const CHECK: Command = {
  summary: "check that the configuration can be read; exits 2 if not",
  examples: [["config check --config ./zonewright.toml", "before the agent is started with it"]],
  flags: configFlags(),
  shared: "output",
  async run(call) {
    const lines = await checkedLines(call);
    const set = lines.filter(({ setting }) => setting.origin.kind !== "default").length;
    call.printer.result(
      { ok: true, settings: lines.length, set },
      `ok: ${lines.length} settings, ${set} of them not the default`,
    );
  },
};

/** A configuration that cannot be read is invalid, even if its file is just missing. */
async function checkedLines(call: Invocation): Promise<ConfigLine[]> {
  try {
    return await linesOf(call);
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    const { message, errors } = error;
    const found = errors.length > 0
      ? errors
      : [{ field: "config", code: "Invalid", message } as const];
    throw new AgentError("invalid_argument", message, { cause: error, errors: found });
  }
}

/** One flag for every setting, and `--config`. */
export function configFlags(): readonly Flag[] {
  return [
    { name: "config", placeholder: "FILE", help: "read settings from this TOML file" },
    ...SETTING_ROWS.map((row): Flag => {
      const { placeholder, repeatable, words } = row.kind;
      return {
        name: row.flag,
        help: row.meaning + defaultText(row),
        ...(placeholder === undefined ? {} : { placeholder }),
        ...(repeatable === true ? { many: true } : {}),
        ...(words === undefined ? {} : { words }),
      };
    }),
  ];
}

/** ` [4, from 1 to 64]`; empty for switches and for settings without a default. */
function defaultText(row: SettingRow): string {
  const value = row.fallback({ dev: false, cwd: "/", os: Deno.build.os });
  const text = valueText(row, value);
  if (typeof value === "boolean" || text === "-") return "";
  const { range, text: written } = row.kind;
  // The description of a size or a time states its range.
  const bounds = range === undefined || written !== undefined
    ? ""
    : `, from ${range.min} to ${range.max}`;
  return ` [${text}${bounds}]`;
}

/** Where this command line reads the configuration from. */
export function configSources({ args, terminal }: Invocation): Omit<ConfigSources, "file"> {
  const flags: Record<string, FlagValue> = {};
  for (const { name, placeholder, many } of configFlags()) {
    if (!args.has(name)) continue;
    flags[name] = placeholder === undefined
      ? true
      : many === true
      ? args.texts(name)
      : args.text(name) ?? "";
  }
  return { flags, env: terminal.env, cwd: terminal.cwd, os: Deno.build.os };
}

/** The notes below the flags of `serve`. */
export const CONFIG_NOTES: readonly string[] = [
  `Every flag is also a variable (--state-dir is ${variableOf("state_dir")}) and a key of the\n` +
  "TOML file (state_dir; limits are in the table [limits], the policy is in [policy]). Flags override\n" +
  "variables, variables override the file, the file overrides the defaults; zonewright config show\n" +
  "--origin shows which one applies.",
];
