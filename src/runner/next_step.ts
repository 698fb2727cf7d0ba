// One task of a job: its input, its end, and what that means for the job.

import { unreachable } from "../domain/error.ts";
import { type Instant, instantAfter } from "../domain/instant.ts";
import { type Job, type NewJob, phaseOf, type TaskResult } from "../domain/job/job.ts";
import { executionOf, type Move, startsAfter, type TaskEvent } from "../domain/job/state.ts";
import { type JobData, jobData, jobView } from "./job_view.ts";
import type { JsonValue } from "../domain/json.ts";
import type { Task, Workflow } from "../domain/job/workflow.ts";
import { pause } from "../program/loop.ts";
import type { GuestOwner } from "../sandbox/owner.ts";
import type { TaskOutcome, TaskRun } from "../sandbox/run_task.ts";
import type { JobUuid } from "../domain/id.ts";
import type { SignalWord } from "../wall/protocol.ts";

/** Error of a chain that exceeded its workflow's time. */
const WORKFLOW_TIMEOUT = "workflow timeout";

/** An end with a record; an aborted task leaves none. */
export type RecordedEnd = Exclude<TaskEnd, { kind: "aborted" }>;

/** The `result` and `error` of a task's entry. @see document 2, Job */
export function entryOf(end: RecordedEnd): Pick<TaskResult, "result" | "error"> {
  switch (end.kind) {
    case "success":
      return { result: end.result, error: "" };
    case "failure":
      return { result: "", error: end.error };
    case "signal":
      return { result: end.result, error: end.word };
    case "workflow_timeout":
      return { result: "", error: WORKFLOW_TIMEOUT };
    default:
      return unreachable(end);
  }
}

/**
 * The event that a task's end is for its job.
 * @param last whether it was the last task of its phase
 */
export function eventOf(job: Job, end: RecordedEnd, last: boolean): TaskEvent {
  switch (end.kind) {
    case "success":
      return { kind: last ? "succeed" : "continue" };
    case "failure":
    case "workflow_timeout":
      return { kind: "fail", onerror: job.onerror.length > 0 };
    case "signal":
      if (end.word !== "cancel") return { kind: `cb_${end.word}` };
      return { kind: "cb_cancel", oncancel: job.oncancel.length > 0 };
    default:
      return unreachable(end);
  }
}

/** The job after a move, for the runner to continue with. */
export function jobAfter(job: Job, move: Move, data: JobData, entry?: TaskResult): Job {
  const results = entry === undefined
    ? {}
    : { [`${job.phase}_results`]: [...phaseOf(job).results, entry] };
  return {
    ...job,
    ...data,
    ...results,
    starts: startsAfter(move, job.starts),
    execution: executionOf(move.to),
    phase: move.phase,
  };
}

// Attempts: the body, repeated after failures as often as allowed, then the fallback.

/** Result of a task after all attempts. */
type TaskEnd =
  | { readonly kind: "success"; readonly result: JsonValue }
  | { readonly kind: "failure"; readonly error: JsonValue }
  | {
    readonly kind: "signal";
    readonly word: SignalWord;
    readonly result: JsonValue;
  }
  | { readonly kind: "workflow_timeout" }
  | { readonly kind: "aborted" };

/** What a task needs to be run, besides the job and the task. */
export interface AttemptDeps {
  /** The job's workflow, which owns the guests that run it. */
  readonly owner: GuestOwner;
  /** Runs one body or fallback in a guest. */
  readonly run: (run: TaskRun, signal: AbortSignal) => Promise<TaskOutcome>;
  /** Milliseconds left of the workflow's time. */
  readonly leftMs: () => number;
  /** Whether `retry` also counts the first execution. */
  readonly retryCountsFirst: boolean;
  readonly signal: AbortSignal;
}

/** Error of a task that exceeded its own time, as clients of document 2 know it. */
const TASK_TIMEOUT = "task timeout error";

/** How a task ended, and what its executions left in the job. */
export interface Attempts {
  readonly end: TaskEnd;
  readonly data: JobData;
  /** Executions of the body. */
  readonly attempts: number;
}

