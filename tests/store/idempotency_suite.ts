// The suite's part on idempotency keys: a request that is repeated gets the job of the first one.

import { assert, assertEquals } from "@std/assert";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import type { NewJob } from "../../src/domain/job/job.ts";
import { jobOf, T0 } from "../support/job.ts";
import { claim, create, finish, JOB, kindsOf, type Test } from "./store_case.ts";
import { at } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

const DAY_MS = 86_400_000;
const KEY = { key: "order-1", request_sha256: "a".repeat(64) };
const OTHER_REQUEST = { key: "order-1", request_sha256: "b".repeat(64) };

const keyed = (number: number, fields: Partial<NewJob> = {}) =>
  jobOf(number, { idempotency: KEY, ...fields });

export function idempotencyTests(test: Test): void {
  test("a repeated request gets the job of the first one, also when it has ended", async (store) => {
    await create(store, keyed(1));
    const repeated = await store.jobs.create(keyed(2), NO_LIMIT);
    assertEquals(repeated, { kind: "repeated", job: { uuid: JOB } });
    await finish(store, await claim(store));
    const after = await store.jobs.create(keyed(3), NO_LIMIT);
    assert(after.kind === "repeated");
    assertEquals(after.job.uuid, JOB);
    assertEquals(await store.jobs.count({}), 1);
  });
  test("a key that was used for another request is refused, and the job named", async (store) => {
    await create(store, keyed(1));
    const outcome = await store.jobs.create(jobOf(2, { idempotency: OTHER_REQUEST }), NO_LIMIT);
    assertEquals(outcome, { kind: "key_reused", job_uuid: JOB });
    assertEquals(await store.jobs.count({}), 1);
  });
  test("earlier() returns the outcome of a request, and creates nothing", async (store) => {
    assertEquals(await store.jobs.earlier(KEY), undefined);
    await create(store, keyed(1));
    assertEquals(await store.jobs.earlier(KEY), { kind: "repeated", job: { uuid: JOB } });
    const other = await store.jobs.earlier(OTHER_REQUEST);
    assertEquals(other, { kind: "key_reused", job_uuid: JOB });
    assertEquals(await store.jobs.earlier({ ...KEY, key: "order-2" }), undefined);
    assertEquals(await store.jobs.count({}), 1);
  });
  test("the same request with another key, or without one, creates another job", async (store) => {
    await create(store, keyed(1));
    await create(store, jobOf(2, { idempotency: { ...KEY, key: "order-2" } }));
    await create(store, jobOf(3));
    assertEquals(await store.jobs.count({}), 3);
  });
  test("of simultaneous requests with one key one creates a job, and all are answered with it", async (store) => {
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, number) => store.jobs.create(keyed(number), NO_LIMIT)),
    );
    assertEquals(kindsOf(outcomes), { created: 1, repeated: 19 });
    const uuids = outcomes.map((outcome) => "job" in outcome ? outcome.job.uuid : undefined);
    assertEquals(new Set(uuids).size, 1);
    assertEquals(await store.jobs.count({}), 1);
  });
  test("of two different simultaneous requests with one key, one is refused", async (store) => {
    const outcomes = await Promise.all([
      store.jobs.create(keyed(1), NO_LIMIT),
      store.jobs.create(jobOf(2, { idempotency: OTHER_REQUEST }), NO_LIMIT),
    ]);
    assertEquals(kindsOf(outcomes), { created: 1, key_reused: 1 });
  });
  test("a repeated request is no duplicate, and is answered even at the limit of jobs", async (store) => {
    await create(store, keyed(1, { target: "/t" }));
    assertEquals((await store.jobs.create(keyed(2, { target: "/t" }), 1)).kind, "repeated");
  });
  test("a request that was refused leaves its key unused", async (store) => {
    await create(store, jobOf(1, { target: "/t" }));
    assertEquals((await store.jobs.create(keyed(2, { target: "/t" }), NO_LIMIT)).kind, "duplicate");
    assertEquals((await store.jobs.create(keyed(3), 1)).kind, "full");
    await store.jobs.cancel(JOB);
    assertEquals((await store.jobs.create(keyed(4, { target: "/t" }), 1)).kind, "created");
  });
  test("a key is forgotten after a day, and not before", async (store) => {
    const kindAt = async (number: number, now: Instant) => {
      await at(store, now).jobs.pruneKeys(9);
      return (await at(store, now).jobs.create(keyed(number), NO_LIMIT)).kind;
    };
    assertEquals(await kindAt(1, T0), "created");
    assertEquals(await kindAt(2, instantAfter(T0, DAY_MS)), "repeated");
    assertEquals(await kindAt(3, instantAfter(T0, DAY_MS + 1)), "created");
    assertEquals(await store.jobs.count({}), 2);
  });
}
