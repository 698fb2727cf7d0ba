// Runs one claimed job: the tasks of its phase, one after the other, each end recorded before the
// next task starts. Claims nothing; see runner.ts.

import type { JobUuid, NewUuid, RunnerId } from "../domain/id.ts";
import { type Job, type NewJob, phaseOf, type TaskResult } from "../domain/job/job.ts";
import { afterTask, heldIn, isHeld, type Move, type TaskEvent } from "../domain/job/state.ts";
import type { Task } from "../domain/job/workflow.ts";
import { untilDone } from "../program/loop.ts";
import type { Hold } from "../store/job_store.ts";
import type { JobData } from "./job_view.ts";
import {
  type AttemptDeps,
  entryOf,
  eventOf,
  jobAfter,
  type RecordedEnd,
  runAttempts,
  runFallback,
  successorOf,
} from "./next_step.ts";
import type { Instant, Now } from "../domain/instant.ts";
import type { MemoryBudget, Reservation } from "../domain/memory_budget.ts";
import type { Log } from "../metrics/log.ts";
import type { OwnerOf } from "../sandbox/owner.ts";
import type { TaskOutcome, TaskRun } from "../sandbox/run_task.ts";
import type { Store } from "../store/store.ts";
import { valueWeight } from "../domain/json_scan.ts";

/** Starts of a task without a recorded result after which it fails so: no poison pills. */
const STARTS_MAX = 3;
const INTERRUPTED = "interrupted";

const WRITE_AGAIN_FIRST_MS = 100;
const WRITE_AGAIN_LONGEST_MS = 2_000;

/** Starts to run a job that `runner_id` has claimed. */
export function runJob(job: Job, deps: JobDeps): RunningJob {
  const stops: Stops = {
    canceled: new AbortController(),
    drain: new AbortController(),
    shutdown: new AbortController(),
    task: new AbortController(),
  };
  const run = new JobRun(job, deps, stops);
  const done = run.run().catch((error: unknown) => run.abandon(error));
  const stop = (reason: StopReason) => {
    stops[reason].abort();
    if (reason !== "drain") stops.task.abort();
  };
  return { uuid: job.uuid, stop, done };
}

/**
 * Why a job is stopped, and `task`: aborted with `canceled` and with `shutdown`. AbortSignal.any()
 * would say the same, and take some 25 us of every task.
 */
type Stops = Readonly<Record<StopReason | "task", AbortController>>;

/** Whether a job goes on here, has left, or was stopped: then nothing of this step was written. */
type Went = "goes_on" | "left" | "stopped";

class JobRun {
  #job: Job;
  #data: JobData;
  readonly #deps: JobDeps;
  readonly #stops: Stops;
  readonly #memory: JobMemory;
  /** Monotonic milliseconds at which the present phase would have begun without interruptions. */
  #phaseBeganMs: number;

  constructor(job: Job, deps: JobDeps, stops: Stops) {
    this.#job = job;
    this.#data = { params: job.params, props: job.props };
    this.#deps = deps;
    this.#stops = stops;
    this.#memory = new JobMemory(deps.budget);
    this.#phaseBeganMs = deps.monotonicMs() - job.elapsed_ms;
  }

