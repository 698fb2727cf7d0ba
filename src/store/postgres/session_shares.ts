// What the sessions of one agent share: places to read, and values of rows that never change.

import { KEPT_CHARS_MAX, KEPT_MAX } from "../rules.ts";
import { away } from "./server.ts";

/** Sessions that read at the same time. */
const READERS = 3;

/** Who reads, and who waits for that. */
export class ReaderPlaces {
  readonly #waiting: (() => void)[] = [];
  #reading = 0;

  /** Waits for a place until a deadline of performance.now(). @throws {AgentError} `overloaded` */
  async take(deadlineMs: number): Promise<void> {
    while (this.#reading >= READERS) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#waiting.push(resolve);
      const timer = setTimeout(
        () => reject(away(new Error("every session is busy"))),
        deadlineMs - performance.now(),
      );
      try {
        await promise;
      } finally {
        clearTimeout(timer);
        // One that has given up is not to be woken in place of another.
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

/** Values of rows that never change, which an agent reads once. */
export class KeptValues {
  readonly #values = new Map<string, unknown>();
  /** Of which database they are: a restored one, or a standby that took over, may give ids again. */
  #database: string | undefined;

  /** Whether a database was ever read. */
  get known(): boolean {
    return this.#database !== undefined;
  }

  /** Those of any other database are forgotten. */
  of(database: string | undefined): void {
    if (database !== this.#database) this.clear();
    this.#database = database;
  }

  clear(): void {
    this.#values.clear();
  }

  /** As kept() of a transaction. */
  async keep<T>(key: string, make: () => Promise<{ value: T; chars: number }>): Promise<T> {
    const found = this.#values.get(key);
    // Each key stands for values of one type.
    if (found !== undefined) return found as T;
    const { value, chars } = await make();
    if (chars > KEPT_CHARS_MAX) return value;
    if (this.#values.size >= KEPT_MAX) this.clear();
    this.#values.set(key, value);
    return value;
  }
}
