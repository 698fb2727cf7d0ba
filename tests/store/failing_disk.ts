// A program whose disk fails: it is started with a limit on the size of files, beyond which every
// write fails as on a broken disk. Creates jobs until that happens, and tells what it saw as JSON.

import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { jobOf, RUNNER, T0, uuidOf } from "../support/job.ts";
import { claimJobs } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** More than any limit allows. */
const JOBS_MAX = 10_000;

/** What the program reports when it ends. */
export interface FailingDiskReport {
  readonly acknowledged: number;
  /** Codes of the refusals: of the writes that failed together, and of later ones. */
  readonly together: readonly string[];
  readonly later: readonly string[];
  /** How often the watcher was called. */
  readonly reported: number;
}

function codeOf(outcome: PromiseSettledResult<unknown>): string {
  if (outcome.status === "fulfilled") return "written";
  return outcome.reason instanceof AgentError ? outcome.reason.code : String(outcome.reason);
}

async function failingDisk(path: string): Promise<FailingDiskReport> {
  let reported = 0;
  const store = await openSqliteStore(path, { broken: () => reported += 1 });
  const create = (number: number) =>
    store.jobs.create(jobOf(number, { params: { pad: "x".repeat(5000) } }), NO_LIMIT);
  let acknowledged = 0;
  for (let number = 0; number < JOBS_MAX; number += 2) {
    const outcomes = await Promise.allSettled([create(number), create(number + 1)]);
    acknowledged += outcomes.filter(({ status }) => status === "fulfilled").length;
    if (outcomes.every(({ status }) => status === "fulfilled")) continue;
    const later = await Promise.allSettled([
      create(JOBS_MAX),
      claimJobs(store, RUNNER, 1),
      store.jobs.cancel(uuidOf<JobUuid>(0)),
      store.info.append(uuidOf<JobUuid>(0), {}, T0, NO_LIMIT),
    ]);
    await store.close();
    return { acknowledged, together: outcomes.map(codeOf), later: later.map(codeOf), reported };
  }
  throw new Error("The disk did not fail");
}

if (import.meta.main) console.log(JSON.stringify(await failingDisk(Deno.args[0] ?? "")));
