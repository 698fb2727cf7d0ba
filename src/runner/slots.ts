// The slots of a runner, and the jobs that run in them.

import type { JobUuid } from "../domain/id.ts";
import type { RunningJob } from "./running_job.ts";

/** Jobs that have left their slots but are not written yet; beyond this number, their slots do not count as free. */
const UNWRITTEN_MAX = 64;

/** Keeps each job from its start until it has left the runner. */
export class Slots {
  readonly #count: number;
  /** Not a Map: its old tables would hold jobs that have ended, until a collection of the whole heap. */
  readonly #running: RunningJob[] = [];
  /** Running jobs whose last write is in progress: their slots count as free. */
  readonly #leaving = new Set<JobUuid>();

  /** @param count jobs that may run at the same time */
  constructor(count: number) {
    this.#count = count;
  }

  get running(): readonly RunningJob[] {
    return this.#running;
  }

  /** Slots without a job; below zero while more jobs are ending than may run. */
  get free(): number {
    return this.#count - this.#running.length + Math.min(this.#leaving.size, UNWRITTEN_MAX);
  }

  find(uuid: JobUuid): RunningJob | undefined {
    return this.#running.find((job) => job.uuid === uuid);
  }

  /** Keeps a job until it has left the runner. @param left called then */
  put(job: RunningJob, left: () => void): void {
    const before = this.find(job.uuid);
    if (before === undefined) this.#running.push(job);
    else this.#running[this.#running.indexOf(before)] = job;
    void job.done.then(() => {
      this.#leaving.delete(job.uuid);
      // A job that was queued again immediately, as after cb('queue'), may already run here again.
      const at = this.#running.indexOf(job);
      if (at !== -1) this.#running.splice(at, 1);
      left();
    });
  }

  /** Notes that the last write of a job is in progress, or with false that the job stays after all. */
  leave(uuid: JobUuid, leaves: boolean): void {
    this.#leaving[leaves ? "add" : "delete"](uuid);
  }

  isLeaving(uuid: JobUuid): boolean {
    return this.#leaving.has(uuid);
  }
}
