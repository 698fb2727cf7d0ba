// Locks: patterns of unfinished jobs on the targets of others.

import { type LockPattern, parseLockPattern } from "../../domain/lock_pattern.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Connection } from "./connection.ts";

/** The patterns of unfinished jobs by their texts. */
export type LockPatterns = ReadonlyMap<string, LockPattern>;

/** A lock that was written after the patterns were read: they must be read again. */
export class UnreadLock extends Error {}

/** Reads the patterns of all locks that there are. Those read before are not read again. */
export async function readLocks(db: Connection, known: LockPatterns): Promise<LockPatterns> {
  const texts = new Set(selectLocks(db).map(({ locks }) => locks));
  if (texts.size === 0) return new Map();
  return new Map(
    await Promise.all(Array.from(texts, async (text) => {
      return [text, known.get(text) ?? await parseLockPattern(text)] as const;
    })),
  );
}

/** The unfinished job that locks a target. @throws {UnreadLock} */
export function lockOn(
  db: Connection,
  target: string,
  patterns: LockPatterns,
): JobUuid | undefined {
  return selectLocks(db).find(({ locks }) => {
    const pattern = patterns.get(locks);
    if (pattern === undefined) throw new UnreadLock();
    return pattern.matches(target);
  })?.uuid;
}

function selectLocks(db: Connection): { locks: string; uuid: JobUuid }[] {
  return db.rows(
    `SELECT locks, uuid FROM jobs INDEXED BY jobs_locks
      WHERE locks IS NOT NULL AND execution IN ('queued', 'running', 'waiting') ORDER BY id`,
  );
}

export function countLocks(db: Connection): number {
  return selectLocks(db).length;
}
