// A host that is cut off from its database goes on: its jobs by their chains, its machines, its index and its media. What
// happened is in the database once, in its order, when that is back; a cancel of another host wins.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { withCutAgent } from "../support/cut_agent.ts";
import { cli } from "../support/hosts.ts";
import { isoBytes } from "../support/medium.ts";
import { postgresTest } from "../support/postgres.ts";
import { until } from "../support/until.ts";

/** Notes that its task has run. */
const NOTED = `(job, cb) => {
  job.ran = (job.ran ?? "") + job.chain_results.length;
  info({ ran: job.ran });
  cb();
}`;
const SLOW = "(job, cb) => sleep(600000).then(() => cb())";

async function workflowOf(
  agent: AgentProcess,
  bodies: readonly string[],
  more: JsonObject = {},
): Promise<string> {
  const chain = bodies.map((body, at) => ({ name: `task ${at}`, body }));
  const name = crypto.randomUUID();
  return String((await agent.post("/workflows", { name, chain, ...more })).body.uuid);
}

async function posted(agent: AgentProcess, workflow: string): Promise<string> {
  return String((await agent.post("/jobs", { workflow })).body.uuid);
}

const namesOf = (job: JsonObject, chain = "chain_results") =>
  (job[chain] as JsonObject[]).map(({ name }) => name);

async function jobAt(agent: AgentProcess, job: string): Promise<JsonObject> {
  return (await agent.get(`/jobs/${job}`)).body;
}

const ranTo = (agent: AgentProcess, job: string, count: number) =>
  until(`${count} results`, async () => {
    const answer = await agent.get(`/jobs/${job}`);
    return answer.status === 200 && namesOf(answer.body).length >= count ? answer : undefined;
  });

postgresTest(
  "a job goes on by its chain while the database is away, is shown from memory, and is whole afterwards",
  () =>
    withCutAgent(async ({ relay, start, startOther, gate, open }) => {
      const [agent, other] = [await start(), await startOther()];
      const workflow = await workflowOf(agent, [NOTED, gate("a"), NOTED, gate("b"), NOTED]);
      const job = await posted(agent, workflow);
      await ranTo(other, job, 1);
      assertStringIncludes((await cli(agent, "status")).stdout, "1 running");
      relay.cut();
      for (const name of ["a", "b"]) await open(name);
      const stale = await until("the chain to go on", async () => {
        const answer = await agent.get(`/jobs/${job}`);
        return answer.headers.get("x-stale") === "database" &&
            namesOf(answer.body).length === 5
          ? answer
          : undefined;
      });
      assertEquals(stale.body.execution, "success");
      assert(Number(stale.headers.get("age")) >= 0);
      assertEquals((await jobAt(other, job)).execution, "running");
      await assertHostGoesOn(agent, workflow);
      await assertShows(agent, job);
      relay.mend();
      const whole = await other.job(job, "success");
      assertEquals(namesOf(whole), ["task 0", "task 1", "task 2", "task 3", "task 4"]);
      assertEquals(whole.ran, "024");
      const info = (await other.get(`/jobs/${job}/info`)).body.items as JsonObject[];
      assertEquals(info.flatMap(({ ran }) => ran ?? []), ["0", "02", "024"]);
      assert(await posted(agent, workflow) !== "undefined");
    }),
);

/** What a person sees of an agent without its database. */
async function assertShows(agent: AgentProcess, job: string): Promise<void> {
  const host = await agent.get("/agent/v1/host");
  assertEquals([host.status, host.headers.get("x-stale")], [200, "database"]);
  assert(Number(host.headers.get("age")) >= 0);
  const status = await cli(agent, "status");
  assertEquals(status.code, 0, status.stderr);
  assertMatch(
    status.stdout,
    /the database does not answer: jobs and leftovers are those of \d+ s ago/,
  );
  assertMatch(status.stdout, /jobs +0 queued, 1 running/);
  const shown = await cli(agent, "job", "get", job);
  assertEquals(shown.code, 0, shown.stderr);
  assertMatch(shown.stderr, /The database is away: this is the job of .+ ago/);
  assertMatch(shown.stdout, /task 4 +done +\S+ s +\*\*\*/);
  const unknown = await cli(agent, "job", "get", crypto.randomUUID());
  assertEquals(unknown.code, 1);
  assertStringIncludes(unknown.stderr, "Cannot reach the database");
}

/** What a host does without its database, and what it refuses. */
async function assertHostGoesOn(agent: AgentProcess, workflow: string): Promise<void> {
  const refused = await agent.post("/jobs", { workflow });
  assertEquals([refused.status, refused.headers.get("retry-after")], [503, "1"]);
  assertStringIncludes(String(refused.body.message), "Cannot reach the database");
  const unknown = "00000000-0000-4000-8000-000000000007";
  assertEquals((await agent.get(`/jobs/${unknown}`)).status, 503);
  assertEquals((await agent.get("/jobs")).status, 503);
  assertEquals((await agent.get(`/jobs/${unknown}/wait?timeout=1`)).status, 503);
  const machines = await agent.get("/agent/v1/machines");
  assertEquals([machines.status, machines.headers.get("x-stale")], [200, "database"]);
  const metrics = await fetch(`${agent.url}/metrics`);
  const text = await metrics.text();
  assertStringIncludes(text, "zonewright_store_reachable 0");
  assert(!text.includes("zonewright_jobs{"), text);
  assertEquals((await agent.get("/agent/v1/media")).status, 200);
}

