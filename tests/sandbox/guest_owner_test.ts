// A guest process never serves two workflows: whatever has become of its inside, it learns nothing of
// any other. Tried with a stand-in that keeps all it is given, with guests of both programs, and on
// the agent.

import type { LentGuests } from "../../src/sandbox/run_task.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { randomUuid, type TaskUuid, type WorkflowUuid } from "../../src/domain/id.ts";
import { SPARES, WARM_BESIDE_SLOTS } from "../../src/sandbox/guest_command.ts";
import { type GuestProcess, openGuestOwners, type OwnedJob } from "../../src/sandbox/process.ts";
import { GuestQueue } from "../../src/sandbox/waiting_tasks.ts";
import type { GuestCounts, GuestPool } from "../../src/sandbox/pool.ts";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import { startAgentProcess } from "../support/agent_process.ts";
import { cpuOfChildren } from "../support/processes.ts";
import { heldTimers } from "../support/timers.ts";
import { until, withFolder } from "../support/until.ts";
import { hostile, ownerNamed, runBody, withPool } from "./bodies.ts";
import { eachProgram } from "../support/each_program.ts";

const OK = "(job, cb) => cb()";
const INPUTS = Number(Deno.env.get("ZONEWRIGHT_TEST_INPUTS") ?? 200);

Deno.test("a guest that was taken over is never given a task of another workflow", async () => {
  await withPool(async (_run, pool) => {
    const seenBy = new Map<number, Set<string>>();
    const order = fc.sample(fc.nat({ max: 11 }), { numRuns: Math.min(INPUTS, 2000), seed: 7 });
    const slot = async () => {
      for (let next = order.pop(); next !== undefined; next = order.pop()) {
        const owner = `workflow ${next}`;
        const outcome = await runBody(pool, `() => ${JSON.stringify(owner)}`, {
          owner: ownerNamed(owner),
        });
        const { pid, kept } = keptBy(outcome);
        const seen = seenBy.get(pid) ?? new Set();
        for (const source of kept) seen.add(source);
        seenBy.set(pid, seen);
      }
    };
    await Promise.all([slot(), slot(), slot()]);
    assert(seenBy.size >= 12, `Only ${seenBy.size} guests served twelve workflows`);
    for (const [pid, sources] of seenBy) assertEquals([pid, sources.size], [pid, 1]);
    assert(pool.pids().length <= 3 + SPARES + WARM_BESIDE_SLOTS);
  }, { self: hostile("keeps"), slots: 3 });
});

function keptBy(outcome: TaskOutcome): { pid: number; kept: string[] } {
  if (outcome.kind !== "success") throw new Error(`Expected a success: ${JSON.stringify(outcome)}`);
  return outcome.result as { pid: number; kept: string[] };
}

eachProgram("a process serves one workflow, whatever the tasks do", async (program) => {
  const bodies = [
    OK,
    "() => { throw new Error('no') }",
    "async (job, cb) => { await info({}); cb(null, 1) }",
    "() => { for (;;); }",
  ];
  await withPool(async (_run, pool) => {
    const [owners, watched] = watchOwners(pool);
    const order = fc.sample(
      fc.tuple(fc.nat({ max: 6 }), fc.constantFrom(...bodies)),
      { numRuns: 120, seed: 11 },
    );
    const slot = async () => {
      for (let next = order.pop(); next !== undefined; next = order.pop()) {
        const [workflow, source] = next;
        const timeoutMs = source === bodies.at(-1) ? 50 : 30_000;
        await runBody(watched, source, { owner: ownerNamed(`${workflow}`), timeoutMs });
      }
    };
    await Promise.all([slot(), slot()]);
    assert(owners.size >= 7);
    for (const [pid, names] of owners) assertEquals([pid, names.size], [pid, 1]);
  }, { self: { ...program, compiled: program.name !== "source" }, slots: 2 });
});

