// Reading and posting at the limits, many at once: every request is small or documented, and all of them
// together would be more than any heap.

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { type ChaosAgent, length, objectOf } from "./agent_under_chaos.ts";
import { Answers, atOnce, loadTest, makeLargeJob } from "./memory_load.ts";
import { RawConnection } from "./raw_connection.ts";

/** JSON of under 2 MiB that becomes most in a heap: objects of one member. */
const PARAM = JSON.stringify({ a: 1 });
const PARAM_CHARS = 1_400_000;
const PARAMS_TEXT = `[${Array(Math.floor(PARAM_CHARS / (PARAM.length + 1))).fill(PARAM).join()}]`;
/** Bodies of one workflow, together 1.5 MB. */
const BODIES = 6;
const BODY_CHARS = 250_000;
const WORKFLOWS = length({ quick: 12, full: 60 });
const JOBS = length({ quick: 12, full: 60 });
const INFO_ENTRIES = length({ quick: 250, full: 750 });
const INFO_CHARS = 64_000;
const READERS = length({ quick: 30, full: 60 });
const CALLERS = length({ quick: 60, full: 250 });
const SLOW_READERS = 100;
/** Callers that read what they ask for while others do not, and how long all of them may wait. */
const OTHERS = 5;
const OTHERS_MS_MAX = 180_000;
const CANCELS = 8;
/** Milliseconds that a load reads for; who has not read all by then leaves, as callers do. */
const READ_MS = length({ quick: 3_000, full: 60_000 });
const READ = [200, 503];
const WRITTEN = [201, 413, 503];
const LATER = new Date(Date.now() + 86_400_000).toISOString();

/** Reads one answer to its end, or until the time is up. */
async function readWhole(
  agent: ChaosAgent,
  request: Parameters<RawConnection["send"]>[0][number],
  answers: Answers,
  endMs: number,
): Promise<void> {
  const connection = await RawConnection.open(agent.url);
  let left = false;
  const late = setTimeout(() => {
    left = true;
    connection.close();
  }, Math.max(endMs - performance.now(), 0));
  try {
    await connection.send([request]);
    const head = await connection.head();
    let text = "";
    let last: number | undefined;
    for await (const piece of connection.body(head)) {
      if (text.length < 1_000) text += new TextDecoder().decode(piece.subarray(0, 1_000));
      last = piece.at(-1) ?? last;
    }
    answers.add(head.status, text);
    const open = text.charCodeAt(0);
    if (head.status === 200) {
      assertEquals([open, last], open === 0x5b ? [0x5b, 0x5d] : [0x7b, 0x7d]);
    }
  } catch (error) {
    // Its own leaving, and nothing else, may end an answer early.
    if (!left) throw error;
  } finally {
    clearTimeout(late);
    if (!left) connection.close();
  }
}

async function readAtOnce(agent: ChaosAgent, count: number, path: string): Promise<void> {
  const answers = new Answers(READ);
  const endMs = performance.now() + READ_MS;
  await atOnce(count, () => readWhole(agent, { method: "GET", path }, answers, endMs));
}

async function makeWorkflow(agent: ChaosAgent): Promise<string> {
  const chain = [{ body: "function (job, cb) { cb(); }" }];
  return String(objectOf(await agent.ask("POST", "/workflows", { name: "quick", chain })).uuid);
}

async function makeJobs(agent: ChaosAgent, count: number): Promise<string[]> {
  const workflow = await makeWorkflow(agent);
  const uuids: string[] = [];
  const job = { workflow, exec_after: LATER, list: JSON.parse(PARAMS_TEXT) };
  for (let at = 0; at < count; at++) uuids.push(await makeLargeJob(agent, job));
  return uuids;
}

function largeWorkflow(name: string): JsonObject {
  const body = `function (job, cb) { cb(); } // ${"x".repeat(BODY_CHARS)}`;
  return { name, chain: Array(BODIES).fill({ body }) };
}

loadTest(`${READERS} callers list three large jobs`, async ({ agent }) => {
  await makeJobs(agent, 3);
  await readAtOnce(agent, READERS, "/jobs");
});

