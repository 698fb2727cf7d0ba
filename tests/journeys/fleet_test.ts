// Two agents on one database: each shows and cancels the jobs of the other, and runs its own alone. The server is a
// real one, which is stopped and started again.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { messageOf } from "../../src/domain/error.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { openPostgresStore } from "../../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { Store } from "../../src/store/store.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { OUTAGE, type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const DATABASE = "fleet";
const WAITS = {
  name: "waits",
  chain: [{ body: "(job, cb) => cb('wait')" }, { body: "(job, cb) => cb()" }],
};
const SLEEPS = { name: "sleeps", chain: [{ body: "(job, cb) => sleep(600000).then(() => cb())" }] };

interface Fleet {
  readonly server: PostgresServer;
  readonly one: AgentProcess;
  readonly other: AgentProcess;
  /** The database, as an agent of no host sees it. */
  readonly store: Store;
  /** Starts an agent of this name; its state is that of an earlier one of the name. */
  start(name: string): Promise<AgentProcess>;
}

async function withFleet(run: (fleet: Fleet) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const started = new Set<AgentProcess>();
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      const start = async (name: string) => {
        const flags = ["--host", "simulated", "--store", server.url(DATABASE), "--lease", "5"];
        const agent = await startAgentProcess(programOfRun(), `${folder}/${name}`, flags);
        started.add(agent);
        return agent;
      };
      const store = await openPostgresStore(await openSqliteStore(":memory:"), {
        ...OUTAGE,
        url: server.url(DATABASE),
        deadlineMs: 60_000,
        host: "none",
      });
      try {
        await run({ server, start, store, one: await start("one"), other: await start("other") });
      } finally {
        await store.close();
      }
    } finally {
      for (const agent of started) await agent.stop();
      await server.stop();
    }
  });
}

async function workflowOf(agent: AgentProcess, definition: JsonObject): Promise<string> {
  return String((await agent.post("/workflows", definition)).body.uuid);
}

/** What one agent says of a job. */
async function executionAt(agent: AgentProcess, job: string): Promise<unknown> {
  return (await agent.get(`/jobs/${job}`)).body.execution;
}

postgresTest(
  "a job of one agent is seen, waited for and resumed through another",
  () =>
    withFleet(async ({ one, other }) => {
      assertEquals((await other.get("/ping")).body.backend, "postgres");
      const workflow = await workflowOf(one, WAITS);
      const job = String((await one.post("/jobs", { workflow, params: { n: 1 } })).body.uuid);
      await until("the job to wait", async () => await executionAt(other, job) === "waiting");
      assertEquals((await other.post(`/jobs/${job}/resume`, { result: "yes" })).status, 200);
      const ended = async () => (await other.get(`/jobs/${job}/wait?timeout=60`)).body.execution;
      await until("the job to succeed", async () => await ended() === "success");
    }),
);

postgresTest(
  "a cancel through one agent ends the guest of another",
  () =>
    withFleet(async ({ one, other }) => {
      const workflow = await workflowOf(one, SLEEPS);
      const job = String((await one.post("/jobs", { workflow })).body.uuid);
      await until("the job to run", async () => await executionAt(other, job) === "running");
      assertEquals((await other.post(`/jobs/${job}/cancel`)).status, 200);
      // The host that runs it ends it, long before its runner would look by itself.
      await one.said(`"job finished","job_uuid":"${job}"`);
      assertEquals(await executionAt(one, job), "canceled");
    }),
);

postgresTest(
  "a job whose host was killed is run by that host alone, when it is back",
  () =>
    withFleet(async ({ one, other, start }) => {
      const workflow = await workflowOf(one, WAITS);
      const sleeps = await workflowOf(one, SLEEPS);
      const held = String((await one.post("/jobs", { workflow: sleeps })).body.uuid);
      await until("the job to run", async () => await executionAt(other, held) === "running");
      await one.kill();
      const later = String((await other.post("/jobs", { workflow, params: { n: 2 } })).body.uuid);
      await until(
        "the job of the other to wait",
        async () => await executionAt(other, later) === "waiting",
      );
      assertEquals(await executionAt(other, held), "running");
      const again = await start("one");
      await again.said('"jobs rescued"');
    }),
);

/** Any host may run it; its first attempt lasts until its host has been stopped, and less than that stays. */
const FREE = {
  name: "free",
  placement: "any",
  chain: [{
    body: `(job, cb) => sleep(job.attempt > 1 ? 0 : 4000).then(() => info({ done: true }))
      .then(() => cb(null, job.host_uuid))`,
  }],
};

