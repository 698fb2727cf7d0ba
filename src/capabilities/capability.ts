// One capability: an operation of the agent that tasks call by name. Arguments come from the other
// side of the wall, so each capability parses them first.

import { AgentError } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { CapabilityName } from "../wall/protocol.ts";

/** The execution that calls capabilities. */
export interface TaskContext {
  readonly job_uuid: JobUuid;
  /** The task's name, or its uuid when it has none. */
  readonly task_name: string;
  /** Number of this attempt of the task, for the log of the job. */
  readonly attempt?: number | undefined;
  /** Aborted when the execution ends: canceled, timed out, or lost. */
  readonly signal: AbortSignal;
}

/** One call of a capability. */
export interface Call {
  readonly job_uuid: JobUuid;
  readonly task_name: string;
  /** Aborted when the task is aborted, its execution ends, or the deadline passes. */
  readonly signal: AbortSignal;
  /** Appends to the job's info for the task, within the task's limits. */
  readonly note: (entry: JsonObject) => Promise<void>;
  /** Counts a note that was dropped for being too large or too many. */
  readonly drop: () => void;
  /** Reports the progress of a long call; most reports are dropped. */
  readonly progress: (phase: ProgressPhase, done: number, total: number | null) => void;
}

/** Phase of a long call. @see docs/tasks.md, info and log */
export type ProgressPhase = "download" | "decompress" | "verify" | "copy";

/** An operation and its deadline. */
export interface Capability {
  readonly deadlineMs: number;
  perform(call: Call, args: readonly JsonValue[]): Promise<JsonValue>;
}

/** Every capability whose name begins with the prefix, so that the compiler finds a missing one. */
export type CapabilitiesOf<Prefix extends string> = Readonly<
  Record<Extract<CapabilityName, Prefix | `${Prefix}.${string}`>, Capability>
>;

/**
 * Runs with a signal that also fires at the deadline.
 * @throws {AgentError} `timeout` at the deadline
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
  /** Entries appended to the job's info, those of log.* included. */
  readonly taskInfoEntriesMax: number;
  /** Characters of one such entry as JSON text. */
  readonly taskInfoCharsMax: number;
  /** Characters of a log message; longer ones are cut. */
  readonly taskLogCharsMax: number;
}
