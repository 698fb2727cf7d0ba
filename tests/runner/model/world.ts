// The runner under the model's eyes: the real runner on the real store, with a clock that stands
// still until it is moved, task bodies that answer when they are told to, and lives that can end
// before or after any write.

import type { JobUuid } from "../../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../../src/domain/instant.ts";
import type { NewJob } from "../../../src/domain/job/job.ts";
import type { Resume } from "../../../src/domain/job/request.ts";
import { openLog } from "../../../src/metrics/log.ts";
import { openMemoryBudget } from "../../../src/domain/memory_budget.ts";
import { Runner } from "../../../src/runner/runner.ts";
import type { TaskOutcome, TaskRun } from "../../../src/sandbox/run_task.ts";
import type { JobStore } from "../../../src/store/job_store.ts";
import { type ClockedStore, lifeOf } from "../../support/clocked_store.ts";
import { RUNNER, T0, uuidOf } from "../../support/job.ts";
import { Calls, type Life, mortalJobs } from "./life.ts";
import { Model } from "./model.ts";
import { answer } from "./script.ts";
import { noCapabilities, ownerNamed } from "../../sandbox/bodies.ts";
import { NO_LIMIT } from "../../support/limits.ts";

/** An execution that has begun and not ended. */
export interface OpenTask {
  readonly uuid: JobUuid;
  readonly run: TaskRun;
  readonly endsAtMs: number;
  end(outcome: TaskOutcome): void;
}

/** Turns of the event loop without any call after which nothing goes on by itself. */
const QUIET_TURNS = 3;
/** How long the runner claims nothing after no guest has started. */
const PAUSE_MS = 1_000;
/** The numbers of the jobs that the runner makes begin here. */
const SUCCESSORS = 1000;

export class World {
  readonly model = new Model(T0);
  readonly tasks: OpenTask[] = [];
  /** What the runner logged as an error, which nothing here may cause. */
  readonly errors: string[] = [];
  readonly #store: ClockedStore;
  readonly #slots: number;
  #now: Instant = T0;
  #ms = 0;
  #runner: Runner | undefined;
  #life: Life = { dead: true };
  readonly #calls = new Calls();
  #made = 0;
  #lives = 0;
  #fault: unknown;
  /** Until when the runner claims nothing, because no guest started. */
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  readonly #eager: boolean;

  /** @param eager whether bodies answer at once, as far as their scripts do */
  constructor(store: ClockedStore, slots: number, eager: boolean) {
    this.#store = store;
    this.#slots = slots;
    this.#eager = eager;
  }

  get now(): Instant {
    return this.#now;
  }

  get alive(): boolean {
    return !this.#life.dead;
  }

  get paused(): boolean {
    return this.#ms < this.#pausedUntilMs;
  }

