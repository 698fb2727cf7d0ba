// An agent with every slot taken by a body that will not end, of every kind at once: it goes on to
// answer, runs other jobs, and records each end once.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { type AgentProcess, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";

/** Bodies that run until they are ended. */
const ENDLESS: Readonly<Record<string, string>> = {
  loop: "() => { for (;;); }",
  microtasks: "async () => { for (;;) await null; }",
  expression: "() => /^(a+)+$/.test('a'.repeat(60) + 'b')",
  sort: "() => { const a = Array.from({ length: 2e6 }, (_, i) => i); for (;;) a.sort(() => -1); }",
  logs: "async () => { for (;;) { log.info('x'.repeat(8000)); await null; } }",
  calls: "async () => { for (;;) await info({ x: 'y'.repeat(1000) }).catch(() => {}); }",
};
/** Bodies that end by what they take. */
const GREEDY: Readonly<Record<string, string>> = {
  heap: "() => { const all = []; for (;;) all.push(new Array(1000).fill(1.5)); }",
  buffers: "() => { const all = []; for (;;) all.push(new Uint8Array(16e6).fill(1)); }",
};
/** Longer than the test runs. */
const TIMEOUT_SECONDS = 600;
/** Answers of GET /stats while they run. */
const ANSWERS = 20;

async function postJob(
  agent: AgentProcess,
  name: string,
  body: string,
  timeout = TIMEOUT_SECONDS,
): Promise<string> {
  const chain = [{ name, body, timeout }];
  const workflow = await agent.post("/workflows", { name, chain });
  assertEquals(workflow.status, 201, JSON.stringify(workflow.body));
  const job = await agent.post("/jobs", { workflow: String(workflow.body.uuid) });
  assertEquals(job.status, 201, JSON.stringify(job.body));
  return String(job.body.uuid);
}

/** What the only task of a job failed with. */
function errorOf(job: JsonObject): string {
  const [entry] = Array.isArray(job.chain_results) ? job.chain_results : [];
  return isJsonObject(entry) ? JSON.stringify(entry.error) : "no entry";
}

async function postAll(agent: AgentProcess, bodies: Readonly<Record<string, string>>) {
  const uuids = new Map<string, string>();
  for (const [kind, body] of Object.entries(bodies)) {
    uuids.set(kind, await postJob(agent, kind, body));
  }
  return uuids;
}

eachProgram("an agent answers and works while every kind of hostile body runs", async (program) => {
  await withFolder(async (folder) => {
    // One slot more than there are bodies.
    const slots = Object.keys({ ...ENDLESS, ...GREEDY }).length + 1;
    const flags = ["--dev", "--slots", `${slots}`];
    const agent = await startAgentProcess(program, `${folder}/state`, flags);
    try {
      const greedy = await postAll(agent, GREEDY);
      const endless = await postAll(agent, ENDLESS);
      for (const uuid of endless.values()) await agent.job(uuid, "running");
      for (let answer = 0; answer < ANSWERS; answer++) {
        assertEquals((await agent.get("/stats")).status, 200);
      }
      await agent.job(await postJob(agent, "normal", "(job, cb) => cb()"), "success");
      for (const [kind, uuid] of greedy) {
        const job = await agent.job(uuid, "failure");
        assertMatch(errorOf(job), /memory|allocation failed/, kind);
      }
      for (const [kind, uuid] of endless) {
        const { body } = await agent.get(`/jobs/${uuid}`);
        assertEquals(body.execution, "running", kind);
        assertEquals((await agent.post(`/jobs/${uuid}/cancel`)).status, 200, kind);
        assertEquals((await agent.get(`/jobs/${uuid}`)).body.execution, "canceled", kind);
      }
      await agent.job(await postJob(agent, "after", "(job, cb) => cb()"), "success");
    } finally {
      await agent.stop();
    }
  });
});

eachProgram("the end of a task's time ends each endless body as its error", async (program) => {
  await withFolder(async (folder) => {
    const agent = await startAgentProcess(program, `${folder}/state`, ["--dev", "--slots", "2"]);
    try {
      for (const [kind, body] of Object.entries(ENDLESS)) {
        const job = await agent.job(await postJob(agent, kind, body, 1), "failure");
        assertMatch(errorOf(job), /task timeout error/, kind);
      }
      const chain = [{ name: "loop", body: ENDLESS.loop ?? "", timeout: TIMEOUT_SECONDS }];
      const { body } = await agent.post("/workflows", { name: "short", timeout: 1, chain });
      const posted = await agent.post("/jobs", { workflow: String(body.uuid) });
      const whole = await agent.job(String(posted.body.uuid), "failure");
      assertMatch(errorOf(whole), /workflow timeout/);
      await agent.job(await postJob(agent, "after", "(job, cb) => cb()"), "success");
    } finally {
      await agent.stop();
    }
  });
});

eachProgram(
  "a cancel ends a loop, is recorded at once, and its slot is used at once",
  async (program) => {
    await withFolder(async (folder) => {
      const agent = await startAgentProcess(program, `${folder}/state`, ["--dev", "--slots", "1"]);
      try {
        const loop = await postJob(agent, "loop", "() => { for (;;); }");
        await agent.job(loop, "running");
        const next = await postJob(agent, "next", "(job, cb) => cb(null, Date.now())");
        assertEquals((await agent.get(`/jobs/${next}`)).body.execution, "queued");
        const canceled = await agent.post(`/jobs/${loop}/cancel`);
        assertEquals(canceled.status, 200);
        // Recorded with the answer; nothing that the killed guest could say comes after it.
        const { body } = await agent.get(`/jobs/${loop}`);
        assertEquals(body.execution, "canceled");
        const done = await agent.job(next, "success");
        assert(String(done.started_at) >= String(body.finished_at ?? ""), "overtook the cancel");
      } finally {
        await agent.stop();
      }
    });
  },
);
