// What becomes of a job after the end of a task: pure, and the only place that decides it.

import { unreachable } from "../domain/error.ts";
import type { Instant } from "../domain/instant.ts";
import { type Job, type NewJob, phaseOf, type TaskResult } from "../domain/job/job.ts";
import type { Execution } from "../domain/job/state.ts";
import type { NextStep } from "../store/job_store.ts";
import type { JobData } from "./job_view.ts";
import type { TaskEnd } from "./run_attempts.ts";

/** Words of a chain that ran out of its workflow's time. */
export const WORKFLOW_TIMEOUT = "workflow timeout";

/** An end that is recorded; an aborted task leaves no result. */
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
 * The next step of a job whose present task ended so.
 * @param last whether it was the last task of its phase
 * @param successor makes the job that a `retry` asks for, or null when there may be none
 */
export function nextStep(
  job: Job,
  end: RecordedEnd,
  last: boolean,
  now: Instant,
  successor: () => NewJob | null,
): NextStep {
  switch (end.kind) {
    case "success":
      return last ? endOfPhase(job, "done") : { kind: "continue" };
    case "failure":
    case "workflow_timeout":
      return endOfPhase(job, "failed");
    case "signal":
      if (job.phase === "oncancel") return endOfPhase(job, "failed");
      switch (end.word) {
        case "queue":
          return { kind: "queued", claimable_at: now };
        case "wait":
          return { kind: "waiting" };
        case "cancel":
          return { kind: "canceled", oncancel: job.oncancel.length > 0 };
        case "retry":
          return { kind: "retried", successor: successor() };
        default:
          return unreachable(end.word);
      }
    default:
      return unreachable(end);
  }
}

/** A phase whose tasks are all done, or of which one has failed. */
export function endOfPhase(job: Job, how: "done" | "failed"): NextStep {
  switch (job.phase) {
    case "chain":
      if (how === "done") return { kind: "finished", execution: "succeeded" };
      return job.onerror.length > 0
        ? { kind: "onerror" }
        : { kind: "finished", execution: "failed" };
    case "onerror":
      return { kind: "finished", execution: "failed" };
    case "oncancel":
      return { kind: "cancel_done" };
    default:
      return unreachable(job.phase);
  }
}

/** Whether the runner goes on with the job after this step. */
export function keepsSlot(next: NextStep): boolean {
  return next.kind === "continue" || next.kind === "onerror" ||
    (next.kind === "canceled" && next.oncancel);
}

/** The job as it is once this step is written, for the runner that goes on with it. */
export function jobAfter(job: Job, next: NextStep, data: JobData, entry?: TaskResult): Job {
  const results = entry === undefined
    ? {}
    : { [`${job.phase}_results`]: [...phaseOf(job).results, entry] };
  const written = { ...job, ...data, ...results, starts: 1, execution: executionAfter(job, next) };
  if (next.kind === "onerror") return { ...written, phase: "onerror" };
  return next.kind === "canceled" && next.oncancel ? { ...written, phase: "oncancel" } : written;
}

function executionAfter(job: Job, next: NextStep): Execution {
  switch (next.kind) {
    case "continue":
    case "onerror":
    case "cancel_done":
      return job.execution;
    case "finished":
      return next.execution;
    case "queued":
    case "waiting":
    case "retried":
    case "canceled":
      return next.kind;
    default:
      return unreachable(next);
  }
}
