// A small model of the whole runner: what becomes of jobs by document 2 and by what is promised of
// crashes, in plain data and without a store. It is told of everything that happens, refuses what
// must not, and says how each job should look.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../../src/domain/id.ts";
import { type Instant, msBetween } from "../../../src/domain/instant.ts";
import type { NewJob } from "../../../src/domain/job/job.ts";
import { isFinal, type Phase } from "../../../src/domain/job/state.ts";
import { type Task, taskName } from "../../../src/domain/job/workflow.ts";
import type { TaskOutcome, TaskRun } from "../../../src/sandbox/run_task.ts";
import type { AttemptRecord, Hold, TaskRecord } from "../../../src/store/run_store.ts";
import {
  bodyIsNext,
  isInterrupted,
  isOpen,
  keyOf,
  mayFallBack,
  type ModelJob,
  modelJobOf,
  type Run,
  runOf,
  tasksOf,
  timeoutOf,
} from "./model_job.ts";

export class Model {
  readonly jobs = new Map<JobUuid, ModelJob>();
  now: Instant;
  ms = 0;

  constructor(now: Instant) {
    this.now = now;
  }

  /** The clock shows another time. */
  clock(now: Instant, ms: number): void {
    this.now = now;
    this.ms = ms;
    for (const job of this.jobs.values()) {
      if (job.ready === "no" && job.readyAt !== null && job.readyAt <= now) job.ready = "maybe";
    }
  }

  job(uuid: JobUuid): ModelJob {
    const job = this.jobs.get(uuid);
    assert(job !== undefined, `nobody has made job ${uuid}`);
    return job;
  }

  /** Whether a job must be claimed when there is room. */
  due({ readyAt, ready }: ModelJob): boolean {
    return readyAt !== null && (ready === "yes" || readyAt <= this.now);
  }

