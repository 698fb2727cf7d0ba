// Claims of jobs that are running already. A claim is written in one statement with the end of the first task. It is
// written by itself if that end does not come within milliseconds, when the task needs to act, or before another write
// that depends on claims. A crash before that leaves the job queued, as if it had never started.
//
//     hold ──▶ waiting ──▶ written with the end of a task
//                     └──▶ written by itself

import type { JobUuid } from "../../../domain/id.ts";
import type { Now } from "../../../domain/instant.ts";
import type { Job } from "../../../domain/job/job.ts";
import { SYSTEM_TIMERS, type Timers } from "../../../runtime/timers.ts";
import type { Hold, RunnerLife } from "../../run_store.ts";
import type { Connection } from "../connection.ts";
import { GATHER_MS } from "../group_commit.ts";
import { GATHERED_MIN } from "../../limits.ts";
import { holdJobs } from "./claims.ts";

/** A job that has started before its claim is written. */
export interface WaitingClaim {
  readonly life: RunnerLife;
  readonly job: Job;
  /** Called once it is known whether the runner holds the job. */
  readonly settle: (held: boolean) => void;
  readonly fail: (error: unknown) => void;
}

/** The claims of a store that are not written yet. */
export class WaitingClaims {
  readonly #db: Connection;
  readonly #now: Now;
  readonly #timers: Timers;
  #waiting = new Map<JobUuid, WaitingClaim>();
  /** Claims that were already waiting at the previous tick. */
  #waitingLong = new Map<JobUuid, WaitingClaim>();
  #cancelTick: (() => void) | undefined;

  constructor(db: Connection, now: Now, timers = SYSTEM_TIMERS) {
    this.#db = db;
    this.#now = now;
    this.#timers = timers;
  }

  /** @returns the jobs that the runner holds @throws the error of the writes, when it holds none */
  async hold(life: RunnerLife, jobs: readonly Job[]): Promise<JobUuid[]> {
    const claims = await Promise.allSettled(jobs.map((job) => this.#wait(life, job)));
    const held = jobs.flatMap(({ uuid }, at) => {
      const claim = claims[at];
      return claim?.status === "fulfilled" && claim.value ? [uuid] : [];
    });
    const failed = claims.find(({ status }) => status === "rejected");
    if (held.length === 0 && failed?.status === "rejected") throw failed.reason;
    return held;
  }

  /** The waiting claim under which a task ran, to be written with the task's end. */
  take({ job_uuid, runner_id, lease, phase }: Hold): WaitingClaim | undefined {
    const begun = this.#waiting.get(job_uuid) ?? this.#waitingLong.get(job_uuid);
    if (begun === undefined) return undefined;
    const { life, job } = begun;
    if (life.runner_id !== runner_id || job.lease !== lease || job.phase !== phase) {
      return undefined;
    }
    this.#waiting.delete(job_uuid);
    this.#waitingLong.delete(job_uuid);
    return begun;
  }

  /** Queues the writes of all waiting claims. */
  write(): void {
    const begun = [...this.#waitingLong.values(), ...this.#waiting.values()];
    this.#waiting.clear();
    this.#waitingLong.clear();
    this.#write(begun);
  }

  close(): void {
    this.#cancelTick?.();
    this.write();
  }

  #wait(life: RunnerLife, job: Job): Promise<boolean> {
    return new Promise((settle, fail) => {
      this.#waiting.set(job.uuid, { life, job, settle, fail });
      if (this.#waiting.size >= GATHERED_MIN) this.write();
      else this.#cancelTick ??= this.#startTick();
    });
  }

  #startTick(): () => void {
    return this.#timers.start(GATHER_MS, () => this.#look());
  }

  /** Writes the claims that have waited for a whole tick. */
  #look(): void {
    const late = [...this.#waitingLong.values()];
    this.#waitingLong = this.#waiting;
    this.#waiting = new Map();
    const more = this.#waitingLong.size > 0;
    this.#cancelTick = more ? this.#startTick() : undefined;
    this.#write(late);
  }

  /** One write per life. */
  #write(begun: readonly WaitingClaim[]): void {
    for (const [life, jobs] of Map.groupBy(begun, ({ life }) => life)) {
      const claim = () => holdJobs(this.#db, life, jobs.map(({ job }) => job), this.#now());
      this.#db.write("job_claim", claim).then(
        (uuids) => jobs.forEach(({ job, settle }) => settle(uuids.includes(job.uuid))),
        (error) => jobs.forEach(({ fail }) => fail(error)),
      );
    }
  }
}