/** The pool, with a note of the workflows for which each process was lent out. */
function watchOwners(pool: GuestPool): [Map<number, Set<string>>, LentGuests] {
  const owners = new Map<number, Set<string>>();
  const watched: LentGuests = {
    checkSource: pool.checkSource,
    release: (guest) => pool.release(guest),
    async acquire(owner, signal) {
      const guest = await pool.acquire(owner, signal);
      owners.set(guest.pid, (owners.get(guest.pid) ?? new Set()).add(owner));
      return guest;
    },
  };
  return [owners, watched];
}

eachProgram("the agent runs two workflows in processes of their own", async (program) => {
  if (Deno.build.os !== "linux") return;
  await withFolder(async (stateDir) => {
    const agent = await startAgentProcess(program, stateDir, ["--dev", "--slots", "1"]);
    try {
      const workflow = async (name: string) => {
        // More work than any start of a process.
        const body = `(job, cb) => {
          let sum = 0;
          for (let i = 0; i < 5e8; i++) sum = (sum + i) | 0;
          cb(null, sum);
        }`;
        const answer = await agent.post("/workflows", { name, chain: [{ name, body }] });
        assertEquals(answer.status, 201, JSON.stringify(answer.body));
        return String(answer.body.uuid);
      };
      const runs = async (uuid: string) => {
        const before = await cpuOfChildren(stateDir);
        const answer = await agent.post("/jobs", { workflow: uuid });
        await agent.job(String(answer.body.uuid), "success");
        const after = await cpuOfChildren(stateDir);
        const spent = (pid: number) => (after.get(pid) ?? 0) - (before.get(pid) ?? 0);
        return [...after.keys()].sort((one, other) => spent(other) - spent(one))[0];
      };
      // Each of them twice, in turn. A warm guest may have been ended in between, to give its memory
      // back: a workflow has one process or two, and none of them is the other's.
      const [one, other] = [await workflow("one"), await workflow("other")];
      const ofOne = [await runs(one)];
      const ofOther = [await runs(other)];
      ofOne.push(await runs(one));
      ofOther.push(await runs(other));
      for (const pid of ofOne) assert(!ofOther.includes(pid), `Process ${pid} served both`);
    } finally {
      await agent.stop();
    }
  });
});

Deno.test("a workflow finds its warm guest again, and another one finds the spare", async () => {
  await withPool(async (_run, pool) => {
    const [owners, watched] = watchOwners(pool);
    const run = (owner: string) => runBody(watched, OK, { owner: ownerNamed(owner) });
    await run("a");
    await run("a");
    assertEquals(owners.size, 1);
    await until("the next spare", () => pool.counts().spare === 1);
    assertEquals(pool.counts(), counts({ spare: 1, warm: 1, started: 2 }));
    await run("b");
    assertEquals(owners.size, 2);
    await until("another spare", () => pool.counts().spare === 1);
    assertEquals(pool.counts(), counts({ spare: 1, warm: 2, started: 3 }));
    await run("a");
    await run("b");
    assertEquals(owners.size, 2);
  });
});

Deno.test("the guest that was idle longest is ended for another workflow", async () => {
  const placesMax = 1 + SPARES + WARM_BESIDE_SLOTS;
  await withPool(async (_run, pool) => {
    const [owners, watched] = watchOwners(pool);
    for (let workflow = 0; workflow < placesMax + 2; workflow++) {
      await runBody(watched, OK, { owner: ownerNamed(`${workflow}`) });
      await until("a spare", () => pool.counts().spare === 1);
      assert(pool.pids().length <= placesMax);
    }
    assertEquals(owners.size, placesMax + 2);
    // All but one place are those of the last workflows, and one is the spare's.
    assertEquals(pool.counts(), {
      starting: 0,
      spare: 1,
      warm: placesMax - 1,
      working: 0,
      started: placesMax + 3,
      given_up: 3,
    });
    const before = owners.size;
    await runBody(watched, OK, { owner: ownerNamed(`${placesMax + 1}`) });
    assertEquals(owners.size, before);
    await runBody(watched, OK, { owner: ownerNamed("0") });
    assertEquals(owners.size, before + 1);
  });
});

