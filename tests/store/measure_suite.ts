// The suite's part on what the store measures of itself.

import { assert, assertEquals } from "@std/assert";
import { instantAfter } from "../../src/domain/instant.ts";
import { jobOf, T0 } from "../support/job.ts";
import { claim, create, type Test } from "./store_case.ts";
import { at } from "../support/clocked_store.ts";

const DAY_MS = 86_400_000;

export function measureTests(test: Test): void {
  test("the oldest ready job is measured, and neither a delayed nor a running one", async (store) => {
    const oldest = async (now = T0) => (await at(store, now).measures.read()).oldest_ready_at;
    assertEquals(await oldest(), null);
    const tomorrow = instantAfter(T0, DAY_MS);
    await create(store, jobOf(1, { exec_after: tomorrow }));
    assertEquals(await oldest(), null);
    assertEquals(await oldest(instantAfter(T0, DAY_MS + 1)), tomorrow);
    await create(store, jobOf(2, { exec_after: instantAfter(T0, -5000) }));
    assertEquals(await oldest(), instantAfter(T0, -5000));
    await claim(store);
    assertEquals(await oldest(), null);
  });

  test("the store reports its size", async (store) => {
    const { file_bytes, free_bytes } = await store.measures.read();
    assert(file_bytes > 0 && free_bytes >= 0 && free_bytes < file_bytes);
  });
}
