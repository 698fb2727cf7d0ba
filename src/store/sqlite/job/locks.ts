// Locks: patterns of unfinished jobs on the targets of others. A pattern may take milliseconds on a
// long target, so that the targets of new jobs are judged before their write, one pattern at a time
// with other work let through in between; the write itself only looks the verdicts up.

import type { JobUuid } from "../../../domain/id.ts";
import { type LockPattern, parseLockPattern } from "../../../domain/job/lock_pattern.ts";
import type { Connection } from "../connection.ts";
import { otherWork } from "./other_work.ts";
import { HOLDS_TARGET } from "./unfinished.ts";

/** Whether patterns, by their texts, match one target. */
export type LockVerdicts = ReadonlyMap<string, boolean>;

/** What locks say of a target: free, held by a job, or not known, since a lock is newer. */
export type LockAnswer =
  | { readonly kind: "free" }
  | { readonly kind: "locked"; readonly job_uuid: JobUuid }
  | { readonly kind: "unread" };

/** Patterns that were read, kept while some job holds them. */
export type LockPatterns = Map<string, LockPattern>;

/** Judges a target by every lock that there is. */
export async function judgeTarget(
  db: Connection,
  target: string,
  patterns: LockPatterns,
): Promise<LockVerdicts> {
  const texts = new Set(selectLocks(db).map(({ locks }) => locks));
  for (const text of patterns.keys()) if (!texts.has(text)) patterns.delete(text);
  const verdicts = new Map<string, boolean>();
  for (const text of texts) {
    const pattern = patterns.get(text) ?? await parseLockPattern(text);
    patterns.set(text, pattern);
    verdicts.set(text, pattern.matches(target));
    await otherWork();
  }
  return verdicts;
}

/** What the locks that there are now say of the target that was judged. */
export function lockOn(db: Connection, verdicts: LockVerdicts): LockAnswer {
  for (const { locks, uuid } of selectLocks(db)) {
    const verdict = verdicts.get(locks);
    if (verdict === undefined) return { kind: "unread" };
    if (verdict) return { kind: "locked", job_uuid: uuid };
  }
  return { kind: "free" };
}

/** How many jobs hold locks. */
export function countLocks(db: Connection): number {
  return selectLocks(db).length;
}

function selectLocks(db: Connection): { locks: string; uuid: JobUuid }[] {
  return db.rows(
    `SELECT locks, uuid FROM jobs INDEXED BY jobs_locks
      WHERE locks IS NOT NULL AND ${HOLDS_TARGET} ORDER BY id`,
  );
}
