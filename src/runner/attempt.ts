// The attempts of one job's tasks: each runs in a guest, under the job's claim, and is recorded if it fails.

import { AgentError } from "../domain/error.ts";
import type { RunnerId } from "../domain/id.ts";
import { errorLine, isFree, type Job, secretNames } from "../domain/job/job.ts";
import { MS_PER_SECOND } from "../domain/instant.ts";
import type { TaskOutcome, TaskRun } from "../sandbox/run_task.ts";
import type { AttemptRecord, Hold } from "../store/run_store.ts";
import type { PhaseTime } from "./job_view.ts";
import type { ClaimUnderWay, JobDeps, JobStops } from "./running_job.ts";
import { StoreCalls } from "./store_calls.ts";

/** The claim that every write about a job names. */
export function holdOf({ uuid, lease, phase }: Job, runner_id: RunnerId): Hold {
  return { job_uuid: uuid, runner_id, lease, phase };
}

/** Executes the attempts of one job, under the claim by which its runner holds it. */
export class Executor {
  /** The calls of the store that name the claim. */
  readonly calls: StoreCalls;
  readonly #deps: JobDeps;
  readonly #time: PhaseTime;
  #claim: ClaimUnderWay | undefined;

  /** @param claim the claim, if it is still being written */
  constructor(
    job: Job,
    deps: JobDeps,
    shutdown: JobStops["shutdown"],
    time: PhaseTime,
    claim: ClaimUnderWay | undefined,
  ) {
    this.calls = new StoreCalls(job.uuid, shutdown, deps.log, () => this.claimed());
    this.#deps = deps;
    this.#time = time;
    this.#claim = claim;
    void claim?.stands.then((stands) => this.#claim = stands ? undefined : claim);
  }

  /** Waits until a claim that is being written is durable or refused. @returns whether it holds */
  async claimed(): Promise<boolean> {
    const claim = this.#claim;
    if (claim === undefined) return true;
    claim.hurry();
    return await claim.stands;
  }

  /**
   * Runs one body or fallback in a guest, with the capabilities of the job. They act only under a durable claim.
   * @param attempt number of the attempt, as in the job's log
   */
  async run(job: Job, run: TaskRun, attempt: number, signal: AbortSignal): Promise<TaskOutcome> {
    const { guests, performFor, watch, meters, store, mayAct, monotonicMs } = this.#deps;
    const { uuid: job_uuid, props } = job;
    const [free, secrets] = [isFree(props), secretNames(props)];
    const perform = performFor({
      job_uuid,
      attempt,
      task_name: run.taskName,
      free,
      secrets,
      signal,
    });
    const isClaiming = this.#claim !== undefined;
    const gate = async () => {
      if (isClaiming) await this.#requireClaim();
      await mayAct(free);
    };
    const beganMs = monotonicMs();
    const given = {
      ...run,
      ...(isClaiming || store.shared ? { mayAct: gate } : {}),
      ...(free && watch !== undefined ? { watch } : {}),
    };
    const outcome = await guests.run(given, perform, signal);
    // A standstill of the agent may have ended the guest. This waits until the store has reported who holds the jobs:
    // one that the runner has lost is dropped, and its task has not failed.
    if (free && outcome.kind === "failure") await mayAct(false);
    if (outcome.kind !== "not_started") {
      meters?.tasks[outcome.kind].observe((monotonicMs() - beganMs) / MS_PER_SECOND);
    }
    perform.close();
    return outcome;
  }

  /** Records a failed attempt that will be repeated. @returns whether this runner still holds the job */
  async recordFailed(
    job: Job,
    failed: Omit<AttemptRecord, keyof Hold | "elapsed_ms">,
  ): Promise<boolean> {
    const { store, runner_id, log } = this.#deps;
    const record = { ...holdOf(job, runner_id), ...failed, elapsed_ms: this.#time.elapsedMs() };
    const write = () => store.jobs.recordAttempt(record);
    if (await this.calls.write(write, "failed attempt not written") !== true) return false;
    const { task, attempt, error, wait_seconds } = failed.attempt;
    log.info("attempt failed", {
      job_uuid: job.uuid,
      task,
      attempt,
      wait_seconds,
      error: errorLine(error, secretNames(job.props)),
    });
    return true;
  }

  async #requireClaim(): Promise<void> {
    if (await this.claimed()) return;
    throw new AgentError(
      "aborted",
      "Cannot run the call of the task: this runner no longer has the job",
    );
  }
}
