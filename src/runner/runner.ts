// The runner: one job in each of its slots. It claims due jobs, woken by a hint when a job was
// written, and otherwise by a timer at the next due instant; the rows decide.

import type { JobUuid } from "../domain/id.ts";
import { instantAfter, msBetween } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import { LOOK_MS_MAX, Notifier } from "../program/loop.ts";
import { type JobDeps, runJob, type RunningJob } from "./run_job.ts";

/** Wait after a failed claim. */
const CLAIM_RETRY_MS = 1_000;
/** How long a silent runner keeps its jobs. It matters only where several agents share a store. */
export const LEASE_MS = 60_000;
/**
 * Interval of lease renewals: two more may fail. At the same interval the runner, even when idle,
 * looks for expired leases of others.
 */
const RENEW_MS = LEASE_MS / 3;

/** What every job of a runner shares, and how many run at once. */
export interface RunnerOptions extends Omit<JobDeps, "leaving"> {
  /** Concurrent jobs. */
  readonly slots: number;
}

/**
 * Runs due jobs until it is stopped. Call start() once, then wake() after each write that may make
 * a job due; without the hint a job may start up to ten seconds late.
 */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #notifier = new Notifier();
  readonly #running = new Map<JobUuid, RunningJob>();
  /** Running jobs whose last write is under way: their slots count as free. */
  readonly #leaving = new Set<JobUuid>();
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  /** Monotonic milliseconds of the next lease renewal. */
  #renewAtMs = Number.NEGATIVE_INFINITY;
  /** The same for expired leases of others. */
  #rescueAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** Number of slots with a job. */
  get busy(): number {
    return this.#running.size;
  }

  /** Takes up what an earlier runner left, then starts claiming. */
  async start(): Promise<void> {
    // Nobody else may take what this runner held before a restart.
    await this.#rescue(true);
    this.#loop = this.#claimUntilStopped();
  }

  /** Hints that a job may be due. */
  wake(): void {
    this.#notifier.notify();
  }

  /** Kills the guest of a canceled job, if it runs here. */
  cancelRunning(uuid: JobUuid): void {
    this.#running.get(uuid)?.stop("canceled");
    this.#notifier.notify();
  }

  /**
   * Stops claiming, lets running tasks continue for a while, then aborts them; their jobs are
   * queued again at the interrupted task (P17).
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
      if (waitMs > 0) await this.#notifier.wait(waitMs, signal);
    }
  }

  /** Fills the free slots. @returns milliseconds until the next check */
  async #claim(): Promise<number> {
    const { store, runner_id, now, slots } = this.#options;
    await Promise.all([this.#running.size > 0 && this.#keepLease(), this.#rescue()]);
    const free = slots - this.#running.size + this.#leaving.size;
    if (free <= 0) return LOOK_MS_MAX;
    const due = await store.jobs.nextDue();
    if (due.kind === "none") return LOOK_MS_MAX;
    const untilDueMs = due.kind === "ready" ? 0 : msBetween(now(), due.instant);
    if (untilDueMs > 0) return Math.min(untilDueMs, LOOK_MS_MAX);
    await this.#keepLease();
    for (const job of await store.jobs.claim(runner_id, free, now())) {
      this.#run(job);
    }
    return 0;
  }

  /** Renews the lease when due. */
  async #keepLease(): Promise<void> {
    const { store, runner_id, now, monotonicMs } = this.#options;
    if (monotonicMs() < this.#renewAtMs) return;
    await store.jobs.renew(runner_id, instantAfter(now(), LEASE_MS));
    this.#renewAtMs = monotonicMs() + RENEW_MS;
  }

  /**
   * Takes up jobs with expired leases, when due.
   * @param own also what this runner held before a restart
   */
  async #rescue(own = false): Promise<void> {
    const { store, runner_id, now, monotonicMs } = this.#options;
    if (monotonicMs() < this.#rescueAtMs) return;
    const rescued = await store.jobs.rescue(runner_id, now(), own);
    this.#rescueAtMs = monotonicMs() + RENEW_MS;
    if (rescued > 0) this.#options.log.warn("jobs rescued", { jobs: rescued });
  }

  #run(job: Job): void {
    const running = runJob(job, {
      ...this.#options,
      leaving: (uuid, leaves) => this.#leave(uuid, leaves),
    });
    // The job itself is not kept here: a large one frees its memory while it waits.
    const { uuid } = running;
    this.#running.set(uuid, running);
    void running.done.then(() => {
      this.#leaving.delete(uuid);
      // A job that returned at once, as after cb('queue'), may already run here again.
      if (this.#running.get(uuid) === running) this.#running.delete(uuid);
      this.#notifier.notify();
    });
  }

  /** The claim triggered here is queued before the store begins its next commit. */
  #leave(uuid: JobUuid, leaves: boolean): void {
    if (leaves) this.#leaving.add(uuid);
    else this.#leaving.delete(uuid);
    this.#notifier.notify();
  }
}
