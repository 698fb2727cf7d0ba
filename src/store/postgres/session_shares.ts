// What the sessions of one agent share: the places for readers, and a cache of rows that never change.

import { CACHED_CHARS_MAX, CACHED_MAX } from "../limits.ts";
import { databaseAway } from "./errors.ts";

/** Sessions that may read at the same time. */
const READERS_MAX = 3;

/** The places for readers, and the readers that wait for one. */
export class ReaderPlaces {
  readonly #waiting: (() => void)[] = [];
  #reading = 0;

  /** Waits for a place until a time of performance.now(). @throws {AgentError} `overloaded` */
  async take(deadlineMs: number): Promise<void> {
    while (this.#reading >= READERS_MAX) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      const timer = setTimeout(
        () => reject(databaseAway(new Error("every session is busy"))),
        deadlineMs - performance.now(),
      );
      try {
        await promise;
      } finally {
        clearTimeout(timer);
        // A reader that gave up must not be woken in place of another.
        const at = this.#waiting.indexOf(resolve);
        if (at >= 0) this.#waiting.splice(at, 1);
      }
    }
    this.#reading += 1;
  }

  give(): void {
    this.#reading -= 1;
    this.#waiting.shift()?.();
  }
}

/** A cache of values that are derived from rows that never change. */
export class CachedValues {
  readonly #values = new Map<string, unknown>();
  /** The database that the values were read from: a restored one, or a standby, may use the same ids for other rows. */
  #database: string | undefined;

  /** Whether any database has been read yet. */
  get known(): boolean {
    return this.#database !== undefined;
  }

  /** Forgets the values of any other database. */
  of(database: string | undefined): void {
    if (database !== this.#database) this.clear();
    this.#database = database;
  }

  clear(): void {
    this.#values.clear();
  }

  /** As Transaction.cached(). */
  async keep<T>(key: string, make: () => Promise<{ value: T; chars: number }>): Promise<T> {
    const found = this.#values.get(key);
    // Each key always stands for values of the same type.
    if (found !== undefined) return found as T;
    const { value, chars } = await make();
    if (chars > CACHED_CHARS_MAX) return value;
    if (this.#values.size >= CACHED_MAX) this.clear();
    this.#values.set(key, value);
    return value;
  }
}
