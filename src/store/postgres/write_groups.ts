// Which writes share a transaction, and which of them share statements in it.

import { GATHERED_MIN, type Pace } from "../limits.ts";

/** Writes in one transaction, which locks their rows until it commits. */
const WRITES_MAX = 100;
/** Bytes of writes that share statements; a single write may be larger. */
export const TOGETHER_BYTES = 1024 * 1024;
/**
 * How long patient writes wait for others, milliseconds: so many times as long as the latest commit took, within these
 * bounds. A commit costs agent and server about as much as ten of the writes in it, and more writes come while it waits
 * longer: on processors that many agents share, each of them ends few jobs in the least time.
 */
const GATHER_MS = { least: 50, commits: 16, most: 250 } as const;
/** With this many writes, a commit does not wait for callers that were just answered. */
const CROWD = 16;

/** A write that may share its statements with others of its kind. */
export interface GroupedWrite {
  /**
   * Undefined for a write that shares no statements. With `first`, the group runs at the place of its earliest write.
   */
  readonly kind?: { readonly first?: boolean };
  /** Approximate bytes that the write adds to the statements. */
  readonly bytes: () => number;
  /** Whether the write may wait some milliseconds for others; not unless given. */
  readonly pace?: Pace;
}

/** The queue of writes that wait for their transaction. */
export class WaitingWrites<Write extends GroupedWrite> {
  readonly #writes: Write[] = [];
  /** Whether one of them must not wait for others. */
  #prompt = false;
  /** How long patient writes wait, milliseconds. */
  #patienceMs: number = GATHER_MS.least;
  /** Ends the current wait for more writes. */
  #gathered: (() => void) | undefined;
  /** How many writers are expected to write again after the latest commit, and until when, by performance.now(). */
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
    // Patient writes wait their full time, even when all expected writers are here.
    if (begins || (this.#prompt && this.#isCrowd())) this.#gathered?.();
  }

  /** Commits the waiting writes without waiting for more. */
  hurry(): void {
    this.#prompt = this.#writes.length > 0;
    this.#expected = 0;
    this.#gathered?.();
  }

  /**
   * Notes a commit whose callers are about to be answered. Many callers write again as soon as they are answered, so
   * the next transaction waits for them: otherwise the first one back would get a commit of its own, and so would each
   * of the others where several agents share a server. The wait is as long as the commit took and at most
   * GATHER_MS.least, since a commit that a lock or a standby has held up says nothing about how soon callers return.
   * @param ms duration of the commit
   */
  committed(writes: number, ms: number): void {
    this.#expected = Math.min(writes + this.#writes.length, CROWD);
    this.#expectedUntilMs = performance.now() + Math.min(ms, GATHER_MS.least);
    const { least, commits, most } = GATHER_MS;
    this.#patienceMs = Math.min(Math.max(least, commits * ms), most);
  }

  /** Takes the writes of the next transaction, once enough have gathered. */
  async next(): Promise<Write[]> {
    if (!this.#prompt) await this.#gather(this.#patienceMs);
    const leftMs = this.#expectedUntilMs - performance.now();
    if (this.#prompt && !this.#isCrowd() && leftMs > 0) await this.#gather(leftMs);
    const batch = this.#writes.splice(0, WRITES_MAX);
    this.#prompt = this.#writes.length > 0;
    return batch;
  }

  /** Whether there is nothing more to wait for: all expected writes are here, or one of them shares no statements. */
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
 * Groups writes by kind. A group runs at the place of its latest write, or of its earliest one with `first`: whatever
 * was queued before any write of the group has then run.
 */
export function groupsOf<Write extends GroupedWrite>(batch: readonly Write[]): Write[][] {
  const groups = new Map<object, Write[]>();
  for (const write of batch) {
    const key = write.kind ?? write;
    const group = groups.get(key) ?? [];
    if (write.kind?.first !== true) groups.delete(key);
    const bytes = group.reduce((sum, one) => sum + one.bytes(), write.bytes());
    if (group.length > 0 && bytes > TOGETHER_BYTES) {
      // The group is full. The next one of this kind runs after it.
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
