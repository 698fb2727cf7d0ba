// What the runner passes to a running job, and how it controls the job.

import type { JobUuid, NewUuid, RunnerId } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import type { Meters } from "../metrics/meters.ts";
import type { OwnerOf } from "../sandbox/process.ts";
import type { GuestPool } from "../sandbox/pool.ts";
import type { TaskRun } from "../sandbox/run_task.ts";
import type { TaskContext, TaskPerform } from "../sandbox/task_calls.ts";
import type { Hold } from "../store/run_store.ts";
import type { Store } from "../store/store.ts";

/**
 * Why a running job stops. `canceled`: a caller canceled it. `drain`: the agent stops and lets the current task finish.
 * `shutdown`: the time for that is over. `lost`: another runner has claimed the job, or may have.
 */
export type StopReason = "canceled" | "drain" | "shutdown" | "lost";

/**
 * A stop of one kind. Its AbortSignal is made only when code waits for it: most jobs end without one, and a controller
 * takes ten times the memory.
 */
class Stop {
  #stopped = false;
  #controller: AbortController | undefined;

  get stopped(): boolean {
    return this.#stopped;
  }

  get signal(): AbortSignal {
    const controller = this.#controller ??= new AbortController();
    if (this.#stopped) controller.abort();
    return controller.signal;
  }

  stop(): void {
    this.#stopped = true;
    this.#controller?.abort();
  }
}

/**
 * The stops of a job, by reason. `task` fires with every reason except `drain`; `undo`, for tasks of the oncancel
 * chain, with `shutdown` and `lost`. AbortSignal.any() would do the same, but costs about 25 us per task.
 */
export class JobStops {
  readonly canceled = new Stop();
  readonly drain = new Stop();
  readonly shutdown = new Stop();
  readonly lost = new Stop();
  readonly task = new Stop();
  readonly undo = new Stop();

  stop(reason: StopReason): void {
    this[reason].stop();
    if (reason !== "drain") this.task.stop();
    if (reason === "shutdown" || reason === "lost") this.undo.stop();
  }
}

/** What is needed to run a job. */
export interface JobDeps {
  readonly store: Store;
  readonly runner_id: RunnerId;
  readonly ownerOf: OwnerOf;
  /** The budget for large jobs. */
  readonly budget: MemoryBudget;
  readonly guests: Pick<GuestPool, "run">;
  /** The capabilities of one execution. */
  readonly performFor: (context: TaskContext) => TaskPerform;
  /** Watches the guests of free jobs; see TaskRun. */
  readonly watch?: TaskRun["watch"];
  /** Observes how long executions take, by outcome. */
  readonly meters?: Pick<Meters, "tasks"> | undefined;
  /** See Runner.mayAct(). */
  readonly mayAct: (free: boolean) => Promise<void>;
  readonly now: Now;
  /** Milliseconds that never go backwards. */
  readonly monotonicMs: () => number;
  readonly newUuid: NewUuid;
  /** Whether `retry` also counts the first execution, as in node-workflow. */
  readonly retryCountsFirst: boolean;
  /**
   * Called before the write with which a job leaves its slot, so that a claim can share the commit; called with false
   * if the job stays after all.
   */
  readonly leaving: (uuid: JobUuid, leaves: boolean) => void;
  /** Called before a job is queued again because no guest started for it, so that it is not claimed at once. */
  readonly notStarted: (uuid: JobUuid, why: string) => void;
  /**
   * Why the host's policy refuses a job, as words for the error; undefined if it allows the job. Without this function,
   * every job is allowed.
   */
  readonly refusal?: ((job: Job) => Promise<string | undefined> | undefined) | undefined;
  /** Whether more jobs are ready than there are slots; then writes may wait to share a commit. */
  readonly backlog: () => boolean;
  readonly log: Log;
}

/** The claim of a job that runs while the claim is being written; see JobStore.ready(). */
export interface ClaimUnderWay {
  /** Settles once the claim is durable or refused. @returns whether the runner holds the job */
  readonly stands: Promise<boolean>;
  /** Writes the claim now instead of waiting some milliseconds. */
  hurry(): void;
}

/** A running job, as the runner controls it. */
export interface RunningJob {
  readonly uuid: JobUuid;
  /** Whether any host may run it. */
  readonly free: boolean;
  /** Whether it was stopped because another runner has claimed it, or may have. */
  isLost(): boolean;
  /** The claim under which it runs. */
  hold(): Hold;
  /** Stops the job. After a cancel its oncancel chain runs, which another cancel does not stop. */
  stop(reason: StopReason): void;
  /** Settles when the job has left this runner; never rejects. */
  readonly done: Promise<void>;
}
