// What has to be ready before a job can be written in one transaction: the digest of its params, and
// the patterns of all locks.

import type { NewJob } from "../../domain/job.ts";
import { parseLockPattern } from "../../domain/lock_pattern.ts";
import type { JobStore } from "../job_store.ts";
import type { Connection } from "./connection.ts";
import { createJob, type Prepared, retryJob } from "./job_creation.ts";
import { type LockPatterns, readLocks, UnreadLock } from "./locks.ts";
import { paramsDigest } from "./params_digest.ts";

/** Times that the locks are read again because one was written meanwhile. */
const LOCK_READS_MAX = 100;

/** The methods of the store that make jobs. */
export function openJobCreation(db: Connection): Pick<JobStore, "create" | "retry"> {
  let patterns: LockPatterns = new Map();
  const prepared = async <T>(
    job: NewJob,
    unfinishedMax: number,
    write: (prepared: Prepared) => Promise<T>,
  ): Promise<T> => {
    const paramsSha256 = await paramsDigest(job);
    // A lock that cannot be read would stand in the way of every later target.
    if (typeof job.locks === "string") await parseLockPattern(job.locks);
    for (let read = 1;; read++) {
      if (job.target !== null) patterns = await readLocks(db, patterns);
      try {
        return await write({ paramsSha256, patterns, unfinishedMax });
      } catch (error) {
        // Ends by the locks being read in time, or by as many attempts.
        if (!(error instanceof UnreadLock) || read >= LOCK_READS_MAX) throw error;
      }
    }
  };
  return {
    create: (job, unfinishedMax = Number.MAX_SAFE_INTEGER) =>
      prepared(
        job,
        unfinishedMax,
        (ready) => db.write("job_create", () => createJob(db, job, ready)),
      ),
    retry: (uuid, successor, unfinishedMax = Number.MAX_SAFE_INTEGER) =>
      prepared(
        successor,
        unfinishedMax,
        (ready) => db.write("job_retry", () => retryJob(db, uuid, successor, ready)),
      ),
  };
}
