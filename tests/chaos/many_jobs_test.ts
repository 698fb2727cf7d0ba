// A list of all jobs that is larger than the memory an agent may take for it.

import { assert, assertEquals } from "@std/assert";
import { type ChaosAgent, length, objectOf, withChaosAgent } from "./agent_under_chaos.ts";
import { forgetPeak, peakMiB, residentMiB } from "./memory.ts";
import { objectsOf, RawConnection } from "./raw_connection.ts";
import { QUICK } from "./workloads.ts";

const JOBS = length({ quick: 2_000, full: 100_000 });
const CONNECTIONS = 4;
const IN_FLIGHT = 16;
const TEXT_CHARS = 700;
const GROWTH_MIB_MAX = 150;

Deno.test("a list of all jobs is sent while it is read, and needs no more memory for more jobs", async () => {
  // The list is read while one more is posted.
  await withChaosAgent(["--unfinished-jobs-max", String(JOBS + 1)], async (agent) => {
    const workflow = objectOf(
      await agent.ask("POST", "/workflows", { name: "many", ...QUICK.definition }),
    ).uuid;
    const beganMs = performance.now();
    const posted = await Promise.all(
      Array.from({ length: CONNECTIONS }, () => postJobs(agent, String(workflow))),
    );
    const postedMs = performance.now() - beganMs;
    const before = residentMiB(agent.pid);
    forgetPeak(agent.pid);
    await expectAll(agent, String(workflow), new Set(posted.flat()));
    const peak = peakMiB(agent.pid) - before;
    assert(peak < GROWTH_MIB_MAX, `the agent has grown by ${peak} MiB while it answered`);
    console.log(
      `${JOBS} jobs posted in ${Math.round(postedMs)} ms; read with a peak of ` +
        `${Math.round(peak)} MiB above ${Math.round(before)} MiB`,
    );
  });
});

/** Jobs that stay queued. @returns their uuids */
async function postJobs(agent: ChaosAgent, workflow: string): Promise<string[]> {
  const connection = await RawConnection.open(agent.url);
  const exec_after = new Date(Date.now() + 86_400_000).toISOString();
  const request = {
    method: "POST",
    path: "/jobs",
    body: { workflow, exec_after, text: "x".repeat(TEXT_CHARS) },
  };
  try {
    const count = JOBS / CONNECTIONS;
    let sent = IN_FLIGHT;
    await connection.send(Array.from({ length: IN_FLIGHT }, () => request));
    const uuids: string[] = [];
    while (uuids.length < count) {
      const { status, text } = await connection.answer();
      assertEquals(status, 201, text);
      uuids.push(String(JSON.parse(text).uuid));
      if (sent < count) await connection.send([request]);
      sent += 1;
    }
    return uuids;
  } finally {
    connection.close();
  }
}

/** The list, read in the midst of other requests. */
async function expectAll(agent: ChaosAgent, workflow: string, wanted: Set<string>): Promise<void> {
  const connection = await RawConnection.open(agent.url);
  try {
    await connection.send([{ method: "GET", path: "/jobs" }]);
    const head = await connection.head();
    assertEquals([head.status, head.headers.get("content-length")], [200, undefined]);
    assertEquals(Number(head.headers.get("x-count") ?? JOBS), JOBS);
    const jobs = objectsOf(connection.body(head));
    const first = (await jobs.next()).value;
    assert(wanted.delete(String(first?.uuid)), "the first job is none that was posted");
    // The rest is not read yet: nobody else has to wait for that.
    const between = await agent.ask("POST", "/jobs", { workflow });
    assertEquals(between.status, 201);
    const { uuid } = objectOf(between);
    let last = String(first?.created_at);
    for await (const job of jobs) {
      if (job.uuid === uuid) continue;
      assert(wanted.delete(String(job.uuid)), `job ${job.uuid} is listed twice, or was not posted`);
      assert(String(job.created_at) <= last, "the newest come first");
      last = String(job.created_at);
    }
    assertEquals(wanted.size, 0, "jobs that are not listed");
  } finally {
    connection.close();
  }
}
