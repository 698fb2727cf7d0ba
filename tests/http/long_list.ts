// Lists that are longer than a page, and what is asked of the store while they are read.

import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, uuidOf } from "../support/job.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Queues jobs with numbers from 1. @returns their uuids, newest first */
export async function fillWithJobs(store: Store, count: number): Promise<JobUuid[]> {
  const numbers = Array.from({ length: count }, (_, n) => n + 1);
  const outcomes = await Promise.all(numbers.map((n) => store.jobs.create(jobOf(n), NO_LIMIT)));
  assertEquals(new Set(outcomes.map(({ kind }) => kind)), new Set(["created"]));
  return numbers.map((n) => uuidOf<JobUuid>(n)).reverse();
}

/** A store that tells how often lists are read from it; `fails` says which reads do. */
export async function watchedStore(
  fails: (read: number) => boolean = () => false,
): Promise<{ store: Store; reads: () => number }> {
  const store = await openSqliteStore(":memory:");
  let reads = 0;
  const texts: Store["jobs"]["texts"] = async (filter, page, showing) => {
    reads += 1;
    if (fails(reads)) throw new Error("the disk is gone");
    return await store.jobs.texts(filter, page, showing);
  };
  return { store: { ...store, jobs: { ...store.jobs, texts } }, reads: () => reads };
}
