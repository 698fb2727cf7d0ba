// What bodies take in memory is reserved before they are read and before they are parsed.

import { assert, assertEquals } from "@std/assert";
import { type Account, openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { BODY_VALUES_MAX } from "../../src/http/request/body.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import type { LazyPart, TextPart } from "../../src/store/stored_text.ts";
import { jobOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { BODY, withHttpAgent } from "./http_agent.ts";
import { NO_LIMIT } from "../support/limits.ts";

const WORKFLOW = { name: "one", chain: [{ name: "first", body: BODY }] };
const LARGE = { ...WORKFLOW, note: "x".repeat(100_000) };
const ACCOUNTS: readonly Account[] = [
  "bodies",
  "values",
  "smallBodies",
  "smallValues",
  "answers",
];

Deno.test("requests release their memory, even refused ones and those with large answers", async () => {
  const budget = openMemoryBudget();
  await withHttpAgent(async ({ call }) => {
    const made = await call("POST", "/workflows", LARGE);
    assertEquals(made.status, 201);
    const { uuid } = made.body as { uuid: string };
    const params = { text: "y".repeat(400_000) };
    const job = await call("POST", "/jobs", { workflow: uuid, ...params });
    assertEquals([job.status, job.headers.get("content-type")], [201, "application/json"]);
    assertEquals((job.body as { params: unknown }).params, params);
    assertEquals((await call("POST", "/jobs", { workflow: "none", ...params })).status, 409);
    assertEquals((await call("POST", "/jobs", "{")).status, 400);
    assertEquals((await call("PUT", `/workflows/${uuid}`, LARGE)).status, 201);
    for (const path of ["/jobs", "/workflows", `/workflows/${uuid}`]) await call("GET", path);
    await until("all to be given back", () => ACCOUNTS.every((name) => budget.used(name) === 0));
  }, { budget });
});

Deno.test("a large body waits for memory and is then refused; a small one does not wait", async () => {
  for (const account of ["bodies", "values"] as const) {
    const budget = openMemoryBudget({ [account]: 100 });
    const held = await budget.reserve(account, 100, "test");
    const refused = {
      ...budget,
      reserve: (...[name, bytes, what]: Parameters<typeof budget.reserve>) =>
        budget.reserve(name, bytes, what, { turnMs: 1 }),
    };
    await withHttpAgent(async ({ call }) => {
      const answer = await call("POST", "/workflows", LARGE);
      assertEquals([answer.status, (answer.body as { code: string }).code], [
        503,
        "ServiceUnavailable",
      ]);
      assert(Number(answer.headers.get("retry-after")) >= 1);
      assertEquals((await call("POST", "/workflows", WORKFLOW)).status, 201);
      held.release();
      assertEquals((await call("POST", "/workflows", LARGE)).status, 201);
    }, { budget: refused });
  }
});

Deno.test("a cancel never waits behind other small bodies", async () => {
  const budget = openMemoryBudget({ smallBodies: 100, smallValues: 100 });
  const held = await budget.reserve("smallBodies", 100, "test");
  const { promise: waits, resolve } = Promise.withResolvers<void>();
  const reserve: typeof budget.reserve = (...args) => {
    resolve();
    return budget.reserve(...args);
  };
  await withHttpAgent(async ({ call, store }) => {
    const { uuid } = jobOf(1);
    await store.jobs.create(jobOf(1), NO_LIMIT);
    const waiting = call("POST", "/workflows", { ...WORKFLOW, note: "x".repeat(2_000) });
    await waits;
    const canceled = await call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals((canceled.body as { execution: unknown }).execution, "canceled");
    held.release();
    assertEquals((await waiting).status, 201);
  }, { budget: { ...budget, reserve } });
});

Deno.test("a document that cannot be sent now is not kept as being read", async () => {
  const store = await openSqliteStore(":memory:");
  const open = new Set<LazyPart>();
  const watched = (part: TextPart): TextPart => {
    if (part instanceof Uint8Array) return part;
    const close = () => {
      open.delete(part);
      part.close();
    };
    open.add(part);
    return { ...part, close };
  };
  const text: Store["jobs"]["text"] = async (...args) => {
    const found = await store.jobs.text(...args);
    return found && { ...found, parts: found.parts.map(watched) };
  };
  const full = openMemoryBudget({ answers: 1 });
  const held = await full.reserve("answers", 1, "test");
  const budget = {
    ...full,
    reserve: (...[name, bytes, what]: Parameters<typeof full.reserve>) =>
      full.reserve(name, bytes, what, { turnMs: 1 }),
  };
  await withHttpAgent(async (agent) => {
    const job = jobOf(1, { params: { text: "y".repeat(400_000) } });
    await store.jobs.create(job, NO_LIMIT);
    for (const path of ["", "/wait?timeout=0"]) {
      assertEquals((await agent.call("GET", `/jobs/${job.uuid}${path}`)).status, 503);
      assertEquals(open.size, 0);
    }
    held.release();
    assertEquals((await agent.call("GET", `/jobs/${job.uuid}`)).status, 200);
    await until("all to be closed", () => open.size === 0);
  }, { budget, store: { ...store, jobs: { ...store.jobs, text } } });
  await store.close();
});

Deno.test("a body with too many values is refused before it is parsed; one at the limit is accepted", async () => {
  await withHttpAgent(async ({ call }) => {
    const listOf = (values: number) => `{"workflow":"none","list":[${"0,".repeat(values)}0]}`;
    const over = await call("POST", "/jobs", listOf(BODY_VALUES_MAX));
    assertEquals(over.status, 413);
    assert(over.text.includes(`it holds over ${BODY_VALUES_MAX} values`));
    assertEquals((await call("POST", "/jobs", listOf(BODY_VALUES_MAX - 10))).status, 409);
  });
});
