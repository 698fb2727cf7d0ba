// Limits concurrent work and orders the rest. Streams may last as long as a file is long, so they
// leave one place to the hashes, which all downloads share, and one to short work. What jobs need
// goes ahead of what requests bring.

import { abortedError, AgentError } from "../domain/error.ts";

/** Whether a piece of work has output, and who depends on it. */
export type WorkKind =
  | "ask"
  | "stream"
  /** A stream that many others depend on: it always gets a place. */
  | "shared_stream";

/** Pieces of work that may wait, besides those that go ahead. */
export const WAITING_MAX = 64;
/** Seconds after which refused work may find room. */
const FULL_QUEUE_RETRY_SECONDS = 1;

interface WaitingWork {
  readonly kind: WorkKind;
  readonly ahead: boolean;
  readonly begin: () => void;
  readonly refuse: () => void;
}

interface WaitOptions {
  readonly signal?: AbortSignal;
  /** The action, worded to follow "Cannot" in errors. */
  readonly what: string;
  readonly ahead?: boolean;
}

/** The places of a pool, and the queue for them. */
export class WorkQueue {
  readonly #places: number;
  readonly #waiting: WaitingWork[] = [];
  readonly #underWay: Record<WorkKind, number> = { ask: 0, stream: 0, shared_stream: 0 };
  #closed = false;

  /** @param places concurrent pieces of work, at least 3 */
  constructor(places: number) {
    this.#places = places;
  }

  /**
   * Waits for a place, in order, behind work that goes ahead.
   * @returns releases the place
   * @throws {AgentError} `aborted`, `overloaded`
   */
  enter(kind: WorkKind, { signal, what, ahead = false }: WaitOptions): Promise<() => void> {
    if (this.#closed || signal?.aborted === true) {
      return Promise.reject(abortedError(`Cannot ${what}`));
    }
    if (!ahead && this.#waiting.length >= WAITING_MAX) {
      const message = `Cannot ${what}: ${WAITING_MAX} pieces of work wait for a decoder`;
      const options = { retryAfterSeconds: FULL_QUEUE_RETRY_SECONDS };
      return Promise.reject(new AgentError("overloaded", message, options));
    }
    return new Promise((resolve, reject) => {
      const refuse = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        signal?.removeEventListener("abort", refuse);
        reject(abortedError(`Cannot ${what}`));
      };
      const begin = () => {
        signal?.removeEventListener("abort", refuse);
        resolve(this.#taken(kind));
      };
      const waiter: WaitingWork = { kind, ahead, begin, refuse };
      signal?.addEventListener("abort", refuse, { once: true });
      const behind = ahead ? this.#waiting.findIndex((other) => !other.ahead) : -1;
      this.#waiting.splice(behind === -1 ? this.#waiting.length : behind, 0, waiter);
      this.#serve();
    });
  }

  /** Rejects all work that waits. */
  close(): void {
    this.#closed = true;
    for (const waiter of [...this.#waiting]) waiter.refuse();
  }

  #taken(kind: WorkKind): () => void {
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#underWay[kind] -= 1;
      this.#serve();
    };
  }

  /** Starts the first waiting work for which there is a place, passing streams that have none. */
  #serve(): void {
    for (;;) {
      const at = this.#waiting.findIndex(({ kind }) => this.#hasPlace(kind));
      const waiter = this.#waiting[at];
      if (waiter === undefined) return;
      this.#waiting.splice(at, 1);
      this.#underWay[waiter.kind] += 1;
      waiter.begin();
    }
  }

  #hasPlace(kind: WorkKind): boolean {
    const { ask, stream, shared_stream } = this.#underWay;
    if (ask + stream + shared_stream >= this.#places) return false;
    return kind !== "stream" || stream < this.#places - 2;
  }
}