Deno.test("an idle pool ends the guests beyond those that it keeps at rest", async () => {
  const timers = heldTimers();
  await withPool(async (_run, pool) => {
    for (const owner of ["a", "b", "c", "d"]) {
      await runBody(pool, OK, { owner: ownerNamed(owner) });
      await until("a spare", () => pool.counts().spare === 1);
    }
    await until("the resting state", () => {
      timers.advance(5000);
      return pool.pids().length === 1 + SPARES;
    });
    assertEquals(pool.counts().spare, 1);
    assertEquals((await runBody(pool, OK, { owner: ownerNamed("d") })).kind, "success");
  }, { timers });
});

Deno.test("no workflow waits while guests of others are idle, and none starves", async () => {
  await withPool(async (_run, pool) => {
    const run = (owner: string) => runBody(pool, OK, { owner: ownerNamed(owner) });
    let ended = false;
    // More tasks at a time than there are guests, of one workflow, without a pause.
    const greedy = Promise.all(Array.from({ length: 12 }, async () => {
      while (!ended) await run("greedy");
    }));
    try {
      for (let workflow = 0; workflow < 10; workflow++) {
        assertEquals((await run(`modest ${workflow}`)).kind, "success");
      }
    } finally {
      ended = true;
    }
    await greedy;
  });
});

Deno.test("a guest refuses to serve a second workflow", async () => {
  await withPool(async (_run, pool) => {
    const guest = await pool.acquire(ownerNamed("a"), new AbortController().signal);
    guest.serve(ownerNamed("a"));
    assertThrows(() => guest.serve(ownerNamed("b")), Error, "it serves another workflow");
    pool.release(guest);
  });
});

Deno.test("GuestQueue.serve() skips only tasks for which a guest is already starting", async () => {
  const queue = new GuestQueue();
  const { signal } = new AbortController();
  const served: string[] = [];
  for (const name of ["a", "b", "b", "c"]) {
    queue.wait(ownerNamed(name), signal).then(() => served.push(name));
  }
  const only = (name: string, count: number) => (owner: string) =>
    owner === name && count-- > 0 ? {} as GuestProcess : undefined;
  queue.serve(only("c", 1), 0);
  queue.serve(only("b", 2), 0);
  assertEquals(queue.size, 4);
  queue.serve(only("b", 1), 1);
  queue.serve(only("c", 1), 1);
  assertEquals(queue.size, 3);
  queue.serve(only("c", 1), 2);
  queue.serve(only("a", 1), 0);
  await Promise.resolve();
  assertEquals([served, queue.size], [["b", "c", "a"], 1]);
});

Deno.test("openGuestOwners() distinguishes workflows by uuid and by text", async () => {
  const ownerOf = openGuestOwners();
  const uuid = randomUuid<WorkflowUuid>();
  const task = { uuid: randomUuid<TaskUuid>(), body: OK };
  const job = (change: Partial<OwnedJob> = {}): OwnedJob => (
    { workflow_uuid: uuid, chain: [task], onerror: [], oncancel: [], ...change }
  );
  const owner = await ownerOf(job());
  assertEquals(await ownerOf(job()), owner);
  const shared = job();
  assertEquals(await ownerOf(shared), owner);
  assertEquals(await ownerOf({ ...shared }), owner);
  const others = [
    job({ workflow_uuid: randomUuid<WorkflowUuid>() }),
    job({ chain: [{ ...task, body: `${OK};` }] }),
    job({ chain: [], onerror: [task] }),
    job({ oncancel: [task] }),
    // Lists that are shared in part, which no store does.
    { ...shared, oncancel: [task, task] },
    { ...shared, workflow_uuid: randomUuid<WorkflowUuid>() },
  ];
  const names = await Promise.all(others.map(ownerOf));
  assertEquals(new Set([owner, ...names]).size, names.length + 1);
});

function counts(given: Partial<GuestCounts>): GuestCounts {
  return { starting: 0, spare: 0, warm: 0, working: 0, started: 0, given_up: 0, ...given };
}
