// Calls of the store that a running job cannot do without: they are repeated until the store answers or the agent stops.

import { isAway, messageOf } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Log } from "../metrics/log.ts";
import { untilDone } from "../runtime/run.ts";
import type { JobStops } from "./running_job.ts";

const STORE_AGAIN_FIRST_MS = 100;
const STORE_AGAIN_LONGEST_MS = 2_000;

/** The repeated calls of one running job. Each failure is logged once, until its message changes. */
export class StoreCalls {
  readonly #job_uuid: JobUuid;
  readonly #shutdown: JobStops["shutdown"];
  readonly #log: Log;
  readonly #claimed: () => Promise<boolean>;

  /** @param claimed waits until the job's claim is durable or refused, and returns whether it holds */
  constructor(
    job_uuid: JobUuid,
    shutdown: JobStops["shutdown"],
    log: Log,
    claimed: () => Promise<boolean>,
  ) {
    this.#job_uuid = job_uuid;
    this.#shutdown = shutdown;
    this.#log = log;
    this.#claimed = claimed;
  }

  /**
   * Repeats a read while the store is away.
   * @param failure what the log says when it fails
   * @returns undefined when the agent stops first
   * @throws what the read threw for any other reason
   */
  read<T>(read: () => Promise<T>, failure: string): Promise<T | undefined> {
    return this.#repeat(read, failure, isAway);
  }

  /**
   * Repeats a write about the job until the store accepts it. If the claim was still being written and turns out to
   * have failed, the write is dropped: the job may already run here again, under a claim with the same number.
   * @param failure what the log says when it fails
   * @returns whether this runner still holds the job; undefined when the agent stops first
   */
  write(write: () => Promise<boolean>, failure: string): Promise<boolean | undefined> {
    let again = false;
    const writeOwn = async () => {
      if (again && !(await this.#claimed())) return false;
      again = true;
      return await write();
    };
    return this.#repeat(writeOwn, failure, () => true);
  }

  #repeat<T>(
    call: () => Promise<T>,
    failure: string,
    mayRepeat: (error: unknown) => boolean,
  ): Promise<T | undefined> {
    let lastMessage: string | undefined;
    return untilDone(call, {
      firstMs: STORE_AGAIN_FIRST_MS,
      longestMs: STORE_AGAIN_LONGEST_MS,
      signal: () => this.#shutdown.signal,
      onFailure: (error) => {
        if (!mayRepeat(error)) throw error;
        const message = messageOf(error);
        if (message !== lastMessage) this.#log.error(failure, { job_uuid: this.#job_uuid, error });
        lastMessage = message;
      },
    });
  }
}