  /** What becomes of a wish: of those with one target and equal params one job is open. */
  #placed(wish: NewJob): "created" | "duplicate" {
    const key = keyOf(wish);
    const held = [...this.jobs.values()].some((job) => job.key === key && isOpen(job));
    return held ? "duplicate" : "created";
  }

  /** Somebody wanted a job. */
  posted(wish: NewJob, kind: string): void {
    assertEquals(kind, this.#placed(wish));
    if (kind === "created") this.jobs.set(wish.uuid, modelJobOf(wish, this.now));
  }

  /** Somebody wanted a job made anew. */
  retried(uuid: JobUuid, wish: NewJob, kind: string): void {
    const job = this.job(uuid);
    const denied = isOpen(job) || job.anew;
    if (denied) return assertEquals(kind, "denied");
    this.posted(wish, kind);
    job.anew = kind === "created";
  }

  claimed(uuid: JobUuid, lease: number): void {
    const job = this.job(uuid);
    assert(!job.held && job.readyAt !== null, `job ${uuid} is claimed while it is not to be`);
    assert(job.ready !== "no", `job ${uuid} runs early`);
    assert(lease > job.lease, `job ${uuid} has its lease again`);
    if (job.execution === "queued") job.execution = "running";
    else assertEquals([job.execution, job.phase], ["canceled", "oncancel"]);
    job.starts += 1;
    Object.assign(job, { held: true, lease, readyAt: null, begun: true });
    job.elapsedAt = this.now;
    job.run = job.ahead ?? this.#runOf(job);
    delete job.ahead;
  }

  /** A runner may begin the job; its claim follows. */
  readied(uuid: JobUuid): void {
    const job = this.job(uuid);
    assertEquals(job.ahead, undefined, `job ${uuid} is begun twice`);
    job.ahead = this.#runOf(job);
  }

  /** The claim of a job that was begun does not hold: it has moved since, as by a cancel. */
  refused(uuid: JobUuid): void {
    const job = this.job(uuid);
    assert(job.ahead !== undefined && !job.held, `job ${uuid} is not given to its runner`);
    assert(job.execution === "canceled", `job ${uuid} is refused without a reason`);
    delete job.ahead;
  }

  /** The runner has died: of what it had begun without a claim there is no trace. */
  died(): void {
    for (const job of this.jobs.values()) delete job.ahead;
  }

  #runOf({ failures: executions, seen, elapsedMs }: ModelJob): Run {
    return { beganMs: this.ms - elapsedMs, executions, seen };
  }

  /** A failed attempt was written, or refused; the next one follows, also after a crash. */
  attemptRecorded(record: AttemptRecord, written: boolean): void {
    const job = this.job(record.job_uuid);
    const holds = this.#holds(record) && record.phase === job.phase;
    assertEquals(written, holds, `an attempt of job ${job.uuid} counts, or does not`);
    if (!holds) return;
    const run = this.#heldRun(job);
    assertEquals([run.open, run.end], [undefined, undefined], `job ${job.uuid} has not failed`);
    assertEquals(record.attempt.error, run.failure);
    assertEquals(record.attempt.attempt, job.starts - 1 + run.executions);
    job.failures += 1;
    job.seen = run.seen;
    assertEquals(job.failures, run.executions);
    this.#count(job, record);
  }

  /** A body or fallback begins: it must be the one that is next, with its time and its attempt. */
  began(uuid: JobUuid, run: TaskRun): void {
    const job = this.job(uuid);
    const now = job.ahead ?? this.#heldRun(job);
    const starts = job.ahead === undefined ? job.starts : job.starts + 1;
    assert(job.ahead === undefined || starts === 1, `job ${uuid} begins again before it counts`);
    const task = tasksOf(job)[job.results[job.phase].length];
    assert(task !== undefined, `job ${uuid} runs a task beyond its last`);
    assertEquals(run.taskName, taskName(task), `job ${uuid} runs another task than the next`);
    const source = run.kind === "body" ? task.body : task.fallback;
    assertEquals(run.source, source, `job ${uuid} runs another source than that of its task`);
    assertEquals(now.open, undefined, `job ${uuid} runs twice`);
    assertEquals(now.end, undefined, `job ${uuid} runs a task that has ended`);
    const leftMs = timeoutOf(job) * 1000 - (this.ms - now.beganMs);
    const ownMs = task.timeout === undefined ? Infinity : task.timeout * 1000;
    assert(leftMs > 0, `job ${uuid} runs beyond its time`);
    assertEquals(run.timeoutMs, Math.min(ownMs, leftMs));
    const body = bodyIsNext(job, task);
    assertEquals(run.kind, body ? "body" : "fallback");
    if (body) now.executions += 1;
    else {
      assert(mayFallBack(job, task), `job ${uuid} runs a fallback again`);
      assertEquals(run.error, isInterrupted(job) ? "interrupted" : now.failure);
      now.fallenBack = true;
    }
    assertEquals(run.job.attempt, starts - 1 + now.executions);
    assertEquals(run.job.seen ?? 0, now.seen);
    now.open = { kind: run.kind, ownTime: ownMs <= leftMs, atMs: this.ms };
  }

  /** What a body or fallback has ended with. */
  ended(uuid: JobUuid, outcome: TaskOutcome): void {
    const run = runOf(this.job(uuid));
    if (run?.open === undefined || outcome.kind === "aborted") return;
    const { ownTime, kind, atMs } = run.open;
    delete run.open;
    if (outcome.kind === "not_started") {
      // It counts neither as an execution nor as time.
      run.executions -= 1;
      run.beganMs += this.ms - atMs;
      return;
    }
    if (outcome.kind !== "timeout") run.seen += 1;
    switch (outcome.kind) {
      case "success":
        run.end = { word: "success", error: "", result: outcome.result };
        return;
      case "signal":
        run.end = { word: outcome.word, error: outcome.word, result: outcome.result };
        return;
      case "failure":
        run.failure = outcome.error;
        if (kind === "fallback") run.end = { word: "failure", error: outcome.error, result: "" };
        return;
      case "timeout":
        run.failure = "task timeout error";
        if (!ownTime) run.end = { word: "failure", error: "workflow timeout", result: "" };
        else if (kind === "fallback") run.end = { word: "failure", error: run.failure, result: "" };
    }
  }

  /** The end of a task was written, or refused. */
  recorded(record: TaskRecord, written: boolean): void {
    const job = this.job(record.job_uuid);
    const holds = this.#holds(record) && record.phase === job.phase;
    assertEquals(written, holds, `a write about job ${job.uuid} counts, or does not`);
    if (!holds) return;
    const run = this.#heldRun(job);
    this.#count(job, record);
    const tasks = tasksOf(job);
    const results = job.results[job.phase];
    const task = tasks[results.length];
    if (task === undefined) return this.#leave(job, { word: "success" }, true);
    const end = run.end ?? this.#endWithoutAnswer(job, task, run);
    const name = task.name ?? task.uuid;
    const last = results.length === tasks.length - 1;
    results.push({ error: end.error, result: end.result, name, attempts: run.executions });
    job.seen = run.seen;
    this.#leave(job, end, last, record);
  }

  released(hold: Hold, elapsedMs: number, written: boolean): void {
    const job = this.job(hold.job_uuid);
    assertEquals(written, this.#holds(hold), `job ${job.uuid} is given back, or is not`);
    if (!written) return;
    job.elapsedMs = this.ms - this.#heldRun(job).beganMs;
    // A cancel may have come first: its phase has not run yet, whatever the runner says of the one before.
    if (hold.phase === job.phase) {
      assertEquals(elapsedMs, job.elapsedMs, `job ${job.uuid} is given back with another time`);
    }
    job.starts = Math.max(job.starts - 1, 0);
    this.#queue(job);
  }

  rescued(count: number): void {
    const held = [...this.jobs.values()].filter((job) => job.held);
    assertEquals(count, held.length, "not all jobs of the dead runner were rescued");
    for (const job of held) this.#queue(job);
  }

  canceled(uuid: JobUuid, changed: boolean): void {
    const job = this.job(uuid);
    assertEquals(changed, !isFinal(job.execution), `job ${uuid} is canceled, or is not`);
    if (!changed) return;
    const undoes = (job.workflow.oncancel ?? []).length > 0 && job.begun;
    if (job.held) job.elapsedMs += Math.max(msBetween(job.elapsedAt, this.now), 0);
    job.elapsedAt = this.now;
    if (undoes) Object.assign(job, { failures: 0 });
    if (undoes) this.#endPhase(job);
    Object.assign(job, { execution: "canceled", starts: undoes && job.held ? 1 : 0 });
    delete job.run;
    if (undoes) job.phase = "oncancel";
    if (undoes && job.held) job.run = { beganMs: this.ms, executions: 0, seen: job.seen };
    job.held = undoes && job.held;
    job.readyAt = null;
    if (undoes && !job.held) this.#ready(job);
  }

  resumed(uuid: JobUuid, error: string | undefined, changed: boolean): void {
    const job = this.job(uuid);
    assertEquals(changed, job.execution === "waiting", `job ${uuid} is resumed, or is not`);
    if (!changed) return;
    const entry = job.results[job.phase].at(-1);
    assert(entry !== undefined);
    Object.assign(entry, { error: error ?? "", result: "resumed" });
    job.execution = error === undefined ? "queued" : "failed";
    if (error === undefined) this.#ready(job);
  }

  /** The time that a job has run is written with the end of an attempt or task. */
  #count(job: ModelJob, { elapsed_ms }: Pick<TaskRecord, "elapsed_ms">): void {
    job.elapsedMs = this.ms - this.#heldRun(job).beganMs;
    job.elapsedAt = this.now;
    assertEquals(elapsed_ms, job.elapsedMs);
  }

  #holds({ job_uuid, lease }: Hold): boolean {
    const job = this.job(job_uuid);
    return job.held && job.lease === lease;
  }

  #heldRun(job: ModelJob): Run {
    assert(job.held && job.run !== undefined, `job ${job.uuid} is not held`);
    return job.run;
  }

  /** The end of a task that was not begun, or not begun again, for want of time or of trust. */
  #endWithoutAnswer(job: ModelJob, task: Task, run: Run): NonNullable<Run["end"]> {
    assertEquals(run.open, undefined, `job ${job.uuid} is recorded while it runs`);
    if (bodyIsNext(job, task) || mayFallBack(job, task)) {
      const spentMs = this.ms - run.beganMs;
      assert(spentMs >= timeoutOf(job) * 1000, `job ${job.uuid} skips an execution`);
      return { word: "failure", error: "workflow timeout", result: "" };
    }
    const error = isInterrupted(job) ? "interrupted" : run.failure ?? "";
    return { word: "failure", error, result: "" };
  }

  /** What becomes of a job after a task. @see document 2, Tasks */
  #leave(job: ModelJob, { word }: { word: string }, last: boolean, record?: TaskRecord): void {
    const goesOn = (phase: Phase, execution = job.execution) => {
      const beganMs = phase === job.phase ? this.#heldRun(job).beganMs : this.ms;
      if (phase !== job.phase) this.#endPhase(job);
      Object.assign(job, { phase, execution, starts: 1, failures: 0 });
      job.run = { beganMs, executions: 0, seen: job.seen };
    };
    const leaves = (execution: ModelJob["execution"]) => {
      Object.assign(job, { execution, held: false, starts: 0, failures: 0, readyAt: null });
      delete job.run;
    };
    if (word === "success" && !last) return goesOn(job.phase);
    if (job.phase === "oncancel") return leaves("canceled");
    switch (word) {
      case "success":
        return leaves(job.phase === "chain" ? "succeeded" : "failed");
      case "failure":
        if (job.phase === "chain" && job.workflow.onerror.length > 0) return goesOn("onerror");
        return leaves("failed");
      case "cancel":
        if ((job.workflow.oncancel ?? []).length > 0) return goesOn("oncancel", "canceled");
        return leaves("canceled");
      case "queue":
        leaves("queued");
        return this.#ready(job);
      case "wait":
        return leaves("waiting");
      case "retry":
        leaves("retried");
        return this.#madeAnew(job, record);
    }
  }

  #madeAnew(job: ModelJob, record: TaskRecord | undefined): void {
    assert(record?.event.kind === "cb_retry");
    const { successor = null } = record;
    const max = Number(job.workflow.max_attempts ?? 10);
    assertEquals(successor !== null, job.attempt + 1 < max, `job ${job.uuid} has a successor`);
    if (successor === null) return;
    job.anew = true;
    const delayMs = Number(job.workflow.initial_delay ?? 0) * 2 ** job.attempt;
    assertEquals(successor.delay_ms, delayMs);
    assertEquals([successor.target, successor.props?.num_attempts], [job.target, job.attempt + 1]);
    this.posted(successor, "created");
  }

  /** What follows has a time of its own. */
  #endPhase(job: ModelJob): void {
    job.phasesMs += job.elapsedMs;
    job.elapsedMs = 0;
  }

  #queue(job: ModelJob): void {
    if (job.execution === "running") job.execution = "queued";
    job.held = false;
    delete job.run;
    this.#ready(job);
  }

  #ready(job: ModelJob): void {
    Object.assign(job, { readyAt: this.now, ready: "yes" });
  }
}
