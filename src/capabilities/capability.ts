// One capability: something of the agent that a task may ask for by name. The arguments come from
// the other side of the wall, so each capability parses them before it does anything.

import { AgentError } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { CapabilityName } from "../sandbox/protocol.ts";

/** The execution of a task for which capabilities are performed. */
export interface TaskContext {
  readonly job_uuid: JobUuid;
  /** The task's name, or its uuid when it has none. */
  readonly task_name: string;
  /** Aborted when the execution is over: canceled, out of time, or lost. */
  readonly signal: AbortSignal;
}

/** One call of a capability. */
export interface Call {
  readonly job_uuid: JobUuid;
  readonly task_name: string;
  /** Aborted when the task gives up, its execution is over, or the capability's time has passed. */
  readonly signal: AbortSignal;
  /** Appends to the job's info on behalf of the task, within the task's bounds. */
  readonly note: (entry: JsonObject) => Promise<void>;
  /** Tells that a note was left out, since there were too many or it was too large. */
  readonly drop: () => void;
  /** Tells how far a long call has come; most of what it is told is dropped. */
  readonly progress: (phase: ProgressPhase, done: number, total: number | null) => void;
}

/** What a long call is doing. @see docs/tasks.md, info and log */
export type ProgressPhase = "download" | "decompress" | "verify" | "copy";

/** What a capability does, and how long it may take. */
export interface Capability {
  readonly deadlineMs: number;
  perform(call: Call, args: readonly JsonValue[]): Promise<JsonValue>;
}

/** Some capabilities by their names. */
export type CapabilitiesOf<Prefix extends string> = Readonly<
  Record<Extract<CapabilityName, Prefix | `${Prefix}.${string}`>, Capability>
>;

/**
 * Runs with a signal that is also aborted when the time has passed.
 * @throws {AgentError} `timeout` when it had
 */
export async function withDeadline<T>(
  what: string,
  deadlineMs: number,
  signal: AbortSignal,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), deadlineMs);
  try {
    return await run(AbortSignal.any([signal, late.signal]));
  } catch (error) {
    if (!late.signal.aborted || signal.aborted) throw error;
    const message = `Cannot finish ${what}: it took over ${deadlineMs / 1000} s`;
    throw new AgentError("timeout", message, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

/** The configured limits of one execution of a task. */
export interface CapabilityLimits {
  /** Calls of all capabilities. */
  readonly taskCallsMax: number;
  /** Entries that it may append to the info of its job; those of log.* count. */
  readonly taskInfoEntriesMax: number;
  /** Characters of one such entry as JSON text. */
  readonly taskInfoCharsMax: number;
  /** Characters of the message of a log line; what is longer is cut. */
  readonly taskLogCharsMax: number;
}
