// The memory of a running job. What its tasks are given and leave is many times its text, so a large job
// waits for its part before its next task begins, and never is refused. It holds no other account
// while it waits; messages of its guests are reserved after it.

import type { Job } from "../domain/job/job.ts";
import { valueWeight } from "../domain/json_scan.ts";
import type { MemoryBudget, Reservation } from "../domain/memory_budget.ts";
import type { JobData } from "./job_view.ts";

/** Bytes from which on a job reserves what it takes; of smaller ones there are no more than slots. */
const LARGE_BYTES = 1024 * 1024;

/** What one job holds of the account `runs`. */
export class JobMemory {
  readonly #budget: MemoryBudget;
  #held: Reservation | undefined;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  /**
   * Takes what the next task of the job needs, if it is there.
   * @returns the bytes to wait for; 0 when the job has its memory, or is too small to need any
   */
  take({ chain_results, onerror_results }: Job, { params, props }: JobData): number {
    let bytes = valueWeight(params) + valueWeight(props);
    for (const { result } of chain_results) bytes += valueWeight(result);
    for (const { result } of onerror_results) bytes += valueWeight(result);
    if (this.#held !== undefined) this.#held.resize(bytes);
    if (this.#held !== undefined || bytes < LARGE_BYTES) return 0;
    this.#held = this.#budget.tryReserve("runs", bytes);
    return this.#held === undefined ? bytes : 0;
  }

  /** Waits for its turn. @throws {AgentError} `aborted` by the signal */
  async wait(bytes: number, signal: AbortSignal): Promise<void> {
    const turn = { turnMs: Number.POSITIVE_INFINITY, signal };
    this.#held = await this.#budget.reserve("runs", bytes, "run a large job", turn);
  }

  release(): void {
    this.#held?.release();
  }
}
