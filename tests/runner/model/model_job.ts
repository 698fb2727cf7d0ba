// A job in the model of the runner: plain data, and what can be told of it alone.

import type { JobUuid } from "../../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../../src/domain/instant.ts";
import type { Job, NewJob } from "../../../src/domain/job/job.ts";
import { isFinal, type Phase } from "../../../src/domain/job/state.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../../../src/domain/json.ts";
import type { Task, Workflow } from "../../../src/domain/job/workflow.ts";

/** The result of one task. */
export interface Entry {
  error: JsonValue;
  result: JsonValue;
  readonly name: string;
  readonly attempts: number;
}

/** What the runner has of a job while it holds it. */
export interface Run {
  /** When the phase would have begun without interruptions. */
  beganMs: number;
  executions: number;
  seen: number;
  open?: { readonly kind: "body" | "fallback"; readonly ownTime: boolean; readonly atMs: number };
  failure?: JsonValue;
  fallenBack?: boolean;
  end?: { readonly word: string; readonly error: JsonValue; readonly result: JsonValue };
}

/** A job as the model knows it. */
export interface ModelJob {
  readonly uuid: JobUuid;
  readonly workflow: Workflow;
  readonly target: string | null;
  readonly key: string;
  readonly params: JsonObject;
  readonly attempt: number;
  execution: Job["execution"];
  phase: Phase;
  readonly results: Record<Phase, Entry[]>;
  /** Ends of bodies that were recorded, as they count them on the job. */
  seen: number;
  starts: number;
  elapsedMs: number;
  /** The same of the phases before. */
  phasesMs: number;
  /** Until when the time was counted. */
  elapsedAt: Instant;
  /** Attempts of the present task that were written as failed. */
  failures: number;
  begun: boolean;
  /** Whether another job was made of it. */
  anew: boolean;
  lease: number;
  /** From when on it may be claimed; null when it may not. */
  readyAt: Instant | null;
  /**
   * Whether that time has come: it may have been seen, it was seen. What was seen to be ready stays
   * so when the clock is set back.
   */
  ready: "no" | "maybe" | "yes";
  held: boolean;
  run?: Run;
  /** What has begun of it while its claim is on its way: nothing of it counts before. */
  ahead?: Run;
}

/** Starts of a task after which it is not begun again. */
const STARTS_MAX = 3;

/** What runs of a job, whether its claim is written or on its way. */
export function runOf({ ahead, run }: ModelJob): Run | undefined {
  return ahead ?? run;
}

/** Whether a task of the job is not begun any more, after so many starts without a result. */
export function isInterrupted({ starts }: ModelJob): boolean {
  return starts > STARTS_MAX;
}

/** Whether the body is what runs next: after a failure it does as often as it may. */
export function bodyIsNext(job: ModelJob, task: Task): boolean {
  return !isInterrupted(job) && (runOf(job)?.executions ?? 0) <= (task.retry ?? 0);
}

/** Whether the fallback may run: once, and after an interruption for good it has one start. */
export function mayFallBack(job: ModelJob, task: Task): boolean {
  const again = runOf(job)?.fallenBack === true;
  return task.fallback !== undefined && !again && job.starts <= STARTS_MAX + 1;
}

/** The tasks of the phase that a job is in. */
export function tasksOf({ workflow, phase }: ModelJob): readonly Task[] {
  return workflow[phase] ?? [];
}

/** Seconds that each phase of a job may run. */
export function timeoutOf({ workflow }: ModelJob): number {
  return workflow.timeout ?? 3600;
}

/** Whether a job may still change: it is unfinished, or undoes what it did. */
export function isOpen(job: ModelJob): boolean {
  return !isFinal(job.execution) || job.held || job.readyAt !== null;
}

/** What two unfinished jobs must not have in common. */
export function keyOf(
  { uuid, target, params }: Pick<NewJob, "uuid" | "target" | "params">,
): string {
  return target === null ? uuid : `${target} ${canonicalJson(params)}`;
}

/** A job that was just made. */
export function modelJobOf(wish: NewJob, now: Instant): ModelJob {
  const { exec_after = instantAfter(now, wish.delay_ms ?? 0) } = wish;
  return {
    uuid: wish.uuid,
    workflow: wish.workflow,
    target: wish.target,
    params: wish.params,
    key: keyOf(wish),
    attempt: Number(wish.props?.num_attempts ?? 0),
    execution: "queued",
    phase: "chain",
    results: { chain: [], onerror: [], oncancel: [] },
    seen: 0,
    starts: 0,
    elapsedMs: 0,
    elapsedAt: now,
    failures: 0,
    phasesMs: 0,
    begun: false,
    anew: false,
    lease: 0,
    readyAt: exec_after,
    ready: exec_after <= now ? "yes" : "no",
    held: false,
  };
}
