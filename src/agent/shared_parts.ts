// The parts that all others of the agent share: configuration, limits, log, clock, decoders; and how parts close.

import type { Config } from "../config/settings.ts";
import { type LimitValues, limitValues } from "../config/limits.ts";
import type { Decoders } from "../decoder/pool.ts";
import type { SourceChecks } from "../decoder/source_checks.ts";
import type { OwnEvent } from "../domain/event.ts";
import type { NewUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import type { FindTools, GuestUser } from "../sandbox/guest_command.ts";
import type { Reloads } from "./settings_in_force.ts";

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
export type EarlyParts = Omit<SharedParts, "decoders" | "findTools" | "sources" | "user">;

/** The parts of a running agent that most of its rooms need. */
export interface SharedParts {
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
 * Closes the parts. A part that fails or takes too long is logged and left to the end of the process, because a stop
 * that hangs would keep the next agent from the state folder.
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
