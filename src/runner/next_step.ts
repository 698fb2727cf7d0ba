// One task of a job: its attempts, its end, and what that means for the job.

import { unreachable } from "../domain/error.ts";
import { msBetween, notBefore, type Now } from "../domain/instant.ts";
import {
  type FailedAttempt,
  type Job,
  phaseOf,
  TASK_TIMEOUT,
  type TaskResult,
  WORKFLOW_TIMEOUT,
} from "../domain/job/job.ts";
import type { TaskEvent } from "../domain/job/state.ts";
import { NOT_TAKEN } from "../domain/taking.ts";
import { type JobData, jobData, jobView, type PhaseTime } from "./job_view.ts";
import type { JsonValue } from "../domain/json.ts";
import { type Task, taskName } from "../domain/job/workflow.ts";
import { pause } from "../runtime/wait.ts";
import type { GuestOwner } from "../sandbox/process.ts";
import type { Executor } from "./attempt.ts";
import type { JobStops } from "./running_job.ts";
import type { SignalWord } from "../wall/protocol.ts";

/** Milliseconds after which a fallback asks for a guest again, after none has started. */
const NOT_STARTED_WAIT_MS = 1_000;

/** The ends that have an entry. A task that was aborted, left between two attempts or not started has none. */
export type RecordedEnd = Exclude<TaskEnd, { kind: "aborted" | "left" | "not_started" }>;

/** The `result` and `error` of a task's entry. @see document 2, Job */
export function entryOf(end: RecordedEnd): Pick<TaskResult, "result" | "error"> {
  switch (end.kind) {
    case "success":
      return { result: end.result, error: "" };
    case "failure":
      return { result: "", error: end.error };
    case "refused":
      return { result: "", error: { code: NOT_TAKEN, message: end.words } };
    case "signal":
      return { result: end.result, error: end.word };
    case "workflow_timeout":
      return { result: "", error: WORKFLOW_TIMEOUT };
    default:
      return unreachable(end);
  }
}

/** Translates the end of a task into an event of its job. @param last whether it was the last task of its phase */
export function eventOf(job: Job, end: RecordedEnd, last: boolean): TaskEvent {
  switch (end.kind) {
    case "success":
      return { kind: last ? "succeed" : "continue" };
    case "failure":
    case "workflow_timeout":
      return { kind: "fail", onerror: job.onerror.length > 0 };
    case "refused":
      return { kind: "fail", onerror: false };
    case "signal":
      if (end.word !== "cancel") return { kind: `cb_${end.word}` };
      return { kind: "cb_cancel", oncancel: job.oncancel.length > 0 };
    default:
      return unreachable(end);
  }
}

/** How a task ended after all of its attempts. */
type TaskEnd =
  | { readonly kind: "success"; readonly result: JsonValue }
  | { readonly kind: "failure"; readonly error: JsonValue }
  /** The host's policy refuses the job: none of its tasks runs, not even those of its onerror chain. */
  | { readonly kind: "refused"; readonly words: string }
  | {
    readonly kind: "signal";
    readonly word: SignalWord;
    readonly result: JsonValue;
  }
  | { readonly kind: "workflow_timeout" }
  | { readonly kind: "aborted" }
  /** The agent stopped while the task waited for its next attempt, which the next agent makes. */
  | { readonly kind: "left" }
  /** No guest started for the attempt, which a later claim makes. */
  | { readonly kind: "not_started"; readonly why: string };

/** What is needed to run a task, besides the job and the task. */
export interface AttemptDeps {
  /** The workflow of the job, which owns the guests that run it. */
  readonly owner: GuestOwner;
  readonly executor: Executor;
  readonly now: Now;
  readonly time: PhaseTime;
  /** Whether `retry` also counts the first execution. */
  readonly retryCountsFirst: boolean;
  readonly signal: AbortSignal;
  /** Stopped when no further attempt may start on this agent. */
  readonly drain: JobStops["drain"];
}

/** How a task ended, and the job's data after it. */
export interface Attempts {
  readonly end: TaskEnd;
  readonly data: JobData;
  /** How often the body has run, including the first time. */
  readonly attempts: number;
  /** The failed attempts that are recorded with the end of the task. */
  readonly failed: readonly FailedAttempt[];
}

/**
 * Runs a task to its end, continuing after attempts that failed earlier: the body is repeated as often as allowed, then
 * the fallback runs. It does not throw for errors of a body.
 */
