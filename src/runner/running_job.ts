// What the runner gives a running job, and how it controls it.

import type { JobUuid, NewUuid, RunnerId } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { Task } from "../domain/job/workflow.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import type { OwnerOf } from "../sandbox/process.ts";
import type { TaskOutcome, TaskRun } from "../sandbox/run_task.ts";
import type { Hold } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";

/**
 * Why a running job stops: it was canceled; the agent stops and lets the current task finish; the time for
 * that is over; or the job is another runner's, or may become so.
 */
export type StopReason = "canceled" | "drain" | "shutdown" | "lost";

/** What a job needs to be run. */
export interface JobDeps {
  readonly store: Store;
  readonly runner_id: RunnerId;
  readonly ownerOf: OwnerOf;
  /** The budget for large jobs. */
  readonly budget: MemoryBudget;
  /** Runs one body or fallback in a guest, with the capabilities of this job and task. */
  readonly runTask: (
    run: TaskRun,
    of: { job_uuid: JobUuid; task: Task; attempt: number; free: boolean },
    signal: AbortSignal,
  ) => Promise<TaskOutcome>;
  readonly now: Now;
  /** Milliseconds that never go backwards. */
  readonly monotonicMs: () => number;
  readonly newUuid: NewUuid;
  /** Whether `retry` also counts the first execution, as in node-workflow. */
  readonly retryCountsFirst: boolean;
  /**
   * Called before a job leaves its slot is written, so that a claim can share the commit; called
   * again when it stays after all.
   */
  readonly leaving: (uuid: JobUuid, leaves: boolean) => void;
  /** Why the policy of the host does not let it run a job, in words; undefined when it does. It runs all unless given. */
  readonly refusal?: ((job: Job) => Promise<string | undefined> | undefined) | undefined;
  /** Called when a job has changed; a hint for waiting requests. */
  readonly changed: (uuid: JobUuid) => void;
  /** Whether more jobs are ready than there are slots: writes may gather then. */
  readonly backlog: () => boolean;
  readonly log: Log;
}

/** The claim of a job that runs already while it is written; see JobStore.ready(). */
export interface ClaimUnderWay {
  /** Whether the runner has the job, once that is durable. */
  readonly stands: Promise<boolean>;
  /** Writes the claim now instead of in some milliseconds. */
  hurry(): void;
}

/** A running job, as the runner controls it. */
export interface RunningJob {
  readonly uuid: JobUuid;
  /** Whether any host may run it. */
  readonly free: boolean;
  /** Whether it was stopped since the job is another runner's, or may be. */
  readonly lost: boolean;
  /** The claim under which it runs. */
  hold(): Hold;
  /** After a cancel the oncancel chain runs; another cancel does not stop it. */
  stop(reason: StopReason): void;
  /** Settles when the job has left this runner; never rejects. */
  readonly done: Promise<void>;
}
