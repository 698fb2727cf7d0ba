// One task of a job: its body, again after a failure as often as it may, then its fallback.

import { unreachable } from "../domain/error.ts";
import type { Job } from "../domain/job/job.ts";
import type { JsonValue } from "../domain/json.ts";
import type { Task } from "../domain/job/workflow.ts";
import { pause } from "../program/loop.ts";
import type { GuestOwner } from "../sandbox/owner.ts";
import type { TaskOutcome, TaskRun } from "../sandbox/run_task.ts";
import { type JobData, jobData, jobView } from "./job_view.ts";

/** What a task came to, after all its attempts. */
export type TaskEnd =
  | { readonly kind: "success"; readonly result: JsonValue }
  | { readonly kind: "failure"; readonly error: JsonValue }
  | {
    readonly kind: "signal";
    readonly word: "queue" | "wait" | "retry" | "cancel";
    readonly result: JsonValue;
  }
  | { readonly kind: "workflow_timeout" }
  | { readonly kind: "aborted" };

export interface AttemptDeps {
  /** The job's workflow, to which the guests that it runs in belong. */
  readonly owner: GuestOwner;
  /** Runs one body or fallback behind the wall. */
  readonly run: (run: TaskRun, signal: AbortSignal) => Promise<TaskOutcome>;
  /** Milliseconds that are left of the workflow's time. */
  readonly leftMs: () => number;
  /** Whether `retry` counts the first execution too. */
  readonly retryCountsFirst: boolean;
  readonly signal: AbortSignal;
}

/** Words of a task that ran out of its own time, as document 2's clients know them. */
export const TASK_TIMEOUT = "task timeout error";

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
    // A timer may end a moment early, which is no time for another execution.
    if (attempts < executionsMax && delayMs >= leftMs) {
      return { end: { kind: "workflow_timeout" }, data, attempts };
    }
  }
  return await runFallback(job, task, { end, data, attempts }, deps);
}

/** Runs the fallback, when there is one, of a task that has failed. */
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