export async function runAttempts(
  job: Job,
  task: Task,
  before: JobData,
  deps: AttemptDeps,
): Promise<Attempts> {
  const executionsMax = Math.max((task.retry ?? 0) + (deps.retryCountsFirst ? 0 : 1), 1);
  let data = before;
  let { failures } = job;
  // If the setting `compat` has changed, more attempts may have failed than are allowed now.
  let attempts = Math.min(failures, executionsMax - 1);
  const ends = (end: TaskEnd, failed: readonly FailedAttempt[] = []) =>
    ({ end, data, attempts, failed }) as const;
  const delayMs = (task.retry_delay ?? 0) * 1000;
  let waited = await waitForAttempt(restOfDelay(job, delayMs), deps);
  for (;;) {
    if (waited !== "due") return ends({ kind: waited });
    attempts += 1;
    const one = await execute(job, task, "body", data, attempts, deps);
    data = one.data;
    if (one.end.kind !== "failure") return ends(one.end, failuresOf(one));
    if (deps.signal.aborted) return ends({ kind: "aborted" });
    if (attempts >= executionsMax) {
      const failed = { ...ends(one.end, failuresOf(one)), end: one.end };
      return await runFallback(job, task, failed, deps);
    }
    const attempt = { ...one.attempt, wait_seconds: delayMs / 1000 };
    const owned = await deps.executor.recordFailed(job, { ...data, attempt, failures });
    if (!owned) return ends({ kind: "aborted" });
    failures += 1;
    waited = await waitForAttempt(delayMs, deps);
  }
}

/**
 * The rest of the retry delay at the start of this claim. Both times are of the store's clock, not of this host's. The
 * rest is at most the whole delay, even if that clock was set back.
 */
function restOfDelay({ retry_at, elapsed_at }: Job, delayMs: number): number {
  if (retry_at === null || elapsed_at === null) return 0;
  return Math.min(Math.max(msBetween(elapsed_at, retry_at), 0), delayMs);
}

/**
 * Waits for the next attempt. A timer may fire slightly early, so an attempt that is due when the workflow's time ends
 * counts as too late.
 */
async function waitForAttempt(
  waitMs: number,
  { time, signal, drain }: AttemptDeps,
): Promise<"due" | "aborted" | "left" | "workflow_timeout"> {
  const left = time.leftMs();
  if (waitMs > 0) await pause(Math.min(waitMs, left), AbortSignal.any([signal, drain.signal]));
  if (signal.aborted) return "aborted";
  if (drain.stopped) return "left";
  return waitMs >= left || time.leftMs() <= 0 ? "workflow_timeout" : "due";
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
  const one = await execute(job, task, "fallback", data, attempts, deps, end.error);
  return { ...one, attempts, failed: [...failed.failed, ...failuresOf(one)] };
}

/** One execution of a body or fallback; `attempt` is its record, if it failed. */
interface OneRun {
  readonly end: TaskEnd;
  readonly data: JobData;
  readonly attempt: FailedAttempt;
}

function failuresOf({ end, attempt }: OneRun): FailedAttempt[] {
  return end.kind === "failure" || end.kind === "workflow_timeout" ? [attempt] : [];
}

async function execute(
  job: Job,
  task: Task,
  kind: "body" | "fallback",
  before: JobData,
  counted: number,
  deps: AttemptDeps,
  error?: JsonValue,
): Promise<OneRun> {
  const started_at = deps.now();
  const { end, data } = await runOnce(job, task, kind, before, counted, deps, error);
  const now = deps.now();
  const fallback = kind === "fallback";
  return {
    end,
    data,
    attempt: {
      task: taskName(task),
      index: phaseOf(job).results.length,
      attempt: job.starts - 1 + counted + (fallback ? 1 : 0),
      fallback,
      error: end.kind === "failure" ? end.error : WORKFLOW_TIMEOUT,
      started_at,
      finished_at: notBefore(started_at, now),
      wait_seconds: null,
    },
  };
}

async function runOnce(
  job: Job,
  task: Task,
  kind: "body" | "fallback",
  before: JobData,
  counted: number,
  deps: AttemptDeps,
  error?: JsonValue,
): Promise<{ end: TaskEnd; data: JobData }> {
  const { time } = deps;
  const leftMs = time.leftMs();
  if (leftMs <= 0) return { end: { kind: "workflow_timeout" }, data: before };
  const attempt = job.starts - 1 + counted;
  const ownMs = task.timeout === undefined ? Number.POSITIVE_INFINITY : task.timeout * 1000;
  const run = {
    owner: deps.owner,
    source: kind === "body" ? task.body : task.fallback ?? "",
    kind,
    ...(error === undefined ? {} : { error }),
    job: jobView(job, before, attempt),
    taskName: taskName(task),
    timeoutMs: Math.min(ownMs, leftMs),
  };
  let outcome = await deps.executor.run(job, run, attempt, deps.signal);
  while (outcome.kind === "not_started") {
    // Waiting for a guest that did not start does not use the workflow's time.
    time.leaveOut(leftMs - time.leftMs());
    if (kind === "body") break;
    // A later claim would run the body again, so a fallback waits for its guest here.
    await pause(NOT_STARTED_WAIT_MS, deps.signal);
    outcome = await deps.executor.run(job, run, attempt, deps.signal);
  }
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
    case "not_started":
      return { end: outcome, data: before };
    default:
      return unreachable(outcome);
  }
}
