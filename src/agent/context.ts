// Shared by all parts of the agent: the configuration, and common services.

import type { Config } from "../config/settings.ts";
import { type LimitValues, limitValues } from "../config/limits.ts";
import type { Decoders } from "../decoder/pool.ts";
import type { SourceChecks } from "../decoder/source_checks.ts";
import type { NewUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import type { SelfCommand } from "../program/executable.ts";
import type { GuestUser } from "../sandbox/command.ts";
import type { Reloads } from "./reload.ts";

/** The configured limits, and the hosts allowed for callbacks. */
export interface AgentLimits extends LimitValues {
  readonly callbackHosts: readonly string[];
}

/** The limits in effect, read from a checked configuration. */
export function agentLimits({ limits, callback_host }: Config): AgentLimits {
  return { ...limitValues(limits), callbackHosts: callback_host.value };
}

/** The shared context before the decoders are open. */
export type BareContext = Omit<AgentContext, "decoders" | "sources" | "user">;

/** The shared context. */
export interface AgentContext {
  readonly config: Config;
  readonly limits: AgentLimits;
  readonly log: Log;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly self: SelfCommand;
  /** The budget for documents in memory. */
  readonly budget: MemoryBudget;
  /** Registers the settings that a part applies at runtime, see reload.ts. */
  readonly follow: Reloads["follow"];
  /** Registers how a part is closed. */
  readonly opened: (name: string, close: () => void | Promise<void>) => void;
  /** The processes that read bytes from outside. */
  readonly decoders: Decoders;
  /** Checks of task sources, made by decoders. */
  readonly sources: SourceChecks;
  /** The user of guests and decoders; the agent's own unless given. */
  readonly user?: GuestUser;
  /** Counts what tasks do; missing where nobody reads metrics. */
  readonly meters?: Meters;
}
