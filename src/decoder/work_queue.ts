// Turns: how many pieces of work are under way, and the order in which others wait. Streams, which
// may last as long as a file is long, leave one place to the hashes, which all downloads share, and one
// to work that is answered at once. What jobs need goes ahead of what requests bring.

import { AgentError } from "../domain/error.ts";
import { abortedError } from "./converse.ts";

/** Whether a piece of work has output that is taken while it goes on, and for whom. */
export type WorkKind =
  | "ask"
  | "stream"
  /** A stream that much else waits for: it always gets a place. */
  | "shared_stream";

/** Pieces of work that may wait for a decoder, but for those that go ahead. */
export const WAITING_MAX = 64;
/** Seconds after which a piece of work that was turned away may find room. */
const FULL_QUEUE_RETRY_SECONDS = 1;

interface WaitingWork {
  readonly kind: WorkKind;
  readonly ahead: boolean;
  readonly begin: () => void;
  readonly refuse: () => void;
}

/** What a piece of work waits with. */
interface WaitOptions {
  readonly signal?: AbortSignal;
  /** Finishes "Cannot ..." in errors. */
  readonly what: string;
  /** See DecoderOptions. */
  readonly ahead?: boolean;
}

/** The places of a pool, and those who wait for one. */
export class WorkQueue {
  readonly #places: number;
  readonly #waiting: WaitingWork[] = [];
  readonly #underWay: Record<WorkKind, number> = { ask: 0, stream: 0, shared_stream: 0 };
  #closed = false;

  /** @param places pieces of work under way at the same time, at least 3 */
  constructor(places: number) {
    this.#places = places;
  }

  /**
   * Waits for a place, in order, behind what goes ahead.
   * @returns what gives the place back
   * @throws {AgentError} `aborted`, `overloaded`
   */
  enter(kind: WorkKind, { signal, what, ahead = false }: WaitOptions): Promise<() => void> {
    if (this.#closed || signal?.aborted === true) return Promise.reject(abortedError(what));
    if (!ahead && this.#waiting.length >= WAITING_MAX) {
      const message = `Cannot ${what}: ${WAITING_MAX} pieces of work wait for a decoder`;
      const options = { retryAfterSeconds: FULL_QUEUE_RETRY_SECONDS };
      return Promise.reject(new AgentError("overloaded", message, options));
    }
    return new Promise((resolve, reject) => {
      const refuse = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        signal?.removeEventListener("abort", refuse);
        reject(abortedError(what));
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

  /** Sends everybody away. */
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

  /** Begins what there is a place for: the first that waits, or behind streams the first that is none. */
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
