// As many info entries as one job may have.

import { assert, assertEquals } from "@std/assert";
import { type ChaosAgent, length, objectOf, withChaosAgent } from "./agent_under_chaos.ts";
import { forgetPeak, peakMiB, residentMiB } from "./memory.ts";
import { objectsOf, RawConnection } from "./raw_connection.ts";
import { QUICK } from "./workloads.ts";

const ENTRIES = length({ quick: 4_000, full: 100_000 });
const CONNECTIONS = 4;
/** Requests under way on one connection. */
const IN_FLIGHT = 8;
/** Characters of one entry: all of them together would not fit into the memory that is allowed. */
const TEXT_CHARS = 700;
/** What an agent may take for a list of any length, MiB. */
const GROWTH_MIB_MAX = 150;

Deno.test("as many info entries as a job may have are all there, in order, and one more is refused", async () => {
  await withChaosAgent(["--info-entries-max", String(ENTRIES)], async (agent) => {
    const path = await postIdleJob(agent);
    const before = residentMiB(agent.pid);
    const beganMs = performance.now();
    await Promise.all(
      Array.from({ length: CONNECTIONS }, (_, from) => postEntries(agent, path, from)),
    );
    const postedMs = performance.now() - beganMs;
    const grown = residentMiB(agent.pid) - before;
    assert(grown < GROWTH_MIB_MAX, `the agent has grown by ${grown} MiB while it was written`);
    const refused = await agent.ask("POST", path, { one: "more" });
    assertEquals([refused.status, objectOf(refused).error_code], [409, "conflict"]);

    const reported = residentMiB(agent.pid);
    forgetPeak(agent.pid);
    await expectAllEntries(agent, path);
    const peak = peakMiB(agent.pid) - reported;
    assert(peak < GROWTH_MIB_MAX, `the agent has grown by ${peak} MiB while it answered`);
    console.log(
      `${ENTRIES} entries in ${Math.round(postedMs)} ms, grown by ${Math.round(grown)} MiB; ` +
        `read with a peak of ${Math.round(peak)} MiB`,
    );
  });
});

/** @returns the path of the info of a job that stays queued */
async function postIdleJob(agent: ChaosAgent): Promise<string> {
  const workflow = await agent.ask("POST", "/workflows", { name: "idle", ...QUICK.definition });
  const exec_after = new Date(Date.now() + 86_400_000).toISOString();
  const request = { workflow: objectOf(workflow).uuid ?? "", exec_after };
  return `/jobs/${objectOf(await agent.ask("POST", "/jobs", request)).uuid}/info`;
}

/** The part of one connection: several requests are always under way on it. */
async function postEntries(agent: ChaosAgent, path: string, from: number): Promise<void> {
  const connection = await RawConnection.open(agent.url);
  try {
    const count = ENTRIES / CONNECTIONS;
    const entry = (number: number) => ({
      method: "POST",
      path,
      body: { from, number, text: "x".repeat(TEXT_CHARS) },
    });
    let sent = 0;
    const send = async (many: number) => {
      const numbers = Array.from({ length: Math.min(many, count - sent) }, (_, at) => sent + at);
      sent += numbers.length;
      await connection.send(numbers.map(entry));
    };
    await send(IN_FLIGHT);
    for (let answered = 0; answered < count; answered++) {
      const { status, text } = await connection.answer();
      assertEquals(status, 200, text);
      await send(1);
    }
  } finally {
    connection.close();
  }
}

/** Entries of one connection come in the order in which it sent them. */
async function expectAllEntries(agent: ChaosAgent, path: string): Promise<void> {
  const connection = await RawConnection.open(agent.url);
  try {
    await connection.send([{ method: "GET", path }]);
    const head = await connection.head();
    assertEquals([head.status, head.headers.get("content-length")], [200, undefined]);
    const next = Array.from({ length: CONNECTIONS }, () => 0);
    for await (const { from, number, text } of objectsOf(connection.body(head))) {
      assertEquals([number, String(text).length], [next[Number(from)], TEXT_CHARS]);
      next[Number(from)] = Number(number) + 1;
    }
    assertEquals(next, Array.from(next, () => ENTRIES / CONNECTIONS));
  } finally {
    connection.close();
  }
}
