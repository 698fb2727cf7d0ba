// Runs one execution of a task in a guest: hands it the source, answers its capability calls while
// it runs, and tells how it ended. Time is measured here, where no task can reach the clock.

import { AgentError, messageOf } from "../domain/error.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import { HEAP_MIB_MAX } from "./guest_command.ts";
import type { GuestEnd, GuestProcess } from "./guest_process.ts";
import type { GuestPool } from "./pool.ts";
import { type EndOutcome, JOB_CHARS_MAX } from "./protocol.ts";
import { type Perform, TaskCalls } from "./task_calls.ts";

/** One execution of a body or a fallback. */
export interface TaskRun {
  readonly source: string;
  /** body: called with (job, cb); fallback: with (err, job, cb). */
  readonly kind: "body" | "fallback";
  /** What the body failed with; for a fallback. */
  readonly error?: JsonValue;
  readonly job: JsonObject;
  readonly taskName: string;
  readonly timeoutMs: number;
}

/** How an execution ended: as its guest tells it, or by what the agent did to the guest. */
export type TaskOutcome =
  | EndOutcome
  | { readonly kind: "timeout" }
  | { readonly kind: "aborted" };

export type { Perform };

/** Longest timeout that a timer takes, milliseconds: 24 days; a longer one would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;
/** Time for a guest to have nothing running any more after a task has ended, milliseconds. */
const CLOSE_DEADLINE_MS = 1000;

/**
 * Runs a task. Waits for a guest first; the time for that does not count. Whatever a body does is
 * an outcome: this throws for nothing but a defect of the agent.
 */
export async function runTask(
  pool: GuestPool,
  run: TaskRun,
  perform: Perform,
  signal: AbortSignal,
): Promise<TaskOutcome> {
  const name = JSON.stringify(run.taskName);
  const problem = pool.checkSource(run.source);
  if (problem !== undefined) return failure("SyntaxError", `The ${run.kind} of ${name} ${problem}`);
  if (JSON.stringify(run.job).length > JOB_CHARS_MAX) {
    return failure("RangeError", `Cannot run ${name}: its job is over ${JOB_CHARS_MAX} characters`);
  }
  let guest: GuestProcess;
  try {
    guest = await pool.acquire(signal);
  } catch (error) {
    if (error instanceof AgentError && error.code === "aborted") return { kind: "aborted" };
    return failure("Error", messageOf(error));
  }
  return await converse(guest, run, perform, signal, pool);
}

/** One execution from the first message to its outcome, and the guest's way back to the pool. */
async function converse(
  guest: GuestProcess,
  run: TaskRun,
  perform: Perform,
  signal: AbortSignal,
  pool: GuestPool,
): Promise<TaskOutcome> {
  const id = ++guest.runs;
  const ended = Promise.withResolvers<TaskOutcome>();
  const closed = Promise.withResolvers<void>();
  const calls = new TaskCalls(guest, id, perform);
  const onAbort = () => ended.resolve({ kind: "aborted" });
  const timeUp = () => ended.resolve({ kind: "timeout" });
  const timer = setTimeout(timeUp, Math.min(run.timeoutMs, TIMEOUT_MS_MAX));
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  guest.listen({
    message: (message) => {
      if (message.type === "ready" || message.run !== id) return guest.kill("spoke out of turn");
      if (message.type === "call") return calls.take(message);
      if (message.type === "log") return calls.log(message);
      if (message.type === "closed") return closed.resolve();
      calls.stop();
      ended.resolve(message.outcome);
    },
    lost: (end) => {
      ended.resolve(lostOutcome(run, end));
      closed.resolve();
    },
  });
  guest.send({
    type: "run",
    run: id,
    kind: run.kind,
    source: run.source,
    task_name: run.taskName,
    job: run.job,
    error: run.error ?? null,
  });

  const outcome = await ended.promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", onAbort);
  if (outcome.kind === "timeout") guest.kill("was killed: the time of its task was up");
  else if (outcome.kind === "aborted") guest.kill("was killed: its task was given up");
  else await closeRun(guest, id, closed.promise);
  await calls.end(outcome.kind !== "timeout" && outcome.kind !== "aborted");
  pool.release(guest);
  return outcome;
}

/** Ends what the task left running. A guest that does not get to it in time is not used again. */
async function closeRun(guest: GuestProcess, run: number, closed: Promise<void>): Promise<void> {
  const late = setTimeout(
    () => guest.kill("was killed: its task ran on after its end"),
    CLOSE_DEADLINE_MS,
  );
  guest.send({ type: "close", run });
  await closed;
  clearTimeout(late);
}

function lostOutcome(run: TaskRun, end: GuestEnd): TaskOutcome {
  const limit = end.outOfMemory ? ` (the limit is ${HEAP_MIB_MAX} MiB)` : "";
  return failure(
    end.outOfMemory ? "OutOfMemory" : "GuestLost",
    `Task ${JSON.stringify(run.taskName)} was lost: its process ${end.words}${limit}`,
  );
}

function failure(name: string, message: string): TaskOutcome {
  return { kind: "failure", error: { name, message }, job: null };
}