postgresTest(
  "an agent that is killed while the database is away repeats the interrupted task alone",
  () =>
    withCutAgent(async ({ relay, start, startOther, gate, open }) => {
      const [agent, other] = [await start(), await startOther()];
      const slowOnce = "(job, cb) => job.attempt > 1 ? cb() : sleep(600000).then(() => cb())";
      const workflow = await workflowOf(agent, [gate("a"), NOTED, slowOnce, NOTED]);
      const job = await posted(agent, workflow);
      await until("the job to run", async () => (await jobAt(other, job)).execution === "running");
      relay.cut();
      await open("a");
      await until("two results in the journal", async () => {
        const { status, body } = await agent.get(`/jobs/${job}`);
        return status === 200 && namesOf(body).length === 2;
      });
      await agent.kill();
      // It starts without the database, serves what needs none, and claims nothing.
      const again = await start();
      assertEquals((await again.get("/agent/v1/media")).status, 200);
      assertEquals((await again.get(`/jobs/${job}`)).status, 503);
      relay.mend();
      const whole = await other.job(job, "success");
      assertEquals(namesOf(whole), ["task 0", "task 1", "task 2", "task 3"]);
      assertEquals(whole.ran, "13");
      const { attempts } = (await other.get(`/agent/v1/jobs/${job}`)).body;
      const failed = (attempts as JsonObject[]).map(({ index, error }) => [index, error]);
      assertEquals(failed, [[2, "interrupted"]]);
    }),
);

postgresTest(
  "a job that was canceled while its host was cut off is undone when that is back",
  () =>
    withCutAgent(async ({ relay, start, startOther, gate, open }) => {
      const [agent, other] = [await start(), await startOther()];
      const oncancel = [{ name: "undo", body: NOTED }];
      const workflow = await workflowOf(agent, [gate("a"), NOTED, SLOW], { oncancel });
      const job = await posted(agent, workflow);
      await until("the job to run", async () => (await jobAt(other, job)).execution === "running");
      relay.cut();
      await open("a");
      await until("two results in the journal", async () => {
        const { status, body } = await agent.get(`/jobs/${job}`);
        return status === 200 && namesOf(body).length === 2;
      });
      assertEquals((await other.post(`/jobs/${job}/cancel`)).status, 200);
      relay.mend();
      const undone = await until("the undo to have run", async () => {
        const body = await jobAt(other, job);
        return namesOf(body, "oncancel_results").length === 1 ? body : undefined;
      });
      assertEquals([undone.execution, undone.chain_results], ["canceled", []]);
    }),
);

postgresTest(
  "a server that is stopped for a while, killed and started again repeats no task",
  () =>
    withCutAgent(async ({ server, start, gate, open }) => {
      const agent = await start();
      const bodies = ["a", "b", "c"].flatMap((name) => [NOTED, gate(name)]);
      const workflow = await workflowOf(agent, bodies);
      const jobs = [await posted(agent, workflow), await posted(agent, workflow)];
      const results = (count: number) => Promise.all(jobs.map((job) => ranTo(agent, job, count)));
      await results(1);
      await server.pause();
      await open("a");
      const stale = await results(3);
      assertEquals(stale.map(({ headers }) => headers.get("x-stale")), ["database", "database"]);
      await server.resume();
      await until("the database to be heard", async () => {
        return (await agent.get(`/jobs/${jobs[0]}`)).headers.get("x-stale") === null;
      });
      await server.kill();
      await open("b");
      await results(5);
      await server.restart();
      await open("c");
      for (const job of jobs) {
        const whole = await agent.job(job, "success");
        assertEquals([namesOf(whole).length, whole.ran], [6, "024"]);
      }
    }),
);

postgresTest(
  "a machine is made to its end while the database is away, and belongs to its job afterwards",
  () =>
    withCutAgent(async ({ relay, media, start, startOther }) => {
      const [agent, other] = [await start(), await startOther()];
      const path = `${media}/installer.iso`;
      await Deno.writeFile(path, isoBytes(64 * 2048));
      const machine = {
        brand: "kvm",
        ram: 512,
        disks: [{ boot: true, model: "virtio", size: 1024 }],
        nics: [{ nic_tag: "external", model: "virtio", ip: "dhcp", primary: true }],
      };
      const posted = await agent.post("/agent/v1/machines", { machine, media: { path } });
      assertEquals(posted.status, 202, JSON.stringify(posted.body));
      const { job_uuid: job, uuid } = posted.body;
      // Each call of vmadm takes longer: the job is at one of its first.
      await agent.simulate("fault", "slow", "500");
      await until("the job to run", async () => {
        return (await jobAt(other, String(job))).execution === "running";
      });
      relay.cut();
      await agent.simulate("fault", "--clear", "slow");
      await until("the job to end", async () => {
        const { headers, body } = await agent.get(`/jobs/${job}`);
        return headers.get("x-stale") === "database" && body.execution === "success";
      });
      assertEquals((await jobAt(other, String(job))).execution, "running");
      const shown = await agent.get(`/agent/v1/machines/${uuid}`);
      assertEquals([shown.headers.get("x-stale"), shown.body.state], ["database", "running"]);
      relay.mend();
      await other.job(String(job), "success");
      const known = await agent.get(`/agent/v1/machines/${uuid}`);
      assertEquals([known.headers.get("x-stale"), known.body.job_uuid], [null, job]);
      assertEquals((await agent.get("/agent/v1/leftovers")).body.items, []);
    }),
);
