// The accountant: memory is given in turn, and given back.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { ACCOUNTS, openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { AGENT_HEAP_MIB } from "../../src/sandbox/guest_command.ts";

const budgetOf = (answers: number) => openMemoryBudget({ answers });

Deno.test("all accounts together fit into the agent's heap beside its idle memory", () => {
  const restMib = 40;
  // Answers and documents are bytes outside of the heap.
  const { answers: _, documents: _bytes, ...inHeap } = ACCOUNTS;
  const mib = Object.values(inHeap).reduce((sum, bytes) => sum + bytes, 0) / (1024 * 1024);
  assert(mib + restMib <= AGENT_HEAP_MIB, `${mib} MiB in ${AGENT_HEAP_MIB} MiB`);
});

Deno.test("memory is reserved at once while there is enough, and counted until it is released", async () => {
  const budget = budgetOf(100);
  const first = await budget.reserve("answers", 60, "read it");
  const second = await budget.reserve("answers", 40, "read it");
  assertEquals(budget.used("answers"), 100);
  first.release();
  first.release();
  assertEquals(budget.used("answers"), 40);
  second.release();
  assertEquals([budget.used("answers"), second.bytes], [0, 0]);
});

Deno.test("waiting callers are served in order, a small one not before a large one", async () => {
  const budget = budgetOf(100);
  const held = await budget.reserve("answers", 90, "read it");
  const order: string[] = [];
  const large = budget.reserve("answers", 50, "read it").then((got) => {
    order.push("large");
    return got;
  });
  const small = budget.reserve("answers", 5, "read it").then((got) => {
    order.push("small");
    return got;
  });
  assertEquals(budget.tryReserve("answers", 5), undefined);
  held.release();
  (await large).release();
  (await small).release();
  assertEquals(order, ["large", "small"]);
  assertEquals(budget.used("answers"), 0);
});

Deno.test("a full account does not delay another one", async () => {
  const budget = openMemoryBudget({ bodies: 10, smallBodies: 10 });
  const held = await budget.reserve("bodies", 10, "read it");
  const other = await budget.reserve("smallBodies", 10, "read it");
  other.release();
  held.release();
});

Deno.test("a reservation whose turn does not come in time is refused, and later ones continue", async () => {
  const budget = budgetOf(100);
  const held = await budget.reserve("answers", 60, "read it");
  const large = budget.reserve("answers", 50, "read the list", { turnMs: 20 });
  const small = budget.reserve("answers", 30, "read it");
  const error = await assertRejects(
    () => large,
    AgentError,
    "Cannot read the list now: no memory",
  );
  assertEquals(error.code, "overloaded");
  assert((error.retryAfterSeconds ?? 0) > 0);
  (await small).release();
  held.release();
  assertEquals(budget.used("answers"), 0);
});

Deno.test("a signal ends the wait, even if it fired before", async () => {
  const budget = budgetOf(100);
  const held = await budget.reserve("answers", 100, "read it");
  const ending = new AbortController();
  const options = { signal: ending.signal, turnMs: Number.POSITIVE_INFINITY };
  const waiting = budget.reserve("answers", 1, "read it", options);
  ending.abort();
  for (const refused of [waiting, budget.reserve("answers", 1, "read it", options)]) {
    assertEquals((await assertRejects(() => refused, AgentError)).code, "aborted");
  }
  held.release();
  assertEquals(budget.used("answers"), 0);
});

Deno.test("a reservation larger than its account gets all of it, alone", async () => {
  const budget = budgetOf(100);
  const one = await budget.reserve("answers", 1, "read it");
  const giant = budget.reserve("answers", 1_000, "read it");
  assertEquals(budget.used("answers"), 1);
  one.release();
  const held = await giant;
  assertEquals([held.bytes, budget.tryReserve("answers", 1)], [100, undefined]);
  held.release();
});

Deno.test("a reservation that becomes smaller makes room for others, and may become larger", async () => {
  const budget = budgetOf(100);
  const held = await budget.reserve("answers", 100, "read it");
  const waiting = budget.reserve("answers", 30, "read it");
  held.resize(70);
  (await waiting).release();
  held.resize(120);
  assertEquals([held.bytes, budget.used("answers")], [120, 120]);
  held.release();
  held.resize(50);
  assertEquals(budget.used("answers"), 0);
});
