// A job while it runs: how a task body sees it, what the body may change, and the memory and time that it takes. Whatever a
// task sets on its job is seen by later tasks and by GET /jobs/:job_uuid, except for the engine's own fields.

import { isJsonObject, type JsonObject, valueWeight } from "../domain/json.ts";
import { MS_PER_SECOND } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { MemoryBudget, Reservation } from "../domain/memory_budget.ts";
import { ENGINE_FIELDS } from "../domain/job/wire.ts";

/** The part of a job that tasks may change. */
export interface JobData {
  readonly params: JsonObject;
  readonly props: JsonObject;
}

/**
 * Makes the object that is passed to a body.
 * @param attempt number of starts of this task so far, including those that ended with a crash of the agent
 */
export function jobView(job: Job, data: JobData, attempt: number): JsonObject {
  const failure = job.phase === "chain" ? undefined : job.chain_results.at(-1)?.error;
  const fields = {
    ...(failure === undefined ? {} : { error: failure }),
    ...data.props,
    uuid: job.uuid,
    workflow: job.workflow_uuid,
    workflow_uuid: job.workflow_uuid,
    name: job.name,
    execution: job.execution,
    chain: job.chain,
    chain_results: job.chain_results,
    onerror: job.onerror,
    onerror_results: job.onerror_results,
    exec_after: job.exec_after,
    timeout: job.timeout,
    created_at: job.created_at,
    started: job.started_at === null ? null : Date.parse(job.started_at),
    params: data.params,
    attempt,
    ...(job.target === null ? {} : { target: job.target }),
    ...(job.host === null ? {} : { host_uuid: job.host }),
  };
  // Its parts were parsed from JSON, and it crosses to the guest as text, so nothing is shared.
  const view: unknown = fields;
  return view as JsonObject;
}

/**
 * Merges what a task set on its job into the job's data. Fields of the engine keep their values.
 * @param left the job as the task left it; null when it could not be written as JSON, and then nothing changes
 */
export function jobData(left: JsonObject | null, before: JobData): JobData {
  if (left === null) return before;
  const engineOwned = Object.entries(before.props).filter(([key]) => ENGINE_FIELDS.has(key));
  const set = Object.entries(left).filter(([key]) => key !== "params" && !ENGINE_FIELDS.has(key));
  return {
    params: isJsonObject(left.params) ? left.params : before.params,
    // Object.fromEntries() keeps a key named __proto__ as a key, which an assignment would not.
    props: Object.fromEntries([...engineOwned, ...set]),
  };
}

/** Bytes from which a job reserves memory. The number of slots bounds smaller jobs. */
const LARGE_BYTES = 1024 * 1024;

/**
 * A job's share of the memory account `runs`. Its tasks take many times the size of its text, so a large job waits for
 * memory before its next task; it is never refused. While it waits, it holds memory of no other account; messages of its
 * guests are reserved later.
 */
export class JobMemory {
  readonly #budget: MemoryBudget;
  #held: Reservation | undefined;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /**
   * Reserves the memory for the job's next task, if it is available.
   * @returns the bytes to wait for; 0 when the job has its memory or needs none
   */
  take(
    { chain_results, onerror_results, requested_params }: Job,
    { params, props }: JobData,
  ): number {
    let bytes = valueWeight(params) + valueWeight(props);
    if (requested_params !== params) bytes += valueWeight(requested_params);
    for (const { result } of chain_results) bytes += valueWeight(result);
    for (const { result } of onerror_results) bytes += valueWeight(result);
    if (this.#held !== undefined) this.#held.resize(bytes);
    if (this.#held !== undefined || bytes < LARGE_BYTES) return 0;
    this.#held = this.#budget.tryReserve("runs", bytes);
    return this.#held === undefined ? bytes : 0;
  }

  /** Waits until the memory is reserved. @throws {AgentError} `aborted` by the signal */
  async wait(bytes: number, signal: AbortSignal): Promise<void> {
    const turn = { turnMs: Number.POSITIVE_INFINITY, signal };
    this.#held = await this.#budget.reserve("runs", bytes, "run a large job", turn);
  }

  release(): void {
    this.#held?.release();
  }
}

/** Counts the time of the current phase, earlier claims of the job included. */
export class PhaseTime {
  readonly #timeoutMs: number;
  readonly #monotonicMs: () => number;
  /** Monotonic milliseconds at which the phase would have begun if it had never been interrupted. */
  #beganMs: number;

  /** @param monotonicMs milliseconds that never go backwards */
  constructor({ timeout, elapsed_ms }: Job, monotonicMs: () => number) {
    this.#timeoutMs = timeout * MS_PER_SECOND;
    this.#monotonicMs = monotonicMs;
    this.#beganMs = monotonicMs() - elapsed_ms;
  }

  elapsedMs(): number {
    return Math.max(this.#monotonicMs() - this.#beganMs, 0);
  }

  /** Milliseconds left of the workflow's timeout. */
  leftMs(): number {
    return this.#timeoutMs - this.elapsedMs();
  }

  /** Does not count milliseconds that were spent waiting for the host. */
  leaveOut(ms: number): void {
    this.#beganMs += ms;
  }

  /** Begins to count another phase. */
  restart(): void {
    this.#beganMs = this.#monotonicMs();
  }
}
