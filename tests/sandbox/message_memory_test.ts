// Large messages of guests wait for memory, small ones do not, and a guest that has gone waits no longer.

import { assertEquals, assertMatch } from "@std/assert";
import { type MemoryBudget, openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { MessageMemory } from "../../src/sandbox/untrusted_message.ts";
import type { AgentMessage } from "../../src/wall/protocol.ts";
import { GuestCalls, type Perform } from "../../src/sandbox/task_calls.ts";
import { heldTimers } from "../support/timers.ts";
import { until } from "../support/until.ts";
import { hostile, withPool } from "./bodies.ts";

const MIB = 1024 * 1024;
const LARGE = `(job, cb) => cb(null, "x".repeat(${MIB / 2}))`;
const SMALL = "(job, cb) => cb(null, 1)";

Deno.test("a guest whose large message waits for memory is not read, and other guests are", async () => {
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

Deno.test("a guest that never ends its large message is killed, and its memory is free again", async () => {
  const budget = openMemoryBudget();
  const timers = heldTimers();
  await withPool(async (run) => {
    const running = run(SMALL);
    await until("its message to have memory", () => budget.used("guests") > 0);
    timers.advance(60_000);
    assertEquals(await running, {
      kind: "failure",
      error: {
        name: "GuestLost",
        message: 'Task "prepare" was lost: its process took over 60 s to send a message',
      },
      job: null,
    });
    await until("the memory to be back", () => budget.used("guests") === 0);
  }, { self: hostile("half"), budget, timers });
});

Deno.test("MessageMemory reserves the longest message, then the bytes of its text, and frees them at the end", async () => {
  const budget = openMemoryBudget({ guests: 8 * MIB });
  const memory = new MessageMemory({ budget, timers: heldTimers() }, () => {});
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

Deno.test("a call of large arguments holds memory until it has ended, one of small arguments none", async () => {
  const budget = openMemoryBudget();
  const answer = Promise.withResolvers<null>();
  const begun = Promise.withResolvers<void>();
  await withPool(async (run) => {
    const perform = () => (begun.resolve(), answer.promise);
    const large = run(callOf(64 * 1024), { perform });
    await begun.promise;
    assertEquals(budget.used("calls") > 128 * 1024, true);
    answer.resolve(null);
    assertEquals((await large).kind, "success");
    assertEquals(budget.used("calls"), 0);
    const seen: number[] = [];
    const small = () => (seen.push(budget.used("calls")), Promise.resolve(null));
    assertEquals((await run(callOf(1024), { perform: small })).kind, "success");
    assertEquals(seen, [0]);
  }, { budget });
});

Deno.test("a call without memory is not performed, nor its guest read, until there is some", async () => {
  const budget = openMemoryBudget({ calls: MIB });
  const other = await budget.reserve("calls", MIB, "test");
  const performed: string[] = [];
  await withPool(async (run) => {
    const perform: Perform = (name) => (performed.push(name), Promise.resolve(null));
    const body = `async (job, cb) => {
      const large = vmadm.create({ text: "x".repeat(${64 * 1024}) });
      await Promise.all([large, vmadm.list()]);
      cb();
    }`;
    const waiting = run(body, { perform });
    assertEquals((await run(SMALL)).kind, "success");
    assertEquals(performed, []);
    other.release();
    assertEquals((await waiting).kind, "success");
    assertEquals(performed, ["vmadm.create", "vmadm.list"]);
    assertEquals(budget.used("calls"), 0);
  }, { budget, slots: 2 });
});

Deno.test("a cancel ends the wait of a call for memory, and nothing of it is performed", async () => {
  const budget = openMemoryBudget({ calls: MIB });
  const other = await budget.reserve("calls", MIB, "test");
  const controller = new AbortController();
  const seen = Promise.withResolvers<void>();
  const performed: string[] = [];
  const perform: Perform = (name) => {
    performed.push(name);
    seen.resolve();
    return Promise.resolve(null);
  };
  await withPool(async (run) => {
    const body = `async () => { await vmadm.list(); await (${callOf(64 * 1024)})({}, () => {}); }`;
    const left = run(body, { perform, signal: controller.signal });
    await seen.promise;
    controller.abort();
    assertEquals(await left, { kind: "aborted" });
    other.release();
    await until("the memory to be back", () => budget.used("calls") === 0 ? true : undefined);
    assertEquals(performed, ["vmadm.list"]);
  }, { budget });
});

Deno.test("when memory is not free in time, a call is refused, and a log line is replaced by a note", async () => {
  const performed: unknown[] = [];
  const sent: AgentMessage[] = [];
  const guest = {
    budget: impatient(openMemoryBudget({ calls: MIB })),
    send: (message: AgentMessage) => void sent.push(message),
    kill: (why: string) => {
      throw new Error(why);
    },
  };
  const other = await guest.budget.reserve("calls", MIB, "test");
  const perform: Perform = (name, args) => (performed.push([name, ...args]), Promise.resolve(null));
  const calls = new GuestCalls(guest, 1, perform);
  const text = "x".repeat(8 * 1024);
  await calls.log({ type: "log", run: 1, level: "info", message: text, fields: {} });
  await calls.take({ type: "call", run: 1, call: 1, name: "vmadm.create", args: [{ text }] });
  await until("the refusal", () => sent[0]);
  await calls.end(true);
  const note = "A log line of the task was left out: there was no memory for it";
  assertEquals(performed, [["log.info", note, {}]]);
  assertMatch(
    JSON.stringify(sent),
    /"ok":false,"code":"overloaded","message":"Cannot call vmadm.create now/,
  );
  other.release();
});

/** A budget that refuses at once instead of waiting for a turn. */
function impatient(budget: MemoryBudget): MemoryBudget {
  return {
    ...budget,
    reserve: (account, bytes, what, options) =>
      budget.reserve(account, bytes, what, { ...options, turnMs: 0 }),
  };
}

function callOf(chars: number): string {
  return `async (job, cb) => { await vmadm.create({ text: "x".repeat(${chars}) }); cb(); }`;
}