/** Runs a task to its end. Never throws for what a body does. */
export async function runAttempts(
  job: Job,
  task: Task,
  before: JobData,
  deps: AttemptDeps,
): Promise<Attempts> {
  const executionsMax = Math.max((task.retry ?? 0) + (deps.retryCountsFirst ? 0 : 1), 1);
  let data = before;
  let end: TaskEnd = { kind: "failure", error: "" };
  let attempts = 0;
  while (attempts < executionsMax) {
    if (deps.leftMs() <= 0) return { end: { kind: "workflow_timeout" }, data, attempts };
    attempts += 1;
    ({ end, data } = await execute(job, task, "body", data, attempts, deps));
    if (end.kind !== "failure") return { end, data, attempts };
    const delayMs = (task.retry_delay ?? 0) * 1000;
    const leftMs = deps.leftMs();
    if (attempts < executionsMax && delayMs > 0) {
      await pause(Math.min(delayMs, leftMs), deps.signal);
    }
    if (deps.signal.aborted) return { end: { kind: "aborted" }, data, attempts };
    // A timer may end a moment early, which leaves no time for another execution.
    if (attempts < executionsMax && delayMs >= leftMs) {
      return { end: { kind: "workflow_timeout" }, data, attempts };
    }
  }
  return await runFallback(job, task, { end, data, attempts }, deps);
}

/** Runs the fallback, if any, of a failed task. */
export async function runFallback(
  job: Job,
  task: Task,
  failed: Attempts & { readonly end: { readonly kind: "failure" } },
  deps: AttemptDeps,
): Promise<Attempts> {
  if (task.fallback === undefined) return failed;
  const { data, attempts, end } = failed;
  return { ...await execute(job, task, "fallback", data, attempts, deps, end.error), attempts };
}

async function execute(
  job: Job,
  task: Task,
  kind: "body" | "fallback",
  before: JobData,
  attempt: number,
  deps: AttemptDeps,
  error?: JsonValue,
): Promise<{ end: TaskEnd; data: JobData }> {
  const leftMs = deps.leftMs();
  if (leftMs <= 0) return { end: { kind: "workflow_timeout" }, data: before };
  const ownMs = task.timeout === undefined ? Number.POSITIVE_INFINITY : task.timeout * 1000;
  const outcome = await deps.run({
    owner: deps.owner,
    source: kind === "body" ? task.body : task.fallback ?? "",
    kind,
    ...(error === undefined ? {} : { error }),
    job: jobView(job, before, job.starts - 1 + attempt),
    taskName: task.name ?? task.uuid,
    timeoutMs: Math.min(ownMs, leftMs),
  }, deps.signal);
  switch (outcome.kind) {
    case "success":
      return {
        end: { kind: "success", result: outcome.result },
        data: jobData(outcome.job, before),
      };
    case "failure":
      return { end: { kind: "failure", error: outcome.error }, data: jobData(outcome.job, before) };
    case "signal":
      return {
        end: { kind: "signal", word: outcome.word, result: outcome.result },
        data: jobData(outcome.job, before),
      };
    case "timeout":
      return {
        end: ownMs <= leftMs
          ? { kind: "failure", error: TASK_TIMEOUT }
          : { kind: "workflow_timeout" },
        data: before,
      };
    case "aborted":
      return { end: { kind: "aborted" }, data: before };
    default:
      return unreachable(outcome);
  }
}

// The job that replaces another after `cb('retry')`. Workflows were written for node-workflow,
// which takes any value; only sensible numbers count here.

/** Jobs in all, including the first, when the workflow has no `max_attempts`. */
const ATTEMPTS_OF_A_JOB = 10;
/** Longest delay: ten years. More could leave the range of dates that sort as text. */
const DELAY_MS_MAX = 10 * 365 * 86_400_000;
/** Doublings after which every delay is the longest; also keeps zero from becoming NaN. */
const DOUBLINGS_MAX = 40;

/** The next attempt, from the current workflow; null when this job was the last. */
export function successorOf(
  job: Job,
  workflow: Workflow,
  uuid: JobUuid,
  now: Instant,
): NewJob | null {
  const attempt = numberOr(job.props.num_attempts, 0);
  if (attempt + 1 >= numberOr(workflow.max_attempts, ATTEMPTS_OF_A_JOB)) return null;
  const delayMs = Math.min(
    numberOr(workflow.initial_delay, 0) * 2 ** Math.min(attempt, DOUBLINGS_MAX),
    numberOr(workflow.max_delay, DELAY_MS_MAX),
    DELAY_MS_MAX,
  );
  return {
    uuid,
    workflow,
    exec_after: instantAfter(now, delayMs),
    target: job.target,
    locks: job.locks,
    callback_url: job.callback_url,
    params: job.params,
    props: { num_attempts: attempt + 1, prev_attempt: job.uuid },
    created_at: now,
  };
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : otherwise;
}
