// The runner: as many slots as configured, one job in each. It claims what is due, is woken by a
// hint when a job was written, and otherwise by a timer at the next due instant; the rows decide.

import type { JobUuid } from "../domain/id.ts";
import { instantAfter, msBetween } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import { Bell } from "../program/loop.ts";
import { type JobDeps, runJob, type RunningJob } from "./run_job.ts";

/** Longest wait without a look at the store: a clock that was set is noticed after it. */
const LOOK_MS_MAX = 10_000;
/** Wait after the store did not answer a claim. */
const CLAIM_RETRY_MS = 1_000;
/**
 * How long the jobs of a runner are its own although nothing is heard of it. Only where several
 * agents share a store does another one look.
 */
const LEASE_MS = 60_000;
/**
 * A lease is renewed when so much of it is over: twice more it may fail. As often the runner looks
 * for those of others that are over, also while it has nothing to do.
 */
const RENEW_MS = LEASE_MS / 3;

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
  /** Monotonic milliseconds at which the lease is to be renewed. */
  #renewAtMs = Number.NEGATIVE_INFINITY;
  /** The same of the leases of others. */
  #rescueAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  /** Number of slots that hold a job. */
  get busy(): number {
    return this.#running.size;
  }

  /** Takes up what an earlier runner left behind, then begins to claim. */
  async start(): Promise<void> {
    // What this runner held in an earlier life, if it did, nobody else may take.
    await this.#rescue(true);
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

  /** Renews the lease when it is time. */
  async #keepLease(): Promise<void> {
    const { store, runner_id, now, monotonicMs } = this.#options;
    if (monotonicMs() < this.#renewAtMs) return;
    await store.jobs.renew(runner_id, instantAfter(now(), LEASE_MS));
    this.#renewAtMs = monotonicMs() + RENEW_MS;
  }

  /**
   * Takes up what runners left whose lease is over, when it is time.
   * @param own also what this runner held in an earlier life
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
    // The job itself is not kept here: a large one gives its memory back while it waits.
    const { uuid } = running;
    this.#running.set(uuid, running);
    void running.done.then(() => {
      this.#leaving.delete(uuid);
      // A job that came back at once, as after cb('queue'), may run here anew already.
      if (this.#running.get(uuid) === running) this.#running.delete(uuid);
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
