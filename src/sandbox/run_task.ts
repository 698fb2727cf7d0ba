// Runs one execution of a task in a guest: hands it the source, answers its capability calls while
// it runs, and tells how it ended. Time is measured here, where no task can reach the clock.

import { AgentError, messageOf } from "../domain/error.ts";
import { ENGINE_FIELDS } from "../domain/job/wire.ts";
import type { JsonObject, JsonValue } from "../domain/json.ts";
import type { GuestOwner } from "./owner.ts";
import type { GuestProcess } from "./process.ts";
import type { GuestPool } from "./pool.ts";
import type { ProcessEnd } from "./process_output.ts";
import { type EndOutcome, TASK_NAME_CHARS_MAX } from "./protocol.ts";
import { type Perform, TaskCalls } from "./task_calls.ts";

/** One execution of a body or a fallback. */
export interface TaskRun {
  /** The workflow whose guests may run it. */
  readonly owner: GuestOwner;
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
/** Time for a guest to have nothing running any more after its task has ended, milliseconds. */
const CLOSE_DEADLINE_MS = 1000;
/** Fields of a job that are named when it is too large. */
const LARGEST_FIELDS = 3;

/**
 * Runs a task. Waits for a guest first; the time for that does not count. Whatever a body does is
 * an outcome: this throws for nothing but a defect of the agent.
 */
export async function runTask(
  pool: Pick<GuestPool, "acquire" | "release" | "limits" | "checkSource">,
  given: TaskRun,
  perform: Perform,
  signal: AbortSignal,
): Promise<TaskOutcome> {
  // Every error repeats it, and no rule bounds it.
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
  const { jobCharsMax } = pool.limits;
  if (job.length > jobCharsMax) {
    const why = tooLarge(run.job, job.length, jobCharsMax);
    return failure("RangeError", `Cannot run ${name}: ${why}`);
  }
  let guest: GuestProcess;
  try {
    guest = await pool.acquire(run.owner, signal);
  } catch (error) {
    return neverRun(error);
  }
  guest.runs += 1;
  const calls = new TaskCalls(guest, guest.runs, perform, pool.limits);
  const outcome = await converse(guest, run, calls, signal, () =>
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
  pool.release(guest);
  await calls.end(outcome.kind !== "timeout" && outcome.kind !== "aborted");
  return outcome;
}

/** The outcome of a task that got no guest, or whose source could not be read. */
function neverRun(error: unknown): TaskOutcome {
  if (error instanceof AgentError && error.code === "aborted") return { kind: "aborted" };
  return failure("Error", messageOf(error));
}

/** One execution, begun by `begin`, until nothing of it runs in the guest any more. */
function converse(
  guest: GuestProcess,
  run: TaskRun,
  calls: TaskCalls,
  signal: AbortSignal,
  begin: () => void,
): Promise<TaskOutcome> {
  const { promise, resolve } = Promise.withResolvers<TaskOutcome>();
  let outcome: TaskOutcome | undefined;
  const stop = (cause: TaskOutcome, why: string) => {
    outcome ??= cause;
    guest.kill(why);
  };
  const abort = () => stop({ kind: "aborted" }, "was killed: its task was given up");
  let timer = setTimeout(
    () => stop({ kind: "timeout" }, "was killed: the time of its task was up"),
    Math.min(run.timeoutMs, TIMEOUT_MS_MAX),
  );
  signal.addEventListener("abort", abort, { once: true });
  const over = (told: TaskOutcome) => {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
    resolve(told);
  };
  guest.listen({
    message: (message) => {
      const ours = message.type !== "ready" && message.run === guest.runs;
      if (!ours || (outcome !== undefined) !== (message.type === "closed")) {
        return guest.kill("spoke out of turn");
      }
      if (message.type === "call") return calls.take(message);
      if (message.type === "log") return calls.log(message);
      if (message.type === "end") {
        outcome = message.outcome;
        calls.stop();
        clearTimeout(timer);
        // A guest in which the task runs on is not used again.
        const late = () => guest.kill("was killed: its task ran on after its end");
        timer = setTimeout(late, CLOSE_DEADLINE_MS);
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

/** Names of the fields of a job that only the engine sets: they need not come back from a task. */
function engineFields(job: JsonObject): string {
  return Object.keys(job).filter((name) => ENGINE_FIELDS.has(name)).join(" ");
}

/** Why a job is not run, with the fields that make it so large. */
function tooLarge(job: JsonObject, chars: number, charsMax: number): string {
  const fields = Object.entries(job)
    .map(([name, value]) => ({ name, chars: JSON.stringify(value).length }))
    .sort((one, other) => other.chars - one.chars)
    .slice(0, LARGEST_FIELDS)
    .map(({ name, chars }) => `${name} ${chars}`);
  return `its job has ${chars} characters of JSON (${fields.join(", ")}), ` +
    `and may have ${charsMax}`;
}

function failure(name: string, message: string): TaskOutcome {
  return { kind: "failure", error: { name, message }, job: null };
}
