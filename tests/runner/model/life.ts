// The lives of a runner. What a dead one still does reaches nobody: its writes are not made, and it
// is told of nothing.

import type { JobStore } from "../../../src/store/job_store.ts";
import type { Model } from "./model.ts";

/** One life of the runner. */
export interface Life {
  dead: boolean;
  /** Writes until it dies, and whether the last one is still made. */
  fate?: { writes: number; readonly made: boolean };
}

/** Calls to the store, counted, so that one can tell when all is quiet. */
export class Calls {
  count = 0;
  underWay = 0;
  #writes: Promise<unknown> = Promise.resolve();

  /** Makes writes one after the other, so that the model hears of them in their order. */
  write<T>(write: () => Promise<T>): Promise<T> {
    const made = this.#writes.then(() => this.counted(write));
    this.#writes = made.catch(() => {});
    return made;
  }

  async counted<T>(call: () => Promise<T>): Promise<T> {
    this.count += 1;
    this.underWay += 1;
    try {
      return await call();
    } finally {
      this.underWay -= 1;
    }
  }
}

/** Who is told of what a life does. */
export interface Witness {
  readonly model: Model;
  /** Tells the model something; what it refuses is kept for later. */
  readonly tell: (what: () => void) => void;
  readonly die: () => void;
}

/** The jobs of a store as one life of the runner reaches them. */
export function mortalJobs(jobs: JobStore, life: Life, calls: Calls, witness: Witness): JobStore {
  const { model, tell } = witness;
  const read = <T>(call: () => Promise<T>): Promise<T> =>
    new Promise((resolve, reject) => {
      if (life.dead) return;
      calls.counted(call).then((answer) => life.dead || resolve(answer), reject);
    });
  const write = <T>(
    call: () => Promise<T>,
    told: (answer: T) => void,
    before?: () => Promise<void>,
  ): Promise<T> =>
    new Promise((resolve, reject) => {
      void calls.write(async () => {
        await before?.();
        if (life.dead) return;
        const dies = life.fate !== undefined && life.fate.writes-- <= 0;
        if (!dies || life.fate?.made) {
          await call().then((answer) => {
            tell(() => told(answer));
            if (!dies && !life.dead) resolve(answer);
          }, reject);
        }
        if (dies) witness.die();
      });
    });
  return {
    ...jobs,
    get: (uuid) => read(() => jobs.get(uuid)),
    renew: (...args) => write(() => jobs.renew(...args), () => {}),
    claim: (life, limit) =>
      limit === 0 ? read(() => jobs.claim(life, 0)) : write(
        () => jobs.claim(life, limit),
        (claimed) => {
          for (const { uuid, lease } of claimed.jobs) model.claimed(uuid, lease);
        },
      ),
    ready: async (...args) => {
      const ready = await read(() => jobs.ready(...args));
      // A life that has ended since begins nothing.
      if (!life.dead) { for (const { uuid } of ready.jobs) tell(() => model.readied(uuid)); }
      return ready;
    },
    hold: (life, begun) =>
      write(() => {
        const held = jobs.hold(life, begun);
        jobs.hurry();
        return held;
      }, (held) => {
        for (const { uuid, lease } of begun) {
          if (held.includes(uuid)) model.claimed(uuid, lease);
          else model.refused(uuid);
        }
        // What has begun meanwhile may have come to its end.
      }, () => new Promise((resolve) => setImmediate(resolve))),
    begin: (...args) =>
      write(
        () => jobs.begin(...args),
        (outcome) => model.rescued(outcome.kind === "begun" ? outcome.rescued : -1),
      ),
    recordTask: (record) =>
      write(() => jobs.recordTask(record), (written) => model.recorded(record, written)),
    recordAttempt: (record) =>
      write(() => jobs.recordAttempt(record), (written) => model.attemptRecorded(record, written)),
    release: (hold, elapsedMs) =>
      write(
        () => jobs.release(hold, elapsedMs),
        (written) => model.released(hold, elapsedMs, written),
      ),
    rescue: (runner) => write(() => jobs.rescue(runner), () => {}),
    abandon: ({ job_uuid }) => Promise.reject(new Error(`The run of job ${job_uuid} broke off`)),
  };
}
