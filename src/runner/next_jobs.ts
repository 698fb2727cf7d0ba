// Which ready jobs get the free slots: those of this host and free ones take turns. Where a read asks a server, those
// beyond the slots are read along, and begin without another read when slots become free. So do jobs that this agent
// has just made, as long as it knows that nothing else is ready.

import { instantAfter } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Claimed, NextDue, RunnerLife } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";

/** Jobs that are read along: twice as many as have begun since the last read, since each costs a part of a claim. */
const AHEAD = { least: 8, times: 2, most: 64 } as const;
/** Milliseconds for which they count as ready: hold() refuses those that are not any more. */
const AHEAD_MS = 100;
/** The same for what a read has said of all others: a notice of other jobs may be missing. */
const KNOWN_MS = 1_000;

/** A job that begins without another read. */
interface KnownJob {
  readonly job: Job;
  /** Monotonic milliseconds at which it was ready. */
  readonly atMs: number;
  /** Whether this agent has made it. A read may have found it too, before it was known here. */
  readonly made: boolean;
}

interface NextJobsOptions {
  readonly store: Store;
  readonly life: RunnerLife;
  readonly monotonicMs: () => number;
}

/** Jobs for free slots. */
interface NextTaken {
  /** Free jobs, which this runner has claimed. */
  readonly claimed: readonly Job[];
  /** Those of this host, whose claims are to be written. */
  readonly ready: readonly Job[];
  readonly due: NextDue;
}

/** The jobs that a runner begins next. */
export class NextJobs {
  readonly #options: NextJobsOptions;
  /** Ready jobs that have not begun. */
  #ahead: readonly KnownJob[] = [];
  /** Jobs that have begun since the last read. */
  #begun: number = AHEAD.most;
  #free = false;
  /** Monotonic milliseconds until which no other job is ready, as far as notices say. */
  #othersAtMs = Number.NEGATIVE_INFINITY;
  /** When the next one is due, as a read has said; never when that is not known. */
  #dueAtMs = Number.POSITIVE_INFINITY;
  /** How often it was said that others may be ready. */
  #looks = 0;
  #asking = false;
  /** Whether a free job gets the next slot that a job of this host wants too. */
  #freeFirst = false;

  constructor(options: NextJobsOptions) {
    this.#options = options;
  }

  /**
   * Takes jobs for so many slots.
   * @param passedOver those of this host whose claims are being written
   * @param running those that have begun and not ended
   */
  async take(
    limit: number,
    passedOver: ReadonlySet<JobUuid>,
    running: Pick<ReadonlySet<JobUuid>, "has"> = passedOver,
  ): Promise<NextTaken> {
    const found = await this.#ready(limit, passedOver, running);
    const claimed = await this.#takeFree(found, limit);
    const ready = found.jobs.slice(0, limit - claimed.length);
    const uuids = new Set(ready.map(({ uuid }) => uuid));
    this.#begun += ready.length;
    this.#ahead = this.#ahead.filter(({ job: { uuid } }) => !uuids.has(uuid));
    return { claimed, ready, due: this.#ahead.length > 0 ? { kind: "ready" } : found.due };
  }

  /** A job was made that is ready for this runner. */
  made(job: Job): void {
    const atMs = this.#options.monotonicMs();
    // Behind others that may be ready it waits for its turn, and is read with them.
    if (atMs >= this.#othersAtMs || this.#ahead.length >= AHEAD.most) return this.look();
    this.#ahead = [...this.#ahead, { job, atMs, made: true }];
  }

  /** A job was made that is due after so many milliseconds. @returns whether that is sooner than was known */
  delayed(ms: number): boolean {
    const dueAtMs = this.#options.monotonicMs() + ms;
    if (dueAtMs >= this.#dueAtMs && !this.#asking) return false;
    // A read that is under way may not have seen it.
    this.#looks += 1;
    this.#dueAtMs = dueAtMs;
    this.#othersAtMs = Math.min(this.#othersAtMs, dueAtMs);
    return true;
  }

  /** Others may be ready. */
  look(): void {
    this.#looks += 1;
    this.#othersAtMs = Number.NEGATIVE_INFINITY;
  }

  /** What is known may not be true any more. */
  forget(): void {
    this.look();
    this.#ahead = [];
  }

  async #ready(
    limit: number,
    passedOver: ReadonlySet<JobUuid>,
    running: Pick<ReadonlySet<JobUuid>, "has">,
  ): Promise<Claimed> {
    const { store: { jobs, shared }, life, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    this.#ahead = this.#ahead.filter(({ made, job: { uuid } }) => !made || !running.has(uuid));
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
      // A claim that is written meanwhile is not seen by the read.
      const found = await jobs.ready(life, shared ? limit + along : limit, new Set(passedOver));
      this.#ahead = shared ? found.jobs.map((job) => ({ job, atMs: nowMs, made: false })) : [];
      this.#free = found.free === true;
      if (shared && looks === this.#looks) this.#know(found, nowMs);
      return { ...found, jobs: found.jobs.slice(0, limit) };
    } finally {
      this.#asking = false;
    }
  }

  /** Notes what a read said of the jobs that it did not return; of a host that claims nothing it says nothing. */
  #know({ due, free }: Claimed, nowMs: number): void {
    if (due.kind === "ready" || free !== false) return;
    this.#dueAtMs = due.kind === "in" ? nowMs + due.ms : Number.POSITIVE_INFINITY;
    this.#othersAtMs = Math.min(this.#dueAtMs, nowMs + KNOWN_MS);
  }

  /** Claims free jobs for the slots that those of this host leave, and for every second slot that both want. */
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

/** A job that begins so long after it was read. */
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
