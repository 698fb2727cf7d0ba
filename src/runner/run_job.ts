// Runs one claimed job: the tasks of its phase in order. The end of each task is recorded before the next one starts.
// runner.ts claims jobs.

import type { JobUuid } from "../domain/id.ts";
import { notBefore } from "../domain/instant.ts";
import {
  errorLine,
  INTERRUPTED,
  isFree,
  type Job,
  jobAfter,
  type NewJob,
  phaseOf,
  secretNames,
  type TaskResult,
} from "../domain/job/job.ts";
import { afterTask, heldIn, isHeld, type Move, type TaskEvent } from "../domain/job/state.ts";
import { type Task, taskName } from "../domain/job/workflow.ts";
import type { Hold, TaskRecord } from "../store/run_store.ts";
import { Executor, holdOf } from "./attempt.ts";
import { type JobData, JobMemory, PhaseTime } from "./job_view.ts";
import {
  type AttemptDeps,
  type Attempts,
  entryOf,
  eventOf,
  runAttempts,
  runFallback,
} from "./next_step.ts";
import type { StoreCalls } from "./store_calls.ts";
import { successorOf } from "./successor.ts";
import type { JsonValue } from "../domain/json.ts";
import { type ClaimUnderWay, type JobDeps, JobStops, type RunningJob } from "./running_job.ts";

/** Starts of a task without a recorded result after which the task fails, because it may be what kills the agent. */
const STARTS_MAX = 3;

/**
 * Starts to run a claimed job.
 * @param claim the claim, if it is still being written: until it is durable, tasks can compute but not act
 */
export function runJob(job: Job, deps: JobDeps, claim?: ClaimUnderWay): RunningJob {
  const stops = new JobStops();
  const run = new JobRun(job, deps, stops, claim);
  const done = run.run().catch((error: unknown) => run.abandon(error));
  return {
    uuid: job.uuid,
    free: isFree(job.props),
    // No getter: V8 would put its function into the old space, with all that the job has, until it collects the whole heap.
    isLost: () => stops.lost.stopped,
    hold: () => run.hold(),
    stop: (reason) => stops.stop(reason),
    done,
  };
}

/** Whether the job continues here, has left this runner, or was stopped before this step wrote anything. */
type Went = "goes_on" | "left" | "stopped";

class JobRun {
  #job: Job;
  #data: JobData;
  readonly #deps: JobDeps;
  readonly #stops: JobStops;
  readonly #memory: JobMemory;
  readonly #time: PhaseTime;
  readonly #executor: Executor;
  readonly #calls: StoreCalls;

  constructor(job: Job, deps: JobDeps, stops: JobStops, claim: ClaimUnderWay | undefined) {
    this.#job = job;
    this.#data = { params: job.params, props: job.props };
    this.#deps = deps;
    this.#stops = stops;
    this.#memory = new JobMemory(deps.budget);
    this.#time = new PhaseTime(job, deps.monotonicMs);
    this.#executor = new Executor(job, deps, stops.shutdown, this.#time, claim);
    this.#calls = this.#executor.calls;
  }

