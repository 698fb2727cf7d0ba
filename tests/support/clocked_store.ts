// A store of tests on a clock that stands still until it is set, and what runners ask of a store at an
// instant.

import type { Incarnation, RunnerId } from "../../src/domain/id.ts";
import { type Instant, instantAfter, msBetween } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { RunnerLife } from "../../src/store/run_store.ts";
import { openSqliteStore, type SqliteOptions } from "../../src/store/sqlite/sqlite_store.ts";
import type { SchemaSteps } from "../../src/store/sql.ts";
import type { Store } from "../../src/store/store.ts";
import { RUNNER, T0 } from "./job.ts";

/** A clock that tests set. */
export interface TestClock {
  now: Instant;
}

/** A store and its clock. */
export interface ClockedStore extends Store {
  readonly clock: TestClock;
}

/** Opens a store whose clock is the test's. */
export async function openClockedStore(
  path = ":memory:",
  clock: TestClock = { now: T0 },
  options: SqliteOptions = {},
  schema?: SchemaSteps,
): Promise<ClockedStore> {
  const store = await openSqliteStore(path, { ...options, now: () => clock.now }, schema);
  return { ...store, clock };
}

/** The life of a runner that has one; a number for each further one. */
export function lifeOf(runner_id: RunnerId, number = 1): RunnerLife {
  // The text has the form of a uuid, which is what the brand stands for.
  const incarnation = `22222222-0000-4000-8000-${String(number).padStart(12, "0")}` as Incarnation;
  return { runner_id, incarnation };
}

/** The store at an instant, where its clock stands from now on. */
export function at<T extends Store>(store: T, now: Instant): T {
  setClock(store, now);
  return store;
}

function setClock(store: Store, now: Instant | undefined): void {
  if (now === undefined) return;
  if (!("clock" in store)) throw new Error("This store has no clock that can be set");
  (store as ClockedStore).clock.now = now;
}

/** Claims for a runner, at an instant or as the clock stands. */
export async function claimJobs(
  store: Store,
  runner: RunnerId,
  limit: number,
  now?: Instant,
): Promise<Job[]> {
  setClock(store, now);
  return [...(await store.jobs.claim(lifeOf(runner), limit)).jobs];
}

/** When there is something to claim. */
export async function dueOf(
  store: Store,
): Promise<{ kind: "ready" | "none" } | { kind: "at"; instant: Instant }> {
  const { due } = await store.jobs.claim(lifeOf(RUNNER), 0);
  if (due.kind !== "in") return due;
  return { kind: "at", instant: instantAfter((store as ClockedStore).clock.now, due.ms) };
}

/** Rescues what others left, at an instant or as the clock stands. */
export async function rescueAt(store: Store, runner: RunnerId, now?: Instant): Promise<number> {
  setClock(store, now);
  return await store.jobs.rescue(runner);
}

/** Gives a runner the lease until an instant. */
export async function leaseUntil(store: Store, runner: RunnerId, until: Instant): Promise<void> {
  const { clock } = store as ClockedStore;
  const outcome = await store.jobs.renew(lifeOf(runner), [], msBetween(clock.now, until));
  if (outcome.kind !== "renewed") throw new Error(`The lease is not renewed: ${outcome.kind}`);
}

/** Begins a second life of a runner, whose first one has ended. @returns how many jobs it queued again */
export async function beginAgain(store: Store, runner: RunnerId, now?: Instant): Promise<number> {
  setClock(store, now);
  const ended = [lifeOf(runner).incarnation];
  const outcome = await store.jobs.begin(lifeOf(runner, 2), ended, 60_000);
  if (outcome.kind !== "begun") throw new Error(`The runner has not begun: ${outcome.kind}`);
  return outcome.rescued;
}
