// Which ready jobs get the free slots: those of this host and free ones take turns. Where a read asks a server, those
// beyond the slots are read along, and begin without another read when slots become free.

import { instantAfter } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Claimed, NextDue, RunnerLife } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";

/** Jobs that are read along. */
const AHEAD_MAX = 64;
/** Milliseconds for which they count as ready: hold() refuses those that are not any more. */
const AHEAD_MS = 100;

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
  /** The jobs of the latest read that have not begun. */
  #ahead: readonly Job[] = [];
  #free = false;
  /** Monotonic milliseconds of that read. */
  #readAtMs = Number.NEGATIVE_INFINITY;
  /** Whether a free job gets the next slot that a job of this host wants too. */
  #freeFirst = false;

  constructor(options: NextJobsOptions) {
    this.#options = options;
  }

  /**
   * Takes jobs for so many slots.
   * @param passedOver those of this host whose claims are being written
   */
  async take(limit: number, passedOver: ReadonlySet<JobUuid>): Promise<NextTaken> {
    const found = await this.#ready(limit, passedOver);
    const claimed = await this.#takeFree(found, limit);
    const ready = found.jobs.slice(0, limit - claimed.length);
    const uuids = new Set(ready.map(({ uuid }) => uuid));
    this.#ahead = this.#ahead.filter(({ uuid }) => !uuids.has(uuid));
    return { claimed, ready, due: this.#ahead.length > 0 ? { kind: "ready" } : found.due };
  }

  /** What was read may not be true any more. */
  forget(): void {
    this.#ahead = [];
  }

  async #ready(limit: number, passedOver: ReadonlySet<JobUuid>): Promise<Claimed> {
    const { store: { jobs, shared }, life, monotonicMs } = this.#options;
    const ageMs = monotonicMs() - this.#readAtMs;
    if (this.#ahead.length > 0 && ageMs <= AHEAD_MS) {
      const later = this.#ahead.slice(0, limit).map((job) => begunLater(job, ageMs));
      return { jobs: later, due: { kind: "ready" }, free: this.#free };
    }
    this.#readAtMs = monotonicMs();
    // A claim that is written meanwhile is not seen by the read.
    const found = await jobs.ready(life, shared ? limit + AHEAD_MAX : limit, new Set(passedOver));
    this.#ahead = shared ? found.jobs : [];
    this.#free = found.free === true;
    return { ...found, jobs: found.jobs.slice(0, limit) };
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