  /** Runs the job. Each iteration records the end of a task or of the job, so the number of tasks bounds the loop. */
  async run(): Promise<void> {
    try {
      // A task that was interrupted may be what kills the agent, so each of its starts must be durable before it runs.
      if (this.#job.starts > 1) await this.#executor.claimed();
      for (;;) {
        if (this.#stops.lost.stopped) return;
        if (this.#stops.drain.stopped) return void await this.#release();
        const wanted = this.#memory.take(this.#job, this.#data);
        const went = wanted === 0 ? await this.#step() : await this.#waitForMemory(wanted);
        if (went === "stopped" && !(await this.#takeUpCancel())) return;
        if (went === "left") return;
      }
    } finally {
      this.#memory.release();
    }
  }

  /** Runs the next task of the phase, or ends the phase. */
  #step(): Promise<Went> {
    const { tasks, results } = phaseOf(this.#job);
    const task = tasks[results.length];
    return task === undefined
      ? this.#record({ kind: "succeed" })
      : this.#runTask(task, results.length === tasks.length - 1);
  }

  /** Waits for memory without holding the job's large fields, which are read again afterwards. */
  async #waitForMemory(bytes: number): Promise<Went> {
    const { store, monotonicMs } = this.#deps;
    const beganMs = monotonicMs();
    this.#data = { params: {}, props: {} };
    const large = { requested_params: {}, chain_results: [], onerror_results: [] };
    this.#job = { ...this.#job, ...this.#data, ...large };
    const { drain } = this.#stops;
    try {
      await this.#memory.wait(bytes, AbortSignal.any([drain.signal, this.#signal()]));
    } catch (error) {
      // The loop in run() releases the job.
      if (drain.stopped) return "goes_on";
      if (this.#signal().aborted) return await this.#stopped();
      throw error;
    } finally {
      // Waiting for memory does not use the workflow's time.
      this.#time.leaveOut(monotonicMs() - beganMs);
    }
    if (!(await this.#executor.claimed())) return "stopped";
    const job = await this.#calls.read(() => store.jobs.get(this.#job.uuid), "job not read");
    if (this.#stops.shutdown.stopped) return await this.#stopped();
    if (job === undefined || !this.#isStillOurs(job) || job.phase !== this.#job.phase) {
      return "stopped";
    }
    this.#job = job;
    this.#data = { params: job.params, props: job.props };
    return "goes_on";
  }

  /** Releases the job after a defect of the agent. Its start stays counted, so that this cannot repeat forever. */
  async abandon(error: unknown): Promise<void> {
    const { store, log } = this.#deps;
    log.error("job lost", { job_uuid: this.#job.uuid, error });
    await this.#calls.write(() => store.jobs.abandon(this.hold()), "job not given back");
  }

  async #runTask(task: Task, last: boolean): Promise<Went> {
    const started_at = this.#deps.now();
    const { end, attempts, data, failed } = await this.#attempt(task);
    if (end.kind === "aborted") return await this.#stopped();
    if (end.kind === "left") return "goes_on";
    if (end.kind === "not_started") return await this.#queueAgain(end.why);
    this.#data = data;
    const entry: TaskResult = {
      ...entryOf(end),
      name: taskName(task),
      started_at,
      finished_at: notBefore(started_at, this.#deps.now()),
      attempts,
    };
    const event = eventOf(this.#job, end, last);
    const successor = this.#after(event).to === "retried" ? await this.#successor() : null;
    if (successor === undefined) return await this.#stopped();
    return await this.#record(event, entry, { successor, attempts: failed });
  }

  /** The job that replaces this one; null if there is none, and this one says why; undefined if the agent stops. */
  async #successor(): Promise<NewJob | null | undefined> {
    const { store, newUuid } = this.#deps;
    const read = async () => ({ found: await store.workflows.get(this.#job.workflow_uuid) });
    const answer = await this.#calls.read(read, "workflow not read");
    if (answer === undefined) return undefined;
    const next = successorOf(this.#job, answer.found?.workflow, newUuid<JobUuid>());
    if (next.kind === "made") return next.job;
    const props = { ...this.#data.props, next_attempt_refused: next.reason };
    this.#data = { ...this.#data, props };
    return null;
  }

  #after(event: TaskEvent): Move {
    return afterTask(heldIn(this.#job.phase), event);
  }

  async #attempt(task: Task): Promise<Attempts> {
    const { starts, failures: attempts } = this.#job;
    const words = await this.#deps.refusal?.(this.#job);
    if (words !== undefined) {
      return { end: { kind: "refused", words }, attempts, data: this.#data, failed: [] };
    }
    const deps: AttemptDeps = {
      owner: await this.#deps.ownerOf(this.#job),
      executor: this.#executor,
      now: this.#deps.now,
      time: this.#time,
      retryCountsFirst: this.#deps.retryCountsFirst,
      signal: this.#signal(),
      drain: this.#stops.drain,
    };
    if (starts <= STARTS_MAX) return await runAttempts(this.#job, task, this.#data, deps);
    const end = { kind: "failure", error: INTERRUPTED } as const;
    const failed = { end, attempts, data: this.#data, failed: [] };
    // The fallback has only one start, because it may be what kills the agent.
    return starts > STARTS_MAX + 1 ? failed : await runFallback(this.#job, task, failed, deps);
  }

  /** The signal that aborts the current task. A cancel must not abort the oncancel chain that it started. */
  #signal(): AbortSignal {
    const { undo, task } = this.#stops;
    return this.#job.phase === "oncancel" ? undo.signal : task.signal;
  }

  async #stopped(): Promise<"left" | "stopped"> {
    if (this.#stops.lost.stopped) return "left";
    if (!this.#stops.shutdown.stopped) return "stopped";
    await this.#release();
    return "left";
  }

  /** Releases the job; the next agent continues with the current task. @returns whether the claim held */
  async #release(): Promise<boolean> {
    return await this.#deps.store.jobs.release(this.hold(), this.#time.elapsedMs());
  }

  /** Queues the job again, because no guest started for its task: that is no fault of the job. */
  async #queueAgain(why: string): Promise<"left"> {
    this.#deps.notStarted(this.#job.uuid, why);
    if (await this.#executor.claimed()) {
      await this.#calls.write(() => this.#release(), "job not released");
    }
    return "left";
  }

  /** The claim under which the job runs. */
  hold(): Hold {
    return holdOf(this.#job, this.#deps.runner_id);
  }

  /** Records the end of a task and the job's next state. A full disk delays this write, but loses nothing. */
  async #record(
    event: TaskEvent,
    entry?: TaskResult,
    more: Pick<TaskRecord, "successor" | "attempts"> = {},
  ): Promise<Went> {
    const move = this.#after(event);
    const { uuid } = this.#job;
    // A job that continues does not wait for a shared commit: its slot would be missing for the jobs of the backlog.
    const patient = !isHeld(move.to) && this.#deps.backlog();
    const write = () =>
      this.#deps.store.jobs.recordTask({
        ...this.hold(),
        position: phaseOf(this.#job).results.length,
        ...(entry === undefined ? {} : { entry }),
        ...more,
        ...this.#data,
        elapsed_ms: this.#time.elapsedMs(),
        event,
      }, patient);
    if (!isHeld(move.to)) this.#deps.leaving(uuid, true);
    const owned = await this.#calls.write(write, "task result not written");
    if (owned === undefined) return "left";
    if (!owned) return "stopped";
    if (entry !== undefined) this.#logTask(entry);
    return this.#follow(move, entry);
  }

  /** Updates the job in memory to what was written. */
  #follow(move: Move, entry?: TaskResult): "goes_on" | "left" {
    const before = this.#job;
    const job = jobAfter(before, move, this.#data, entry);
    this.#job = job;
    if (move.ends) this.#logEnd(job);
    if (job.phase !== before.phase) this.#time.restart();
    return isHeld(move.to) ? "goes_on" : "left";
  }

  /**
   * After the job was stopped: continues with the oncancel chain, if a cancel left it to this runner, or confirms the
   * stop.
   */
  async #takeUpCancel(): Promise<boolean> {
    const claimed = await this.#executor.claimed();
    const { jobs } = this.#deps.store;
    const job = await this.#calls.read(() => jobs.get(this.#job.uuid), "job not read");
    if (job?.execution === "canceled") this.#logEnd(job);
    if (!claimed || job?.execution !== "canceled" || !this.#isStillOurs(job)) return false;
    if (job.phase !== "oncancel") return await this.#release().then(() => false);
    this.#deps.leaving(job.uuid, false);
    this.#job = job;
    // What the canceled task had set is discarded.
    this.#data = { params: job.params, props: job.props };
    this.#time.restart();
    return true;
  }

  /** A later lease belongs to another run of the job, possibly on this same runner. */
  #isStillOurs({ runner_id, lease }: Job): boolean {
    return runner_id === this.#deps.runner_id && lease === this.#job.lease;
  }

  #logEnd(job: Job): void {
    const end = { job_uuid: job.uuid, workflow: job.name, execution: job.execution };
    const failed = job.execution === "failed" ? job.chain_results.at(-1) : undefined;
    if (failed === undefined) return this.#deps.log.info("job finished", end);
    const { name: task, attempts, error } = failed;
    this.#deps.log.warn("job finished", { ...end, task, attempts, error: this.#lineOf(error) });
  }

  #lineOf(error: JsonValue): string {
    return errorLine(error, secretNames(this.#job.props));
  }

  #logTask(entry: TaskResult): void {
    const { uuid, phase } = this.#job;
    const error = entry.error === "" ? {} : { error: this.#lineOf(entry.error) };
    this.#deps.log.info("task ended", { job_uuid: uuid, phase, task: entry.name, ...error });
  }
}
