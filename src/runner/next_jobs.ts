// Chooses the ready jobs for the free slots. Jobs of this host alternate with free jobs, which any host may run.
// Reading from a shared store costs a round trip, so a read fetches more jobs than there are free slots, and these jobs
// start without another read. So do jobs that this agent has just created, as long as no other job is known to be
// ready.

import { instantAfter } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Claimed, NextDue, RunnerLife } from "../store/run_store.ts";
import type { Store } from "../store/store.ts";

/**
 * How many jobs to read beyond the free slots: twice as many as have started since the last read, within these bounds.
 * Reading a job costs part of a claim.
 */
const AHEAD = { least: 8, times: 2, most: 64 } as const;
/**
 * How long such a job counts as ready, milliseconds: enough to start the most that are read where four agents share two
 * processors with other work. hold() refuses those that no longer are.
 */
const AHEAD_MS = 500;
/** Milliseconds for which "no other job is ready" is trusted, because the notice of a new job may have been lost. */
const KNOWN_MS = 1_000;

/** Longest wait without a look at what is due, so that a changed clock is noticed, milliseconds. */
export const LOOK_MS_MAX = 10_000;

/** A job that can start without another read. */
interface KnownJob {
  readonly job: Job;
  /** Monotonic milliseconds at which it was known to be ready. */
  readonly atMs: number;
  /** Whether this agent created it. Then a read may have found it before the runner was notified of it. */
  readonly made: boolean;
}

interface NextJobsOptions {
  readonly store: Store;
  readonly life: RunnerLife;
  readonly monotonicMs: () => number;
}

interface NextTaken {
  /** Free jobs, which this runner has claimed. */
  readonly claimed: readonly Job[];
  /** Jobs of this host, whose claims are not written yet. */
  readonly ready: readonly Job[];
  readonly due: NextDue;
}

/** Keeps the jobs that a runner starts next. */
export class NextJobs {
  readonly #options: NextJobsOptions;
  /** Ready jobs that have not been started. */
  #ahead: readonly KnownJob[] = [];
  /** Number of jobs that were started since the last read. */
  #begun: number = AHEAD.most;
  #free = false;
  /** No other job is ready before this monotonic time, milliseconds, as far as notices show. */
  #othersAtMs = Number.NEGATIVE_INFINITY;
  /** Monotonic milliseconds at which the next job is due, from the last read; infinity when unknown. */
  #dueAtMs = Number.POSITIVE_INFINITY;
  /** How often look() was called. A read during which it was called is out of date. */
  #looks = 0;
  #asking = false;
  /** No job is taken before this monotonic time, milliseconds. */
  #pausedUntilMs = Number.NEGATIVE_INFINITY;
  /** Whether a free job goes first when jobs of both kinds wait for the last slot. */
  #freeFirst = false;

  constructor(options: NextJobsOptions) {
    this.#options = options;
  }

