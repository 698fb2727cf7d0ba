// What a running job is given by the runner, and how the runner reaches it.

import type { JobUuid, NewUuid, RunnerId } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Task } from "../domain/job/workflow.ts";
import type { Log } from "../metrics/log.ts";
import type { OwnerOf } from "../sandbox/owner.ts";
import type { TaskOutcome, TaskRun } from "../sandbox/run_task.ts";
import type { Store } from "../store/store.ts";

/**
 * Why a running job is told to stop: it was canceled; the agent ends and lets the present task come
 * to its end; or the time for that is over.
 */
export type StopReason = "canceled" | "drain" | "shutdown";

/** What runs a job and what it tells. */
export interface JobDeps {
  readonly store: Store;
  readonly runner_id: RunnerId;
  readonly ownerOf: OwnerOf;
  /** The accountant of memory that large jobs take. */
  readonly budget: MemoryBudget;
  /** Runs one body or fallback behind the wall, with the capabilities of this job and task. */
  readonly runTask: (
    run: TaskRun,
    of: { job_uuid: JobUuid; task: Task },
    signal: AbortSignal,
  ) => Promise<TaskOutcome>;
  readonly now: Now;
  /** Milliseconds that never go backwards. */
  readonly monotonicMs: () => number;
  readonly newUuid: NewUuid;
  /** Whether `retry` counts the first execution too, as node-workflow does. */
  readonly retryCountsFirst: boolean;
  /**
   * Told that a job leaves its slot, before that is written, so that a claim can share the commit;
   * or that it stays after all.
   */
  readonly leaving: (uuid: JobUuid, leaves: boolean) => void;
  /** Told that a job has changed; a hint for whoever waits for it. */
  readonly changed: (uuid: JobUuid) => void;
  readonly log: Log;
}

/** The running of one job; `stop` is told from outside. */
export interface RunningJob {
  readonly uuid: JobUuid;
  /** After a cancel the oncancel chain follows, and is not stopped by another. */
  stop(reason: StopReason): void;
  /** Settles when the job has left this runner; never rejects. */
  readonly done: Promise<void>;
}
