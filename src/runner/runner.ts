// The runner: as many slots as configured, one job in each. It claims what is due, is woken by a
// hint when a job was written, and otherwise by a timer at the next due instant; the rows decide.

import type { JobUuid } from "../domain/id.ts";
import { msBetween } from "../domain/instant.ts";
import type { Job } from "../domain/job.ts";
import { Bell } from "../loop.ts";
import { type JobDeps, runJob, type RunningJob } from "./run_job.ts";

/** Longest wait without a look at the store: a clock that was set is noticed after it. */
const LOOK_MS_MAX = 10_000;
/** Wait after the store did not answer a claim. */
const CLAIM_RETRY_MS = 1_000;

export interface RunnerOptions extends Omit<JobDeps, "leaving"> {
  /** Jobs that run at the same time. */
  readonly slots: number;
}

export class Runner {
  readonly #options: RunnerOptions;
  readonly #bell = new Bell();
  readonly #running = new Map<JobUuid, RunningJob>();
  /** Running jobs whose last write is under way: their slots are as good as free. */
  readonly #leaving = new Set<JobUuid>();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** Number of slots that hold a job. */
  get busy(): number {
    return this.#running.size;
  }

  /** Takes up what an earlier runner left behind, then begins to claim. */
  async start(): Promise<void> {
    const { store, runner_id, now, log } = this.#options;
    const rescued = await store.jobs.rescue(runner_id, now());
    if (rescued > 0) log.warn("jobs rescued", { jobs: rescued });
    this.#loop = this.#claimUntilStopped();
  }

  /** A job may have become due. */
  wake(): void {
    this.#bell.ring();
  }

  /** A job was canceled: if it runs here, its guest is ended at once. */
  cancelRunning(uuid: JobUuid): void {
    this.#running.get(uuid)?.stop("canceled");
    this.#bell.ring();
  }

  /**
   * Claims nothing more, lets running tasks go on for a while, and then ends them; their jobs are
   * queued again at the task that was interrupted (P17).
   */
  async stop(drainMs: number): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
    for (const job of this.#running.values()) job.stop("drain");
    const timer = setTimeout(() => {
      for (const job of this.#running.values()) job.stop("shutdown");
    }, drainMs);
    await Promise.all(Array.from(this.#running.values(), (job) => job.done));
    clearTimeout(timer);
  }

  async #claimUntilStopped(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      let waitMs: number;
      try {
        waitMs = await this.#claim();
      } catch (error) {
        this.#options.log.error("jobs not claimed", { error });
        waitMs = CLAIM_RETRY_MS;
      }
      if (waitMs > 0) await this.#bell.wait(waitMs, signal);
    }
  }

  /** Fills the free slots. @returns milliseconds until another look is worth while */
  async #claim(): Promise<number> {
    const { store, runner_id, now, slots } = this.#options;
    const free = slots - this.#running.size + this.#leaving.size;
    if (free <= 0) return LOOK_MS_MAX;
    const due = await store.jobs.nextDue();
    if (due === undefined) return LOOK_MS_MAX;
    const untilDueMs = msBetween(now(), due);
    if (untilDueMs > 0) return Math.min(untilDueMs, LOOK_MS_MAX);
    for (const job of await store.jobs.claim(runner_id, free, now())) {
      this.#run(job);
    }
    return 0;
  }

  #run(job: Job): void {
    const running = runJob(job, {
      ...this.#options,
      leaving: (uuid, leaves) => this.#leave(uuid, leaves),
    });
    this.#running.set(job.uuid, running);
    void running.done.then(() => {
      this.#leaving.delete(job.uuid);
      // A job that came back at once, as after cb('queue'), may run here anew already.
      if (this.#running.get(job.uuid) === running) this.#running.delete(job.uuid);
      this.#bell.ring();
    });
  }

  /** The claim that this ring sets off is queued before the store begins its next commit. */
  #leave(uuid: JobUuid, leaves: boolean): void {
    if (leaves) this.#leaving.add(uuid);
    else this.#leaving.delete(uuid);
    this.#bell.ring();
  }
}