  /**
   * Takes jobs for up to `limit` slots.
   * @param passedOver jobs of this host whose claims are being written
   * @param isRunning whether a job has been started and has not ended
   */
  async take(
    limit: number,
    passedOver: ReadonlySet<JobUuid>,
    isRunning: (uuid: JobUuid) => boolean = (uuid) => passedOver.has(uuid),
  ): Promise<NextTaken> {
    const found = await this.#ready(limit, passedOver, isRunning);
    const claimed = await this.#takeFree(found, limit);
    const ready = found.jobs.slice(0, limit - claimed.length);
    const uuids = new Set(ready.map(({ uuid }) => uuid));
    this.#begun += ready.length;
    this.#ahead = this.#ahead.filter(({ job: { uuid } }) => !uuids.has(uuid));
    return { claimed, ready, due: this.#ahead.length > 0 ? { kind: "ready" } : found.due };
  }

  /** Reports a new job that is ready for this runner. */
  made(job: Job): void {
    const atMs = this.#options.monotonicMs();
    // Other jobs may be ready before it, so the next read fetches it in its turn.
    if (atMs >= this.#othersAtMs || this.#ahead.length >= AHEAD.most) return this.look();
    this.#ahead = [...this.#ahead, { job, atMs, made: true }];
  }

  /** Reports a new job that is due in `ms` milliseconds. @returns whether that is earlier than anything known */
  delayed(ms: number): boolean {
    const dueAtMs = this.#options.monotonicMs() + ms;
    if (dueAtMs >= this.#dueAtMs && !this.#asking) return false;
    // A read that is running may have missed the job.
    this.#looks += 1;
    this.#dueAtMs = dueAtMs;
    this.#othersAtMs = Math.min(this.#othersAtMs, dueAtMs);
    return true;
  }

  /** Notes that other jobs may be ready, so that the next take() reads. */
  look(): void {
    this.#looks += 1;
    this.#othersAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Takes no job for `ms` milliseconds, because a claim was refused or no guest started. */
  pause(ms: number): void {
    this.#pausedUntilMs = this.#options.monotonicMs() + ms;
  }

  /** Milliseconds for which no job may be taken; 0 or less when one may. */
  get pausedMs(): number {
    return this.#pausedUntilMs - this.#options.monotonicMs();
  }

  /** Drops the jobs that were read, which may no longer be ready. */
  forget(): void {
    this.look();
    this.#ahead = [];
  }

  async #ready(
    limit: number,
    passedOver: ReadonlySet<JobUuid>,
    isRunning: (uuid: JobUuid) => boolean,
  ): Promise<Claimed> {
    const { store: { jobs, shared }, life, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    this.#ahead = this.#ahead.filter(({ made, job: { uuid } }) => !made || !isRunning(uuid));
    if (this.#ahead.some(({ atMs }) => nowMs - atMs > AHEAD_MS)) this.forget();
    const known = this.#ahead.slice(0, limit);
    if (known.length > 0) {
      const later = known.map(({ job, atMs }) => begunLater(job, nowMs - atMs));
      return { jobs: later, due: { kind: "ready" }, free: this.#free };
    }
    if (nowMs < this.#othersAtMs) {
      return { jobs: [], due: dueFrom(this.#dueAtMs - nowMs), free: false };
    }
    const looks = this.#looks;
    this.#asking = true;
    this.#dueAtMs = Number.POSITIVE_INFINITY;
    try {
      const along = Math.min(Math.max(this.#begun * AHEAD.times, AHEAD.least), AHEAD.most);
      this.#begun = 0;
      // The store does not see claims that are being written, so the read skips those jobs.
      const found = await jobs.ready(life, shared ? limit + along : limit, new Set(passedOver));
      this.#ahead = shared ? found.jobs.map((job) => ({ job, atMs: nowMs, made: false })) : [];
      this.#free = found.free === true;
      if (shared && looks === this.#looks) this.#know(found, nowMs);
      return { ...found, jobs: found.jobs.slice(0, limit) };
    } finally {
      this.#asking = false;
    }
  }

  /** Remembers when other jobs are due, from what a read returned. A host that claims no free jobs learns nothing. */
  #know({ due, free }: Claimed, nowMs: number): void {
    if (due.kind === "ready" || free !== false) return;
    this.#dueAtMs = due.kind === "in" ? nowMs + due.ms : Number.POSITIVE_INFINITY;
    this.#othersAtMs = Math.min(this.#dueAtMs, nowMs + KNOWN_MS);
  }

  /** Claims free jobs for the slots that this host's jobs leave, and every second slot for which both kinds wait. */
  async #takeFree({ jobs: own, free = false }: Claimed, limit: number): Promise<readonly Job[]> {
    if (!free) return [];
    this.#freeFirst = !this.#freeFirst;
    const room = Math.max(limit - own.length, this.#freeFirst ? 1 : 0);
    if (room === 0) return [];
    const { store: { jobs }, life } = this.#options;
    return (await jobs.claim(life, room, "free")).jobs;
  }
}

function dueFrom(ms: number): NextDue {
  return Number.isFinite(ms) ? { kind: "in", ms } : { kind: "none" };
}

/** The job as a read `ms` milliseconds later would have returned it. */
function begunLater(job: Job, ms: number): Job {
  const { elapsed_at, started_at } = job;
  if (elapsed_at === null) return job;
  const begun_at = instantAfter(elapsed_at, Math.floor(ms));
  return {
    ...job,
    elapsed_at: begun_at,
    started_at: started_at === elapsed_at ? begun_at : started_at,
  };
}

/** Milliseconds until something is due, capped so that a changed clock is noticed. */
export function waitFor(due: NextDue): number {
  return due.kind === "in" ? Math.min(due.ms, LOOK_MS_MAX) : LOOK_MS_MAX;
}