postgresTest(
  "a job that names a host is run there, wherever it is sent; an unknown host is refused by name",
  () =>
    withFleet(async ({ one, other, store }) => {
      const [host] = (await store.hosts.list()).filter(({ uuid }) => other.log().includes(uuid));
      assert(host !== undefined);
      const workflow = await workflowOf(one, WAITS);
      const sent = await one.post("/jobs", { workflow, server_uuid: host.uuid });
      assertEquals([sent.status, sent.body.host_uuid], [201, host.uuid]);
      const job = String(sent.body.uuid);
      await until("the job to wait", async () => await executionAt(one, job) === "waiting");
      await other.said(job);
      const listed = await one.get(`/jobs?host=${host.uuid}`);
      assertEquals(listed.headers.get("x-count"), "1");
      const refused = await one.post("/jobs", { workflow, server_uuid: "nowhere" });
      assertEquals(refused.status, 409);
      assertStringIncludes(String(refused.body.message), '"nowhere"');
      await other.kill();
      const away = await until("the host to be away", async () => {
        const { body } = await one.post("/jobs", { workflow, server_uuid: host.uuid, n: 1 });
        return body.host_state === "away" ? body : undefined;
      });
      assertEquals(away.execution, "queued");
    }),
);

postgresTest(
  "a free job cannot call the host, and moves to another agent when its own is suspended",
  () =>
    withFleet(async ({ one, other }) => {
      const touching = {
        name: "touching",
        placement: "any",
        chain: [{
          body: "(job, cb) => vmadm.list().then(() => cb(), (error) => cb(error.message))",
        }],
      };
      const touched = await one.post("/jobs", { workflow: await workflowOf(one, touching) });
      const refused = await until("the job to end", async () => {
        const { body } = await other.get(`/jobs/${touched.body.uuid}/wait?timeout=60`);
        return body.execution === "failure" ? body : undefined;
      });
      assertStringIncludes(JSON.stringify(refused.chain_results), "Cannot call vmadm.list");

      const workflow = await workflowOf(one, FREE);
      const job = String((await one.post("/jobs", { workflow })).body.uuid);
      const runner = await until("the job to run", async () => {
        const { body } = await one.get(`/jobs/${job}`);
        return body.execution === "running" ? String(body.host_uuid) : undefined;
      });
      const [holder, next] = one.log().includes(runner) ? [one, other] : [other, one];
      holder.signal("SIGSTOP");
      const ended = await until("the other host to end it", async () => {
        const { body } = await next.get(`/jobs/${job}/wait?timeout=60`);
        return body.execution === "success" ? body : undefined;
      });
      holder.signal("SIGCONT");
      await holder.said("process was suspended");
      assertEquals(ended.host_uuid === runner, false);
      // What the first one did is not recorded: neither its result nor what it would have reported.
      assertEquals((await next.get(`/jobs/${job}/info`)).body, { items: [{ done: true }] });
      const { body } = await holder.get(`/jobs/${job}`);
      const results = body.chain_results as readonly JsonObject[];
      assertEquals(results.map(({ result }) => result), [ended.host_uuid]);
    }),
);

postgresTest(
  "a cordoned host claims nothing new, and a forgotten one acts on nothing until it is admitted",
  () =>
    withFleet(async ({ one, other, start, store }) => {
      const workflow = await workflowOf(one, WAITS);
      const [host] = (await store.hosts.list()).filter(({ uuid }) => one.log().includes(uuid));
      assert(host !== undefined);
      await store.hosts.cordon(host.uuid);
      await one.said("host cordoned");
      const job = String((await one.post("/jobs", { workflow })).body.uuid);
      await store.hosts.uncordon(host.uuid);
      await until("the job to wait", async () => await executionAt(other, job) === "waiting");
      await one.kill();
      await until("the host to be away", async () => {
        const outcome = await store.hosts.forget(host.uuid);
        return outcome.kind === "forgotten" ? outcome : undefined;
      });
      assertEquals(await executionAt(other, job), "failure");
      const again = await start("one");
      const unready = async () => (await again.get("/readyz")).body;
      await until(
        "the host to say so",
        async () => JSON.stringify(await unready()).includes("the host was forgotten"),
      );
      assertEquals((await again.get("/readyz")).status, 503);
      await store.hosts.uncordon(host.uuid);
      await again.said("host admitted");
      const next = String((await again.post("/jobs", { workflow })).body.uuid);
      await until("the job to wait", async () => await executionAt(other, next) === "waiting");
    }),
);

postgresTest(
  "a second agent with the uuid of a live host ends with a clear error",
  () =>
    withFleet(async ({ server, one, start, store }) => {
      const [host] = (await store.hosts.list()).filter(({ uuid }) => one.log().includes(uuid));
      assert(host !== undefined);
      await one.kill();
      // As if an agent of a copied folder had registered since.
      await server.sql("UPDATE hosts SET incarnation = 'another'", DATABASE);
      const refused = await start("one").then(() => "started", messageOf);
      assertStringIncludes(
        refused,
        `Cannot register host ${host.uuid}: an agent with this uuid already runs`,
      );
    }),
);

postgresTest(
  "while the database is away, changes are refused and nothing is lost",
  () =>
    withFleet(async ({ server, one }) => {
      const workflow = await workflowOf(one, WAITS);
      await server.pause();
      const refused = await one.post("/jobs", { workflow });
      assertEquals(refused.status, 503);
      assertStringIncludes(String(refused.body.message), "Cannot reach the database");
      await server.resume();
      const job = String(
        (await until("a job to be taken", async () => {
          const answer = await one.post("/jobs", { workflow });
          return answer.status === 201 ? answer : undefined;
        })).body.uuid,
      );
      await until("the job to wait", async () => await executionAt(one, job) === "waiting");
    }),
);
