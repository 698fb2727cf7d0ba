// Shared by all parts of the agent: the configuration, and common services.

import type { Config, ReloadedSetting, Setting } from "../config/settings.ts";
import { type LimitValues, limitValues } from "../config/limits.ts";
import type { Decoders } from "../decoder/pool.ts";
import type { SourceChecks } from "../decoder/source_checks.ts";
import { messageOf } from "../domain/error.ts";
import type { OwnEvent } from "../domain/event.ts";
import type { NewUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import type { FindTools, GuestUser } from "../sandbox/guest_command.ts";

/** The configured limits, and the hosts allowed for callbacks. */
interface AgentLimits extends LimitValues {
  readonly callbackHosts: readonly string[];
}

/** The limits in effect, read from a checked configuration. */
export function agentLimits({ limits, callback_host }: Config): AgentLimits {
  return { ...limitValues(limits), callbackHosts: callback_host.value };
}

/** Stores an event that no other write implies. Never rejects: a failing store has its own log line. */
export type Emit = (event: OwnEvent) => Promise<void>;

/** The shared context before the decoders are open. */
export type BareContext = Omit<AgentContext, "decoders" | "findTools" | "sources" | "user">;

/** The parts of a running agent that most of its rooms need. */
export interface AgentContext {
  readonly config: Config;
  readonly limits: AgentLimits;
  readonly log: Log;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly self: SelfCommand;
  /** The budget for documents in memory. */
  readonly budget: MemoryBudget;
  /** Registers the settings that a part applies at runtime, see openReloads(). */
  readonly follow: Reloads["follow"];
  /** Registers how a part is closed. */
  readonly opened: (name: string, close: () => void | Promise<void>) => void;
  /** The processes that read bytes from outside. */
  readonly decoders: Decoders;
  /** The tools that start guests and decoders. Looked for only once, because trying unshare starts a process. */
  readonly findTools: FindTools;
  /** Checks of task sources, made by decoders. */
  readonly sources: SourceChecks;
  /** The user of guests and decoders; the agent's own unless given. */
  readonly user?: GuestUser;
  /** Counts what tasks do; undefined where nothing reads metrics. */
  readonly meters?: Meters;
  /** Settles when the agent listens; work that may wait starts then. */
  readonly listening?: Promise<void>;
}

/** How a part is closed; parts close in reverse order. */
export interface Closer {
  readonly name: string;
  readonly close: () => void | Promise<void>;
}

/**
 * Closes the parts. One that fails, or takes longer, is logged and left to the end of the process: a stop that
 * hangs would keep the next agent from the state folder.
 * @param limitMs milliseconds for each part
 */
export async function closeAll(
  parts: readonly Closer[],
  log: Log,
  limitMs: number,
): Promise<void> {
  for (const { name, close } of parts.toReversed()) {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Error(`not closed in ${limitMs} ms`)), limitMs);
    try {
      await Promise.race([close(), late]);
    } catch (error) {
      log.error("part not closed", { part: name, error });
    } finally {
      clearTimeout(timer);
    }
  }
}

// Reads the configuration again at runtime: which settings changed, which apply at once, and which
// wait for a restart.

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
  return names.filter((name) => valueText(before[name]) !== valueText(after[name]));
}

/** Compares by value; the origin of a value does not matter. A table of settings counts as one. */
function valueText(setting: object): string {
  if ("origin" in setting && "value" in setting) return JSON.stringify(setting.value);
  return JSON.stringify(
    Object.entries(setting).map(([name, one]: [string, Setting<unknown>]) => [name, one.value]),
  );
}
