// Which writes share a transaction, and which of them run together in it, so that each statement is about all of them.

import { GATHERED_MIN, type Pace } from "../sqlite/group_commit.ts";

/** Writes in one transaction: it holds the locks of their rows. */
const WRITES_AT_ONCE = 100;
/** Bytes of writes that run together; a single one may be larger. */
export const TOGETHER_BYTES = 1024 * 1024;
/**
 * How long patient writes wait for others, milliseconds: a commit costs agent and server as much as some ten of the
 * writes in it.
 */
const GATHER_MS = 50;

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
  /** Ends the wait of patient ones. */
  #gathered: (() => void) | undefined;

  get length(): number {
    return this.#writes.length;
  }

  add(write: Write): void {
    this.#writes.push(write);
    if (write.pace !== "patient" || this.#writes.length >= GATHERED_MIN) this.hurry();
  }

  /** Has nothing wait for others. */
  hurry(): void {
    this.#prompt = this.#writes.length > 0;
    this.#gathered?.();
  }

  /** Takes the writes of the next transaction, once enough have gathered. */
  async next(): Promise<Write[]> {
    if (!this.#prompt) await this.#gather();
    const batch = this.#writes.splice(0, WRITES_AT_ONCE);
    this.#prompt = this.#writes.length > 0;
    return batch;
  }

  async #gather(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const late = setTimeout(resolve, GATHER_MS);
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
