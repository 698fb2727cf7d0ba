// What every part of the agent is given: the configuration, and what the parts share.

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

/** The configured limits, and the hosts that callbacks may go to. */
export interface AgentLimits extends LimitValues {
  readonly callbackHosts: readonly string[];
}

/** The limits of a configuration. */
export function agentLimits({ limits, callback_host }: Config): AgentLimits {
  return { ...limitValues(limits), callbackHosts: callback_host.value };
}

/** What every part of the agent is given, before there are processes behind walls. */
export type BareContext = Omit<AgentContext, "decoders" | "sources" | "user">;

/** What every part of the agent is given. */
export interface AgentContext {
  readonly config: Config;
  readonly limits: AgentLimits;
  readonly log: Log;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly self: SelfCommand;
  /** Bounds the memory that documents take. */
  readonly budget: MemoryBudget;
  /** Registers the settings that a part follows while it works, see reload.ts. */
  readonly follow: Reloads["follow"];
  /** Registers how a part is closed. */
  readonly opened: (name: string, close: () => void | Promise<void>) => void;
  /** The processes that read foreign bytes. */
  readonly decoders: Decoders;
  /** Their verdicts on task sources. */
  readonly sources: SourceChecks;
  /** The user of guests and decoders; the agent's own when absent. */
  readonly user?: GuestUser;
  /** Counts what tasks do; absent where nobody reads metrics. */
  readonly meters?: Meters;
}
