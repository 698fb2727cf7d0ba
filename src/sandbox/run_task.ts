// Runs one execution of a task in a guest: sends the source, answers capability calls, and reports the result. The time
// is measured on this side, because a task could tamper with a clock in its guest.

import { AgentError, isAway, messageOf } from "../domain/error.ts";
import { ENGINE_FIELDS } from "../domain/job/wire.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { WatchedGuest } from "./lease_watch.ts";
import type { GuestOwner, GuestProcess } from "./process.ts";
import type { ProcessEnd } from "./walled_process.ts";
import { callAfter, TIMER_MS_MAX } from "../runtime/timers.ts";
import { type EndOutcome, TASK_NAME_CHARS_MAX } from "../wall/protocol.ts";
import { JOB_CHARS_MAX } from "../wall/task_limits.ts";
import { GuestCalls, type Perform } from "./task_calls.ts";

/** One execution of a body or a fallback. */
export interface TaskRun {
  /** The workflow whose guests may run it. */
  readonly owner: GuestOwner;
  readonly source: string;
  /** body: called with (job, cb); fallback: with (err, job, cb). */
  readonly kind: "body" | "fallback";
  /** The body's error, for a fallback. */
  readonly error?: JsonValue;
  readonly job: JsonObject;
  readonly taskName: string;
  readonly timeoutMs: number;
  /** Settles when the task may act; its capability calls wait until then. Without it, the task may act immediately. */
  readonly mayAct?: () => Promise<void>;
  /** Watches the process of the guest until the execution ends. */
  readonly watch?: (pid: number) => Pick<WatchedGuest, "end">;
}

/** Guests, lent for one execution at a time. */
export interface LentGuests {
  /**
   * Lends a guest until `release`. It has served only this workflow and never serves another. Waits
   * while all are busy or starting.
   * @throws {AgentError} `aborted`; `overloaded` naming the cause when guests do not start
   */
  acquire(owner: GuestOwner, signal: AbortSignal): Promise<GuestProcess>;
  /** Takes a guest back; a dead one is replaced. */
  release(guest: GuestProcess): void;
  /**
   * Why a source may not run, worded to follow the name of the task, or undefined. It is the rule for
   * new workflows, which may have changed since the workflow was accepted. Answers are cached.
   * @throws {AgentError} when the source could not be read; `overloaded` when no decoder started to read it; `aborted`
   *   by the signal
   */
  readonly checkSource: (source: string, signal: AbortSignal) => Promise<string | undefined>;
}

/** Result of an execution: as its guest reports it, or by the agent's action on the guest. */
export type TaskOutcome =
  | EndOutcome
  | { readonly kind: "timeout" }
  | { readonly kind: "aborted" }
  /** No process started for it, which is no fault of the task; `why` is an error message. */
  | { readonly kind: "not_started"; readonly why: string };

/** Time for a guest to stop running a task that has ended, milliseconds. */
const CLOSE_DEADLINE_MS = 1000;
/** Fields named in the error for a job that is too large. */
const LARGEST_FIELDS = 3;

/**
 * Runs a task. It first waits for a guest, which does not count as the task's time. Errors of a body are outcomes: this
 * throws only for a defect of the agent. It settles after the capability calls have ended, so that what runs next, such
 * as the undo of a machine, does not overtake them.
 */
export async function runTask(
  pool: LentGuests,
  given: TaskRun,
  perform: Perform,
  signal: AbortSignal,
): Promise<TaskOutcome> {
  // The name is cut, because every error repeats it and no rule limits its length.
  const run = { ...given, taskName: given.taskName.slice(0, TASK_NAME_CHARS_MAX) };
  const name = JSON.stringify(run.taskName);
  let problem: string | undefined;
  try {
    problem = await pool.checkSource(run.source, signal);
  } catch (error) {
    return neverRun(error);
  }
  if (problem !== undefined) return failure("SyntaxError", `The ${run.kind} of ${name} ${problem}`);
  const job = JSON.stringify(run.job);
  if (job.length > JOB_CHARS_MAX) {
    const why = tooLarge(run.job, job.length);
    return failure("RangeError", `Cannot run ${name}: ${why}`);
  }
  let guest: GuestProcess;
  try {
    guest = await pool.acquire(run.owner, signal);
  } catch (error) {
    return neverRun(error);
  }
  guest.runs += 1;
  const watched = run.watch?.(guest.pid);
  const calls = new GuestCalls(guest, guest.runs, gated(perform, run.mayAct));
  const outcome = await execute(guest, run, calls, signal, () =>
    guest.send({
      type: "run",
      run: guest.runs,
      kind: run.kind,
      source: run.source,
      task_name: run.taskName,
      engine_fields: engineFields(run.job),
      job,
      error: JSON.stringify(run.error ?? null),
    }));
  void watched?.end();
  pool.release(guest);
  await calls.end(outcome.kind !== "timeout" && outcome.kind !== "aborted");
  return outcome;
}

