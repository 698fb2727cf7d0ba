// The suite's part on the info of jobs.

import { assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { jobOf, T0, uuidOf } from "../support/job.ts";
import { create, finish, JOB, run, type Test } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

export function infoTests(test: Test): void {
  test("info keeps every entry in the order of arrival, and is read in parts", async (store) => {
    await create(store, jobOf(1));
    const entries = Array.from({ length: 25 }, (_, n) => ({ n, "10%": "x" }));
    for (const entry of entries) {
      assertEquals(await store.info.append(JOB, entry, T0, NO_LIMIT), "appended");
    }
    assertEquals(await store.info.list(JOB), entries);
    assertEquals(await store.info.list(JOB, 23), entries.slice(23));
    assertEquals(await store.info.list(JOB, 0, 10), entries.slice(0, 10));
    assertEquals(await store.info.list(JOB, 10, 10), entries.slice(10, 20));
    assertEquals(await store.info.list(JOB, 20, 10), entries.slice(20));
    assertEquals(await store.info.list(JOB, 25, 10), []);
    assertEquals(await store.info.list(JOB, 0, 0), []);
  });
  test("simultaneous info entries are all kept, in one order for every reader", async (store) => {
    await create(store, jobOf(1));
    const entries = Array.from({ length: 50 }, (_, n) => ({ n }));
    const kept = await Promise.all(
      entries.map((entry) => store.info.append(JOB, entry, T0, NO_LIMIT)),
    );
    assertEquals(new Set(kept), new Set(["appended"]));
    const read = await store.info.list(JOB) ?? [];
    assertEquals(new Set(read.map(({ n }) => n)), new Set(entries.map(({ n }) => n)));
    const parts = await Promise.all([0, 20, 40].map((after) => store.info.list(JOB, after, 20)));
    assertEquals(parts.flat() as JsonObject[], read);
  });
  test("the info entry over the limit is refused, even among simultaneous ones", async (store) => {
    await create(store, jobOf(1));
    await create(store, jobOf(2));
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, n) => store.info.append(JOB, { n }, T0, 7)),
    );
    assertEquals(outcomes.filter((outcome) => outcome === "appended").length, 7);
    assertEquals(outcomes.filter((outcome) => outcome === "full").length, 13);
    assertEquals((await store.info.list(JOB))?.length, 7);
    assertEquals(await store.info.append(uuidOf<JobUuid>(2), {}, T0, 7), "appended");
    assertEquals(await store.info.append(JOB, {}, T0, 8), "appended");
  });
  test("a finished job takes info too", async (store) => {
    await finish(store, await run(store));
    assertEquals(await store.info.append(JOB, { after: true }, T0, NO_LIMIT), "appended");
    assertEquals(await store.info.list(JOB), [{ after: true }]);
  });
  test("an info entry is returned unchanged, with its keys in order", async (store) => {
    await create(store, jobOf(1));
    const odd = '{"z":1,"__proto__":{"a":1},"":"NUL \\u0000 half \\ud83d","a":[[],{}],"n":1e300}';
    await store.info.append(JOB, JSON.parse(odd), T0, NO_LIMIT);
    assertEquals(
      JSON.stringify((await store.info.list(JOB))?.[0]),
      JSON.stringify(JSON.parse(odd)),
    );
  });
  test("info of an unknown job is refused, that of a job without entries is empty", async (store) => {
    assertEquals(await store.info.append(JOB, { a: 1 }, T0, NO_LIMIT), "not_found");
    assertEquals(await store.info.list(JOB), undefined);
    await create(store, jobOf(1));
    assertEquals(await store.info.list(JOB), []);
  });
}