loadTest(`${CALLERS} callers read one large job`, async ({ agent }) => {
  const [uuid] = await makeJobs(agent, 1);
  await readAtOnce(agent, CALLERS, `/jobs/${uuid}`);
});

loadTest(`${CALLERS} callers post large jobs`, async ({ agent }) => {
  const workflow = await makeWorkflow(agent);
  const answers = new Answers(WRITTEN);
  const text = `{"workflow":"${workflow}","exec_after":"${LATER}","list":${PARAMS_TEXT}}`;
  const endMs = performance.now() + READ_MS;
  const body = JSON.parse(text);
  const refused = { ...body, exec_after: "never" };
  const refusals = new Answers([409, 503]);
  await atOnce(
    CALLERS,
    (at) =>
      at % 5 === 0
        ? readWhole(agent, { method: "POST", path: "/jobs", body: refused }, refusals, endMs)
        : readWhole(agent, { method: "POST", path: "/jobs", body }, answers, endMs),
  );
});

loadTest(`${CALLERS} callers post jobs of one large workflow`, async ({ agent }) => {
  const made = objectOf(await agent.ask("POST", "/workflows", largeWorkflow("large")));
  const answers = new Answers(WRITTEN);
  const endMs = performance.now() + READ_MS;
  const body = { workflow: made.uuid ?? null, exec_after: LATER };
  await atOnce(
    CALLERS,
    () => readWhole(agent, { method: "POST", path: "/jobs", body }, answers, endMs),
  );
});

loadTest(`${READERS} callers list ${WORKFLOWS} large workflows`, async ({ agent }) => {
  for (let at = 0; at < WORKFLOWS; at++) {
    const { status, body } = await agent.ask("POST", "/workflows", largeWorkflow(`large ${at}`));
    assertEquals(status, 201, JSON.stringify(body).slice(0, 300));
  }
  await readAtOnce(agent, READERS, "/workflows");
});

loadTest(`${CALLERS} callers post large workflows`, async ({ agent }) => {
  const answers = new Answers(WRITTEN);
  const endMs = performance.now() + READ_MS;
  await atOnce(CALLERS, (at) => {
    const body = largeWorkflow(`large ${at}`);
    return readWhole(agent, { method: "POST", path: "/workflows", body }, answers, endMs);
  });
});

loadTest(`${CANCELS} callers cancel ${JOBS} large jobs`, async ({ agent }) => {
  await makeJobs(agent, JOBS);
  const answers = new Answers([200, 503]);
  const endMs = performance.now() + READ_MS;
  const request = {
    method: "POST",
    path: "/agent/v1/jobs/cancel",
    body: { filter: { execution: "queued" } },
  };
  await atOnce(CANCELS, () => readWhole(agent, request, answers, endMs));
});

loadTest("100 callers read lists and take nothing", async ({ agent }) => {
  await makeJobs(agent, 3);
  const connections = await Promise.all(
    Array.from({ length: SLOW_READERS }, () => RawConnection.open(agent.url)),
  );
  try {
    await atOnce(SLOW_READERS, async (at) => {
      await connections[at]?.send([{ method: "GET", path: "/jobs" }]);
    });
    const endMs = performance.now() + OTHERS_MS_MAX;
    const answers = new Answers(READ);
    for (let turn = 0; turn < OTHERS; turn++) {
      await readWhole(agent, { method: "GET", path: "/jobs?limit=1" }, answers, endMs);
    }
    assertEquals(answers.of(200) + answers.of(503), OTHERS);
  } finally {
    for (const connection of connections) connection.close();
  }
});

loadTest(`${READERS} callers read ${INFO_ENTRIES} large entries of info`, async ({ agent }) => {
  const workflow = await makeWorkflow(agent);
  const posted = await agent.ask("POST", "/jobs", { workflow, exec_after: LATER });
  const path = `/jobs/${objectOf(posted).uuid}/info`;
  const body = { text: "x".repeat(INFO_CHARS) };
  const connection = await RawConnection.open(agent.url);
  for (let at = 0; at < INFO_ENTRIES; at++) {
    await connection.send([{ method: "POST", path, body }]);
    const { status, text } = await connection.answer();
    assertEquals(status, 200, text);
  }
  connection.close();
  await readAtOnce(agent, READERS, path);
});