  /** Begins a life, unless the runner lives. */
  async start(): Promise<void> {
    if (this.alive) return;
    const life: Life = { dead: false };
    this.#life = life;
    this.#pausedUntilMs = Number.NEGATIVE_INFINITY;
    const runner = new Runner({
      budget: openMemoryBudget(),
      ownerOf: ({ workflow_uuid }) => Promise.resolve(ownerNamed(workflow_uuid)),
      store: { ...this.#store, jobs: this.#mortalJobs(life) },
      life: lifeOf(RUNNER, ++this.#lives),
      earlier: Array.from(
        { length: this.#lives - 1 },
        (_, at) => lifeOf(RUNNER, at + 1).incarnation,
      ),
      slots: this.#slots,
      leaseMs: 60_000,
      guests: { run: (run, _perform, signal) => this.#runTask(life, run, signal) },
      performFor: noCapabilities,
      now: () => this.#now,
      monotonicMs: () => this.#ms,
      newUuid: <T>() => uuidOf<JobUuid>(SUCCESSORS + this.#made++) as T,
      retryCountsFirst: false,
      log: openLog({
        level: "error",
        format: "json",
        write: (line) => this.errors.push(line),
        now: () => this.#now,
      }),
    });
    this.#runner = runner;
    void runner.start();
    await this.settle();
  }

  /** Ends the life at once; what the runner still does reaches nobody. */
  kill(): void {
    this.#life.dead = true;
    this.tasks.length = 0;
    this.model.died();
    void this.#runner?.stop(0);
  }

  /** Ends the life at a later write, before or after it is made. */
  doom(writes: number, made: boolean): void {
    this.#life.fate = { writes, made };
  }

  /** Ends the life in order. */
  async stop(): Promise<void> {
    if (!this.alive) return;
    const life = this.#life;
    let stopped = false;
    void this.#runner?.stop(0).then(() => stopped = true);
    while (!stopped && !life.dead) await this.settle();
    await this.settle();
    life.dead = true;
  }

  /** Ends everything, and waits for the timers of the lives that there were. */
  async end(): Promise<void> {
    this.kill();
    this.#fault = undefined;
    await this.settle();
    await new Promise((resolve) => setTimeout(resolve));
  }

  /** Moves the clock of the wall, and unless it is set, the time that passes. */
  move(wallMs: number, passes: boolean): void {
    this.#now = instantAfter(this.#now, wallMs);
    this.#store.clock.now = this.#now;
    if (passes) this.#ms += wallMs;
    this.model.clock(this.#now, this.#ms);
    for (const task of this.tasks.filter(({ endsAtMs }) => endsAtMs <= this.#ms)) {
      task.end({ kind: "timeout" });
    }
    this.#runner?.wake();
  }

  async create(job: NewJob): Promise<void> {
    await this.#calls.write(async () => {
      const { kind } = await this.#store.jobs.create(job, NO_LIMIT);
      this.model.posted(job, kind);
    });
  }

  async cancel(uuid: JobUuid): Promise<void> {
    await this.#calls.write(async () => {
      const outcome = await this.#store.jobs.cancel(uuid);
      this.model.canceled(uuid, outcome.kind === "changed");
    });
  }

  async retry(uuid: JobUuid, successor: NewJob): Promise<void> {
    await this.#calls.write(async () => {
      const { kind } = await this.#store.jobs.retry(uuid, successor, NO_LIMIT);
      this.model.retried(uuid, successor, kind);
    });
  }

  async resume(uuid: JobUuid, error: string | undefined): Promise<void> {
    const resume: Resume = error === undefined
      ? { kind: "result", result: "resumed" }
      : { kind: "error", error, result: "resumed" };
    await this.#calls.write(async () => {
      const outcome = await this.#store.jobs.resume(uuid, resume);
      this.model.resumed(uuid, error, outcome.kind === "changed");
    });
  }

  /** Waits until nothing goes on by itself. @throws what the model found wrong */
  async settle(): Promise<void> {
    for (let quiet = 0, calls = -1; quiet < QUIET_TURNS;) {
      await new Promise((resolve) => setImmediate(resolve));
      quiet = this.#calls.underWay > 0 || this.#calls.count !== calls ? 0 : quiet + 1;
      calls = this.#calls.count;
    }
    if (this.#fault !== undefined) throw this.#fault;
  }

  #mortalJobs(life: Life): JobStore {
    return mortalJobs(this.#store.jobs, life, this.#calls, {
      model: this.model,
      tell: (what) => this.#watch(what),
      die: () => this.kill(),
    });
  }

  #runTask(life: Life, run: TaskRun, signal: AbortSignal): Promise<TaskOutcome> {
    const uuid = run.job.uuid as JobUuid;
    return new Promise((resolve) => {
      if (life.dead) return;
      this.#calls.count += 1;
      if (signal.aborted) return resolve({ kind: "aborted" });
      this.#watch(() => this.model.began(uuid, run));
      const open: OpenTask = {
        uuid,
        run,
        endsAtMs: this.#ms + run.timeoutMs,
        end: (outcome) => {
          if (!this.tasks.includes(open)) return;
          this.tasks.splice(this.tasks.indexOf(open), 1);
          this.#calls.count += 1;
          this.#watch(() => this.model.ended(uuid, outcome));
          if (outcome.kind === "not_started") this.#pausedUntilMs = this.#ms + PAUSE_MS;
          resolve(outcome);
        },
      };
      this.tasks.push(open);
      if (this.#eager) queueMicrotask(() => answer(open));
      signal.addEventListener("abort", () => open.end({ kind: "aborted" }), { once: true });
    });
  }

  /** What the model refuses ends the sequence, not the runner. */
  #watch(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      this.#fault ??= error;
    }
  }
}
