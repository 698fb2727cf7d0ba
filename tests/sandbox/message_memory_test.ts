// Large messages of guests wait for memory, small ones do not, and a guest that has gone waits no longer.

import { assertEquals } from "@std/assert";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { MessageMemory } from "../../src/sandbox/message.ts";
import { until } from "../support/until.ts";
import { withPool } from "./bodies.ts";

const MIB = 1024 * 1024;
const LARGE = `(job, cb) => cb(null, "x".repeat(${MIB / 2}))`;
const SMALL = "(job, cb) => cb(null, 1)";

Deno.test("a guest whose large message has no turn is not read, and others are", async () => {
  const budget = openMemoryBudget({ guests: 64 * MIB });
  const other = await budget.reserve("guests", 64 * MIB, "test");
  await withPool(async (run) => {
    let ended = false;
    const large = run(LARGE).finally(() => ended = true);
    assertEquals((await run(SMALL)).kind, "success");
    assertEquals(ended, false);
    other.release();
    assertEquals((await large).kind, "success");
    assertEquals(budget.used("guests"), 0);
  }, { budget, slots: 2 });
});

Deno.test("the time of a task, and a cancel, end the wait of its message", async () => {
  const budget = openMemoryBudget({ guests: 64 * MIB });
  const other = await budget.reserve("guests", 64 * MIB, "test");
  await withPool(async (run) => {
    assertEquals(await run(LARGE, { timeoutMs: 500 }), { kind: "timeout" });
    const controller = new AbortController();
    const seen = Promise.withResolvers<void>();
    const left = run(`async (job, cb) => { await vmadm.list(); (${LARGE})(job, cb) }`, {
      perform: () => (seen.resolve(), Promise.resolve([])),
      signal: controller.signal,
    });
    await seen.promise;
    controller.abort();
    assertEquals(await left, { kind: "aborted" });
    other.release();
    assertEquals((await run(LARGE)).kind, "success");
    await until("the memory to be back", () => budget.used("guests") === 0 ? true : undefined);
  }, { budget, slots: 2 });
});

Deno.test("MessageMemory holds the longest message at first, its text then, and nothing at last", async () => {
  const budget = openMemoryBudget({ guests: 8 * MIB });
  const memory = new MessageMemory(budget, () => {});
  assertEquals(memory.hold(1000, 4 * MIB), undefined);
  await memory.hold(100_000, 4 * MIB);
  assertEquals([memory.hold(200_000, 4 * MIB), budget.used("guests")], [undefined, 4 * MIB]);
  memory.arrived("x".repeat(300_000));
  assertEquals(budget.used("guests"), 600_000);
  memory.release();
  assertEquals(budget.used("guests"), 0);
  await memory.hold(100_000, 4 * MIB);
  memory.close();
  assertEquals(budget.used("guests"), 0);
});
