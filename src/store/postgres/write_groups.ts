// Which writes share a transaction, and which of them run together in it, so that each statement is about all of them.

import { GATHERED_MIN, type Pace } from "../sqlite/group_commit.ts";

/** Writes in one transaction: it holds the locks of their rows. */
const WRITES_AT_ONCE = 100;
/** Bytes of writes that run together; a single one may be larger. */
export const TOGETHER_BYTES = 1024 * 1024;
/**
 * How long patient writes wait for others, milliseconds: a commit costs agent and server as much as some ten of the
 * writes in it. No write waits longer for any.
 */
const GATHER_MS = 50;
/** With so many writes a commit does not wait for callers that have just been answered. */
const CROWD = 16;

/** A write that may run with others of its kind. */
export interface GroupedWrite {
  /** None unless given: it runs by itself. `first`: those of the kind stand where the first of them stood. */
  readonly kind?: { readonly first?: boolean };
  /** Approximate bytes that it adds to the statements. */
  readonly bytes: () => number;
  /** Whether it may wait some milliseconds for others; not unless given. */
  readonly pace?: Pace;
}

/** Writes that wait for their transaction. */
export class WaitingWrites<Write extends GroupedWrite> {
  readonly #writes: Write[] = [];
  /** Whether one of them is not to wait for others. */
  #prompt = false;
  /** Ends the wait for others. */
  #gathered: (() => void) | undefined;
  /** Writers that were here at the latest commit, and until when they are expected back, by performance.now(). */
  #expected = 0;
  #expectedUntilMs = 0;

  get length(): number {
    return this.#writes.length;
  }

  add(write: Write): void {
    this.#writes.push(write);
    const begins = !this.#prompt &&
      (write.pace !== "patient" || this.#writes.length >= GATHERED_MIN);
    if (begins) this.#prompt = true;
    // Patient ones wait for their time, however many were expected.
    if (begins || (this.#prompt && this.#isCrowd())) this.#gathered?.();
  }

  /** Has nothing wait for others. */
  hurry(): void {
    this.#prompt = this.#writes.length > 0;
    this.#expected = 0;
    this.#gathered?.();
  }

  /**
   * Some writes are committed, and about to be answered. Many callers write again as soon as they are answered: if the
   * first one did not wait for the others, each would have a commit of its own where several agents share a server. They
   * have as long for it as the commit took; one that a lock or a standby has held up says nothing about how soon they are
   * back.
   * @param ms that it took
   */
  committed(writes: number, ms: number): void {
    this.#expected = Math.min(writes + this.#writes.length, CROWD);
    this.#expectedUntilMs = performance.now() + Math.min(ms, GATHER_MS);
  }

  /** Takes the writes of the next transaction, once enough have gathered. */
  async next(): Promise<Write[]> {
    if (!this.#prompt) await this.#gather(GATHER_MS);
    const leftMs = this.#expectedUntilMs - performance.now();
    if (this.#prompt && !this.#isCrowd() && leftMs > 0) await this.#gather(leftMs);
    const batch = this.#writes.splice(0, WRITES_AT_ONCE);
    this.#prompt = this.#writes.length > 0;
    return batch;
  }

  /** Whether all are here that are expected, or one that shares no statements with others. */
  #isCrowd(): boolean {
    return this.#writes.length >= this.#expected ||
      this.#writes.some(({ kind }) => kind === undefined);
  }

  async #gather(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, ms);
    this.#gathered = resolve;
    await promise;
    clearTimeout(late);
    this.#gathered = undefined;
  }
}

/**
 * Writes by kind. Those of a kind stand where the last of them stood, unless it says otherwise: what was queued before
 * any of them has run then.
 */
export function groupsOf<Write extends GroupedWrite>(batch: readonly Write[]): Write[][] {
  const groups = new Map<object, Write[]>();
  for (const write of batch) {
    const key = write.kind ?? write;
    const group = groups.get(key) ?? [];
    if (write.kind?.first !== true) groups.delete(key);
    const bytes = group.reduce((sum, one) => sum + one.bytes(), write.bytes());
    if (group.length > 0 && bytes > TOGETHER_BYTES) {
      // It is full, and the next one stands behind it.
      groups.delete(key);
      groups.set(group, group);
      groups.set(key, [write]);
    } else {
      group.push(write);
      groups.set(key, group);
    }
  }
  return [...groups.values()];
}