  /** Every turn records the end of one task or of the job, so the turns are bounded by the tasks. */
  async run(): Promise<void> {
    try {
      for (;;) {
        if (this.#stops.drain.signal.aborted) return await this.#release();
        const wanted = this.#memory.take(this.#job, this.#data);
        const went = wanted === 0 ? await this.#step() : await this.#waitForMemory(wanted);
        if (went === "stopped" && !(await this.#takeUpCancel())) return;
        if (went === "left") return;
      }
    } finally {
      this.#memory.release();
    }
  }

  /** The next task of the phase, or its end. */
  #step(): Promise<Went> {
    const { tasks, results } = phaseOf(this.#job);
    const task = tasks[results.length];
    return task === undefined
      ? this.#record({ kind: "succeed" })
      : this.#runTask(task, results.length === tasks.length - 1);
  }

  /** Waits without what is large of the job, which is read again afterwards. */
  async #waitForMemory(bytes: number): Promise<Went> {
    const { store, monotonicMs } = this.#deps;
    const beganMs = monotonicMs();
    this.#data = { params: {}, props: {} };
    this.#job = { ...this.#job, ...this.#data, chain_results: [], onerror_results: [] };
    const { drain } = this.#stops;
    try {
      await this.#memory.wait(bytes, AbortSignal.any([drain.signal, this.#signal()]));
    } catch (error) {
      // The next turn gives the job back.
      if (drain.signal.aborted) return "goes_on";
      if (this.#signal().aborted) return await this.#stopped();
      throw error;
    } finally {
      // Its workflow's time is not for this.
      this.#phaseBeganMs += monotonicMs() - beganMs;
    }
    const job = await store.jobs.get(this.#job.uuid);
    if (job === undefined || !this.#isStillOurs(job) || job.phase !== this.#job.phase) {
      return "stopped";
    }
    this.#job = job;
    this.#data = { params: job.params, props: job.props };
    return "goes_on";
  }

  /** After a defect of ours: the job goes back, its start counted, so that it comes to an end. */
  async abandon(error: unknown): Promise<void> {
    const { store, now, log } = this.#deps;
    log.error("job lost", { job_uuid: this.#job.uuid, error });
    await this.#insist(() => store.jobs.abandon(this.#hold(), now()), "job not given back");
  }

  async #runTask(task: Task, last: boolean): Promise<Went> {
    const started_at = this.#deps.now();
    const { end, attempts, data } = await this.#attempt(task);
    if (end.kind === "aborted") return await this.#stopped();
    this.#data = data;
    const now = this.#deps.now();
    const entry: TaskResult = {
      ...entryOf(end),
      name: task.name ?? task.uuid,
      started_at,
      // The clock may have been set back meanwhile.
      finished_at: now < started_at ? started_at : now,
      attempts,
    };
    const event = eventOf(this.#job, end, last);
    const successor = this.#after(event).to === "retried" ? await this.#successor(now) : null;
    return await this.#record(event, entry, successor);
  }

  /** The job that takes the place of this one, while the workflow is there and allows one. */
  async #successor(now: Instant): Promise<NewJob | null> {
    const found = await this.#deps.store.workflows.get(this.#job.workflow_uuid);
    if (found === undefined) return null;
    return successorOf(this.#job, found.workflow, this.#deps.newUuid<JobUuid>(), now);
  }

  /** Where the job goes with an event. */
  #after(event: TaskEvent): Move {
    return afterTask(heldIn(this.#job.phase), event);
  }

  async #attempt(task: Task): Promise<
    { end: RecordedEnd | { kind: "aborted" }; attempts: number; data: JobData }
  > {
    const of = { job_uuid: this.#job.uuid, task };
    const deps: AttemptDeps = {
      owner: await this.#deps.ownerOf(this.#job),
      run: (run, signal) => this.#deps.runTask(run, of, signal),
      leftMs: () => this.#job.timeout * 1000 - this.#elapsedMs(),
      retryCountsFirst: this.#deps.retryCountsFirst,
      signal: this.#signal(),
    };
    const { starts } = this.#job;
    if (starts <= STARTS_MAX) return await runAttempts(this.#job, task, this.#data, deps);
    const end = { kind: "failure", error: INTERRUPTED } as const;
    // The fallback has one start: it may be what ends the agent.
    if (starts > STARTS_MAX + 1) return { end, attempts: 0, data: this.#data };
    return await runFallback(this.#job, task, { end, attempts: 0, data: this.#data }, deps);
  }

  /** A canceled job's own chain is not ended by the cancel that began it. */
  #signal(): AbortSignal {
    const { shutdown, task } = this.#stops;
    return this.#job.phase === "oncancel" ? shutdown.signal : task.signal;
  }

  #elapsedMs(): number {
    return Math.max(this.#deps.monotonicMs() - this.#phaseBeganMs, 0);
  }

  async #stopped(): Promise<"left" | "stopped"> {
    if (!this.#stops.shutdown.signal.aborted) return "stopped";
    await this.#release();
    return "left";
  }

  /** Gives the job back, so that it goes on at its present task when an agent runs again. */
  async #release(): Promise<void> {
    const { store, now } = this.#deps;
    await store.jobs.release(this.#hold(), this.#elapsedMs(), now());
  }

  /** Under which everything about the job is written. */
  #hold(): Hold {
    const { uuid, lease, phase } = this.#job;
    return { job_uuid: uuid, runner_id: this.#deps.runner_id, lease, phase };
  }

  /** Writes the end of a task and the next state; a full disk is waited out, nothing is lost. */
  async #record(
    event: TaskEvent,
    entry?: TaskResult,
    successor: NewJob | null = null,
  ): Promise<Went> {
    const { store, now } = this.#deps;
    const move = this.#after(event);
    const { uuid } = this.#job;
    const write = () =>
      store.jobs.recordTask({
        ...this.#hold(),
        ...(entry === undefined ? {} : { entry }),
        ...this.#data,
        elapsed_ms: this.#elapsedMs(),
        event,
        successor,
        now: now(),
      });
    if (!isHeld(move.to)) this.#deps.leaving(uuid, true);
    const owned = await this.#insist(write, "task result not written");
    if (owned === undefined) return "left";
    if (!owned) return "stopped";
    this.#deps.changed(uuid);
    if (entry !== undefined) this.#logTask(entry);
    return this.#follow(move, entry);
  }

  /** Brings what is known of the job to what was written. */
  #follow(move: Move, entry?: TaskResult): "goes_on" | "left" {
    const before = this.#job;
    const job = jobAfter(before, move, this.#data, entry);
    this.#job = job;
    if (move.ends) this.#logEnd(job);
    if (job.phase !== before.phase) this.#phaseBeganMs = this.#deps.monotonicMs();
    return isHeld(move.to) ? "goes_on" : "left";
  }

  /** After the job was lost: whether it was canceled and left its oncancel chain to this runner. */
  async #takeUpCancel(): Promise<boolean> {
    const job = await this.#deps.store.jobs.get(this.#job.uuid);
    if (job?.execution === "canceled") this.#logEnd(job);
    if (job === undefined || job.phase !== "oncancel") return false;
    if (!this.#isStillOurs(job)) return false;
    this.#deps.leaving(job.uuid, false);
    this.#job = job;
    // What the discarded task set goes with it.
    this.#data = { params: job.params, props: job.props };
    this.#phaseBeganMs = this.#deps.monotonicMs();
    return true;
  }

  /** Under a later lease it belongs to another run, maybe of this very runner. */
  #isStillOurs({ runner_id, lease }: Job): boolean {
    return runner_id === this.#deps.runner_id && lease === this.#job.lease;
  }

  /** Writes again and again until the store takes it, or the agent ends. */
  async #insist<T>(write: () => Promise<T>, failure: string): Promise<T | undefined> {
    return await untilDone(write, {
      firstMs: WRITE_AGAIN_FIRST_MS,
      longestMs: WRITE_AGAIN_LONGEST_MS,
      signal: this.#stops.shutdown.signal,
      onFailure: (error) => this.#deps.log.error(failure, { job_uuid: this.#job.uuid, error }),
    });
  }

  #logEnd({ uuid: job_uuid, name: workflow, execution }: Job): void {
    this.#deps.log.info("job finished", { job_uuid, workflow, execution });
  }

  #logTask(entry: TaskResult): void {
    const { uuid, phase } = this.#job;
    const failed = entry.error === "" ? {} : { error: JSON.stringify(entry.error) };
    this.#deps.log.info("task ended", { job_uuid: uuid, phase, task: entry.name, ...failed });
  }
}

// What a running job is given by the runner, and how the runner reaches it.

/**
 * Why a running job is told to stop: it was canceled; the agent ends and lets the present task come
 * to its end; or the time for that is over.
 */
type StopReason = "canceled" | "drain" | "shutdown";

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

// The memory of a running job. What its tasks are given and leave is many times its text, so a large job
// waits for its part before its next task begins, and never is refused. It holds no other account
// while it waits; messages of its guests are reserved after it.

/** Bytes from which on a job reserves what it takes; of smaller ones there are no more than slots. */
const LARGE_BYTES = 1024 * 1024;

/** What one job holds of the account `runs`. */
class JobMemory {
  readonly #budget: MemoryBudget;
  #held: Reservation | undefined;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /**
   * Takes what the next task of the job needs, if it is there.
   * @returns the bytes to wait for; 0 when the job has its memory, or is too small to need any
   */
  take({ chain_results, onerror_results }: Job, { params, props }: JobData): number {
    let bytes = valueWeight(params) + valueWeight(props);
    for (const { result } of chain_results) bytes += valueWeight(result);
    for (const { result } of onerror_results) bytes += valueWeight(result);
    if (this.#held !== undefined) this.#held.resize(bytes);
    if (this.#held !== undefined || bytes < LARGE_BYTES) return 0;
    this.#held = this.#budget.tryReserve("runs", bytes);
    return this.#held === undefined ? bytes : 0;
  }

  /** Waits for its turn. @throws {AgentError} `aborted` by the signal */
  async wait(bytes: number, signal: AbortSignal): Promise<void> {
    const turn = { turnMs: Number.POSITIVE_INFINITY, signal };
    this.#held = await this.#budget.reserve("runs", bytes, "run a large job", turn);
  }

  release(): void {
    this.#held?.release();
  }
}
