// What the parts of the store's suite share: a test on an empty store, and the first steps of jobs.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { type Instant, msBetween } from "../../src/domain/instant.ts";
import { type Job, type NewJob, phaseOf, STATS_WINDOWS } from "../../src/domain/job/job.ts";
import { EXECUTIONS, isFinal, type TaskEvent } from "../../src/domain/job/state.ts";
import type { ChangedJob } from "../../src/store/job_store.ts";
import type { Hold, TaskRecord } from "../../src/store/run_store.ts";
import type { JobStats, StatsWindow } from "../../src/store/stats.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, resultOf, RUNNER, uuidOf } from "../support/job.ts";
import { at, claimJobs } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Registers a test that is given an empty store. */
export type Test = (name: string, run: (store: Store) => Promise<void>) => void;

/** The job that jobOf(1) makes. */
export const JOB = uuidOf<JobUuid>(1);

/** The hold of a claim on its job. */
export function holdOf({ uuid, lease, phase }: Job, runner_id = RUNNER): Hold {
  return { job_uuid: uuid, runner_id, lease, phase };
}

/** The end of a task of a claimed job. */
export function recordOf(job: Job, event: TaskEvent, fields: Partial<TaskRecord> = {}): TaskRecord {
  return {
    ...holdOf(job),
    position: phaseOf(job).results.length,
    entry: resultOf("first"),
    params: {},
    props: {},
    elapsed_ms: 5,
    event,
    ...fields,
  };
}

/** Writes a job, which nothing may prevent. */
export async function create(store: Store, job: NewJob): Promise<Job> {
  const outcome = await store.jobs.create(job, NO_LIMIT);
  assert(outcome.kind === "created", `The job was not created: ${outcome.kind}`);
  return outcome.job;
}

/** Claims the one job that is ready, at an instant or as the clock of the store stands. */
export async function claim(store: Store, now?: Instant, runner = RUNNER): Promise<Job> {
  const jobs = await claimJobs(store, runner, 2, now);
  assertEquals(jobs.length, 1);
  return jobs[0] as Job;
}

/** Writes a job, the only one that is ready, and claims it. */
export async function run(store: Store, job: NewJob = jobOf(1)): Promise<Job> {
  await create(store, job);
  return await claim(store);
}

/** Ends a claimed job with its last task. */
export async function finish(
  store: Store,
  job: Job,
  execution: "succeeded" | "failed" = "succeeded",
  now?: Instant,
): Promise<void> {
  assert(
    await (now === undefined ? store : at(store, now)).jobs.recordTask(
      recordOf(
        job,
        execution === "succeeded" ? { kind: "succeed" } : { kind: "fail", onerror: false },
        { position: phaseOf(await present(store, job.uuid)).results.length },
      ),
    ),
  );
}

/** The job as it is now. */
export async function present(store: Store, uuid: JobUuid = JOB): Promise<Job> {
  const job = await store.jobs.get(uuid);
  assert(job !== undefined, "The job is not there");
  return job;
}

/** What is said of a job that was to be changed. */
export function changedOf({ uuid, execution }: Job): ChangedJob {
  return { uuid, execution };
}

/** How many of the outcomes are of each kind. */
export function kindsOf(outcomes: readonly { readonly kind: string }[]): Record<string, number> {
  const kinds: Record<string, number> = {};
  for (const { kind } of outcomes) kinds[kind] = (kinds[kind] ?? 0) + 1;
  return kinds;
}

const HOUR_MS = 3_600_000;

/** The stats that these jobs should have, counted one by one. */
export function recount(jobs: readonly Job[], now: Instant): JobStats {
  const none = () => Object.fromEntries(EXECUTIONS.map((execution) => [execution, 0]));
  const stats = Object.fromEntries(STATS_WINDOWS.map((window) => [window, none()])) as JobStats;
  for (const { created_at, execution } of jobs) {
    stats[windowOf(msBetween(created_at, now))][execution] += 1;
  }
  return stats;
}

function windowOf(ageMs: number): StatsWindow {
  if (ageMs <= HOUR_MS) return "current";
  if (ageMs <= 2 * HOUR_MS) return "past_hour";
  return ageMs <= 24 * HOUR_MS ? "past_24h" : "all_time";
}

/** Hours of ends with the jobs that ended in them, counted one by one. */
function recountFinished(jobs: readonly Job[]): unknown[] {
  const ended = jobs.filter(({ finished_at }) => finished_at !== null);
  const hourOf = ({ finished_at }: Job) => `${finished_at?.slice(0, 13)}:00:00.000Z`;
  return [...new Set(ended.map(hourOf))].sort().map((hour) => {
    const here = ended.filter((job) => hourOf(job) === hour);
    const counts = EXECUTIONS.filter(isFinal).map((execution) =>
      [execution, here.filter((job) => job.execution === execution).length] as const
    );
    return { hour, ...Object.fromEntries(counts) };
  });
}

/** Checks the counters of the store against all its jobs. */
export async function assertStats(store: Store, now: Instant): Promise<void> {
  const jobs = (await store.jobs.list({})).map(({ job }) => job);
  assertEquals(await at(store, now).jobs.stats(), recount(jobs, now));
  assertEquals(await store.jobs.count({}), jobs.length);
  for (const execution of EXECUTIONS) {
    const found = jobs.filter((job) => job.execution === execution).length;
    assertEquals(await store.jobs.count({ execution }), found);
  }
  assertEquals(await store.jobs.finished(""), recountFinished(jobs));
}
