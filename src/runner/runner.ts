// The runner: one job in each of its slots. It claims due jobs when it is notified of a new job, and otherwise by a
// timer at the next due time. Notices may be lost; what the rows say decides.

import { AgentError, undefinedWhileAway, unreachable } from "../domain/error.ts";
import type { Admission } from "../domain/host.ts";
import type { Incarnation, JobUuid } from "../domain/id.ts";
import type { Job } from "../domain/job/job.ts";
import { Notifier } from "../runtime/notifier.ts";
import { pause } from "../runtime/wait.ts";
import type { JobNotice } from "../store/host_store.ts";
import type { Claimed, RunnerLife } from "../store/run_store.ts";
import { Lease } from "./lease.ts";
import { LOOK_MS_MAX, NextJobs, waitFor } from "./next_jobs.ts";
import { runJob } from "./run_job.ts";
import type { ClaimUnderWay, JobDeps, StopReason } from "./running_job.ts";
import { Slots } from "./slots.ts";

/** Milliseconds to wait after a claim that failed, got no ready job, or got one for which no guest started. */
const CLAIM_RETRY_MS = 1_000;
/**
 * While at least CREATING_MANY new jobs are being written, the next claim of a backlog waits CREATING_MS milliseconds.
 * Callers wait for those jobs, while the backlog can wait, and both cost less in larger groups. A claim waits only
 * once, so a stream of new jobs slows the backlog down but never stops it.
 */
const CREATING_MANY = 8;
const CREATING_MS = 50;

/** What all jobs of a runner share, and how many may run at the same time. */
interface RunnerOptions
  extends Omit<JobDeps, "leaving" | "notStarted" | "backlog" | "mayAct" | "runner_id"> {
  readonly life: RunnerLife;
  /** Earlier lives of the runner, which have ended. */
  readonly earlier: readonly Incarnation[];
  readonly slots: number;
  /** How long a shared store keeps the runner's jobs without a heartbeat, milliseconds. */
  readonly leaseMs: number;
  /** What the host may claim at the start; everything unless given. */
  readonly admission?: Admission;
}