/** Performs a call once the task may act, unless the call has ended by then. */
function gated(perform: Perform, mayAct: TaskRun["mayAct"]): Perform {
  if (mayAct === undefined) return perform;
  return async (name, args, signal) => {
    await mayAct();
    if (signal.aborted) throw new AgentError("aborted", `Cannot call ${name}: the task has ended`);
    return await perform(name, args, signal);
  };
}

/** Outcome of a task that got no guest, or whose source could not be read. */
function neverRun(error: unknown): TaskOutcome {
  if (error instanceof AgentError && error.code === "aborted") return { kind: "aborted" };
  if (isAway(error)) return { kind: "not_started", why: messageOf(error) };
  return failure("Error", messageOf(error));
}

/** One execution, from `begin` until nothing of it runs in the guest any more. */
function execute(
  guest: GuestProcess,
  run: TaskRun,
  calls: GuestCalls,
  signal: AbortSignal,
  begin: () => void,
): Promise<TaskOutcome> {
  const { promise, resolve } = Promise.withResolvers<TaskOutcome>();
  let outcome: TaskOutcome | undefined;
  const stop = (cause: TaskOutcome, why: string) => {
    outcome ??= cause;
    guest.kill(why);
  };
  const abort = () => stop({ kind: "aborted" }, "was killed: its task was aborted");
  let cancelTimer = callAfter(
    Math.min(run.timeoutMs, TIMER_MS_MAX),
    () => stop({ kind: "timeout" }, "was killed: the time of its task was up"),
  );
  signal.addEventListener("abort", abort, { once: true });
  const over = (final: TaskOutcome) => {
    cancelTimer();
    signal.removeEventListener("abort", abort);
    resolve(final);
  };
  guest.listen({
    message: (message): Promise<void> | void => {
      const ours = message.type !== "ready" && message.run === guest.runs;
      if (!ours || (outcome !== undefined) !== (message.type === "closed")) {
        return guest.kill("spoke out of turn");
      }
      if (message.type === "call") return calls.take(message);
      if (message.type === "log") return calls.log(message);
      if (message.type === "end") {
        outcome = message.outcome;
        calls.stop();
        cancelTimer();
        // A guest whose task keeps running is not used again.
        const late = () => guest.kill("was killed: its task ran on after its end");
        cancelTimer = callAfter(CLOSE_DEADLINE_MS, late);
      } else if (outcome !== undefined) {
        over(outcome);
        if (message.type === "closed" && message.spent) {
          guest.kill("was replaced: its task left it too little memory");
        }
      }
    },
    lost: (end) => over(outcome ?? lostOutcome(run, end)),
  });
  if (signal.aborted) abort();
  else begin();
  return promise;
}

function lostOutcome(run: TaskRun, { words, outOfMemory }: ProcessEnd): TaskOutcome {
  const name = outOfMemory ? "OutOfMemory" : "GuestLost";
  return failure(name, `Task ${JSON.stringify(run.taskName)} was lost: its process ${words}`);
}

/** Names of job fields that only the engine sets: they need not come back from a task. */
function engineFields(job: JsonObject): string {
  return Object.keys(job).filter((name) => ENGINE_FIELDS.has(name)).join(" ");
}

/** Why a job is too large to run, naming its largest fields. */
function tooLarge(job: JsonObject, chars: number): string {
  const fields = Object.entries(job)
    .map(([name, value]) => ({ name, chars: JSON.stringify(value).length }))
    .sort((one, other) => other.chars - one.chars)
    .slice(0, LARGEST_FIELDS)
    .map(({ name, chars }) => `${name} ${chars}`);
  return `its job has ${chars} characters of JSON (${fields.join(", ")}), ` +
    `expected at most ${JOB_CHARS_MAX}`;
}

function failure(name: string, message: string): TaskOutcome {
  return { kind: "failure", error: { name, message }, job: null };
}
