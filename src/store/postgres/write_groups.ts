// Which writes share a transaction, and which of them run together in it, so that each statement is about all of them.

/** Writes in one transaction: it holds the locks of their rows. */
const WRITES_AT_ONCE = 100;
/** Bytes of writes that run together; a single one may be larger. */
const TOGETHER_BYTES = 1024 * 1024;

/** A write that may run with others of its kind. */
export interface GroupedWrite {
  /** None unless given: it runs by itself. `first`: those of the kind stand where the first of them stood. */
  readonly kind?: { readonly first?: boolean };
  /** Approximate bytes that it adds to the statements. */
  readonly bytes: number;
}

/** Takes the writes of the next transaction out of those that wait. */
export function nextBatch<Write>(waiting: Write[]): Write[] {
  return waiting.splice(0, WRITES_AT_ONCE);
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
    const bytes = group.reduce((sum, one) => sum + one.bytes, write.bytes);
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