/**
 * Runs due jobs until it is stopped. It follows the store's notices of jobs; if a notice is lost, its job may start up
 * to ten seconds late.
 */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #notifier = new Notifier();
  readonly #slots: Slots;
  /** Running jobs whose claims are being written. */
  readonly #claiming = new Set<JobUuid>();
  /** Whether more jobs were ready than slots were free. */
  #backlog = false;
  /**
   * Whether the next claims are written before their jobs start. This holds for the first claims of a life: otherwise a
   * job that kills the agent immediately would start again and again without being counted. It also holds after a
   * refused claim, so that a full disk, which refuses every claim, does not cost a guest each time.
   */
  #writtenFirst = true;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;
  readonly #next: NextJobs;
  readonly #lease: Lease;
  #unfollow = () => {};

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#slots = new Slots(options.slots);
    this.#next = new NextJobs(options);
    this.#lease = new Lease({
      ...options,
      stopping: this.#stopping.signal,
      suspended: () => this.#suspended(),
      silent: () => this.#endForSilence(),
    });
  }

  /** What the host may claim, by the latest answer of the store. */
  get admission(): Admission {
    return this.#lease.admission;
  }

  get busy(): number {
    return this.#slots.running.length;
  }

  /** Takes over the jobs of an earlier life, then starts to claim. While a shared store is away, both wait. */
  async start(): Promise<void> {
    this.#unfollow = this.#options.store.jobs.follow((notice) => this.#heard(notice));
    // A life that could not begin must learn what its host may claim before it claims.
    if (await undefinedWhileAway(this.#lease.begin()) === undefined) this.#lease.doubt();
    this.#lease.start();
    this.#loop = this.#claimUntilStopped();
  }

  /** Acts on notices about jobs, those that other agents changed included. */
  #heard(notice: JobNotice): void {
    switch (notice.kind) {
      case "queued":
        if (notice.made === undefined) return this.wake();
        this.#next.made(notice.made);
        break;
      case "delayed":
        if (!this.#next.delayed(notice.ms)) return;
        break;
      case "canceled":
        this.#slots.find(notice.job_uuid)?.stop("canceled");
        break;
      case "changed":
      case "callback":
        return; // For requests that wait, and for callbacks.
      case "host":
        this.#next.forget();
        this.#lease.doubt();
        break;
      default:
        return unreachable(notice);
    }
    this.#notifier.notify();
  }

  /** Hints that a job may be due. */
  wake(): void {
    this.#next.look();
    this.#notifier.notify();
  }

  /**
   * Stops claiming, lets running tasks continue for `drainMs` milliseconds, then aborts them. Their jobs are queued
   * again at the interrupted task.
   */
  async stop(drainMs: number): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
    this.#stopAll("drain");
    const timer = setTimeout(() => this.#stopAll("shutdown"), drainMs);
    await Promise.all(this.#slots.running.map((job) => job.done));
    clearTimeout(timer);
    this.#lease.stop();
    this.#unfollow();
  }

  /**
   * Call before a task acts on anything. After a standstill, waits until the store has reported who holds the jobs.
   * @param free whether another host may take the job once the lease has expired
   * @throws {AgentError} `aborted` when the store has been silent for too long
   */
  async mayAct(free: boolean): Promise<void> {
    if (!this.#options.store.shared) return;
    this.#lease.look();
    await this.#lease.asked();
    if (!free || !this.#lease.isSilent) return;
    this.#endForSilence();
    throw new AgentError("aborted", "Cannot act for the job: the database does not answer");
  }

  #suspended(): void {
    this.#options.log.warn("process was suspended: renewing the lease first");
    this.#endForSilence();
    this.#notifier.notify();
  }

  async #claimUntilStopped(): Promise<void> {
    const { signal } = this.#stopping;
    let [isFailing, waitMs] = [false, 0];
    while (!signal.aborted) {
      const asked = this.#lease.asking();
      try {
        waitMs = Math.min(await this.#claim(), this.#lease.renewMs);
        isFailing = false;
      } catch (error) {
        if (!isFailing) this.#options.log.error("jobs not claimed", { error });
        isFailing = true;
        this.#lease.doubt();
        waitMs = CLAIM_RETRY_MS;
      }
      asked();
      if (waitMs > 0) await this.#notifier.wait(waitMs, signal);
      if (this.#backlog && this.#options.store.jobs.creating() >= CREATING_MANY) {
        await pause(CREATING_MS, signal);
      }
    }
  }

  /** Fills the free slots. @returns milliseconds until the next check */
  async #claim(): Promise<number> {
    const { store: { jobs, shared }, life } = this.#options;
    this.#endForSilence();
    if (!this.#lease.isBegun) {
      const waitMs = await this.#lease.begin();
      if (waitMs > 0) return waitMs;
    }
    // In a shared store the renewal is also the heartbeat of the host, even if it is idle.
    const holds = this.busy > 0 || this.#lease.isInDoubt || shared;
    await Promise.all([holds && this.#keepLease(), this.#lease.rescue()]);
    const { free } = this.#slots;
    if (!this.#lease.isBegun || free <= 0) return LOOK_MS_MAX;
    if (this.#next.pausedMs > 0) return this.#next.pausedMs;
    if (this.#lease.isRenewalDue) {
      // An idle runner of a store of its own renews its lease only when there is a job to claim.
      const { due } = await jobs.claim(life, 0);
      if (due.kind !== "ready") return waitFor(due);
      await this.#keepLease();
    }
    const claimed = await this.#take(free);
    this.#backlog = claimed.due.kind === "ready";
    // If a ready job was not claimed, another runner may have been faster.
    if (claimed.due.kind === "ready") return claimed.jobs.length > 0 ? 0 : CLAIM_RETRY_MS;
    return waitFor(claimed.due);
  }

  /**
   * Starts jobs. After the first claim of this life, a job that no other agent can take starts immediately, while its
   * claim is being written. A crash before the claim is durable leaves the job queued, as if it had never started.
   */
  async #take(limit: number): Promise<Claimed> {
    const { store: { jobs }, life } = this.#options;
    if (this.#writtenFirst) {
      this.#next.forget();
      const claimed = await jobs.claim(life, limit);
      if (claimed.jobs.length > 0) this.#writtenFirst = false;
      for (const job of claimed.jobs) this.#run(job);
      return claimed;
    }
    const { claimed, ready, due } = await this.#next.take(
      limit,
      this.#claiming,
      (uuid) => this.#slots.find(uuid) !== undefined,
    );
    for (const job of claimed) this.#run(job);
    if (ready.length > 0) this.#runAhead(ready);
    return { jobs: [...claimed, ...ready], due };
  }

  #runAhead(ready: readonly Job[]): void {
    const { store: { jobs } } = this.#options;
    for (const { uuid } of ready) this.#claiming.add(uuid);
    const held = this.#hold(ready);
    for (const job of ready) {
      const stands = held.then((uuids) => uuids.has(job.uuid));
      this.#run(job, { stands, hurry: () => jobs.hurry() });
    }
  }

  /** Writes the claims of started jobs, and stops the jobs that this runner did not get. Never rejects. */
  async #hold(begun: readonly Job[]): Promise<ReadonlySet<JobUuid>> {
    const { store: { jobs }, life, log } = this.#options;
    let held: ReadonlySet<JobUuid> = new Set();
    try {
      held = new Set(await jobs.hold(life, begun));
    } catch (error) {
      log.error("jobs not claimed", { error });
      this.#writtenFirst = true;
      this.#lease.doubt();
      this.#next.pause(CLAIM_RETRY_MS);
    }
    for (const { uuid } of begun) {
      this.#claiming.delete(uuid);
      if (!held.has(uuid)) this.#slots.find(uuid)?.stop("lost");
    }
    return held;
  }

  /** Renews the lease when it is due, and acts on what the store reports about the jobs. */
  async #keepLease(): Promise<void> {
    const outcome = await this.#lease.renew(() => this.#slots.running.map((job) => job.hold()));
    if (outcome === undefined) return;
    if (outcome.kind === "superseded") return this.#stopAll("lost");
    if (outcome.admission === "forgotten") this.#stopAll("lost");
    for (const uuid of outcome.canceled) this.#slots.find(uuid)?.stop("canceled");
    for (const uuid of outcome.lost) {
      // The end of one that is leaving may have been written before; its own answer says whether it was lost.
      if (!this.#slots.isLeaving(uuid)) this.#slots.find(uuid)?.stop("lost");
    }
    if (outcome.unknown.length > 0) this.#next.forget();
    for (const job of outcome.unknown) this.#run(job);
  }

  /**
   * Ends the guests of free jobs when the store has been silent for too long, because other hosts may take these jobs.
   * The next renewal reports the jobs that no host took; their tasks run again without another counted start.
   */
  #endForSilence(): void {
    if (!this.#lease.isSilent) return;
    const free = this.#slots.running.filter((job) => job.free && !job.isLost());
    if (free.length === 0) return;
    this.#options.log.error("tasks ended: the store does not answer", { jobs: free.length });
    this.#lease.doubt();
    for (const job of free) job.stop("lost");
  }

  #stopAll(reason: StopReason): void {
    this.#next.forget();
    for (const job of this.#slots.running) job.stop(reason);
  }

  #run(job: Job, claim?: ClaimUnderWay): void {
    const running = runJob(job, {
      ...this.#options,
      runner_id: this.#options.life.runner_id,
      // The notification triggers a claim, which joins the store's next commit.
      leaving: (uuid, leaves) => {
        this.#slots.leave(uuid, leaves);
        this.#notifier.notify();
      },
      notStarted: (job_uuid, why) => {
        this.#options.log.warn("task not started", { job_uuid, why });
        this.#next.pause(CLAIM_RETRY_MS);
      },
      backlog: () => this.#backlog,
      mayAct: (free) => this.mayAct(free),
    }, claim);
    // No reference to the job is kept here, so that a large one can free its memory while it waits.
    this.#slots.put(running, () => {
      // A renewal that was sent while the guest was ending still counted the job as running.
      if (running.isLost()) this.#lease.doubt();
      this.#notifier.notify();
    });
  }
}
