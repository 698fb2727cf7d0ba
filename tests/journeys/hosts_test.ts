// The hosts of one database as an operator handles them through any agent: listed, cordoned, drained with a running
// job, killed and forgotten, and admitted again.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import {
  type AgentProcess,
  programOfRun,
  runProgram,
  startAgentProcess,
} from "../support/agent_process.ts";
import { postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const DATABASE = "fleet";
const SLEEPS = { name: "sleeps", chain: [{ body: "(job, cb) => sleep(600000).then(() => cb())" }] };
/** Seconds. */
const LEASE = "5";

interface Hosts {
  readonly one: AgentProcess;
  readonly other: AgentProcess;
  /** Starts the agent of a host, in the state folder that it had. */
  start(name: string): Promise<AgentProcess>;
}

async function withHosts(run: (hosts: Hosts) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const started = new Set<AgentProcess>();
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      const start = async (name: string) => {
        const host = ["--host", `simulated:${name}`, "--lease", LEASE];
        const flags = [...host, "--store", server.url(DATABASE)];
        const agent = await startAgentProcess(programOfRun(), `${folder}/${name}`, flags);
        started.add(agent);
        return agent;
      };
      await run({ one: await start("gz01"), other: await start("gz02"), start });
    } finally {
      for (const agent of started) {
        const answers = await agent.get("/healthz").then(() => true, () => false);
        await (answers ? agent.stop() : agent.kill());
      }
      await server.stop();
    }
  });
}

/** A command that asks an agent. */
const cli = ({ url }: AgentProcess, ...words: string[]) =>
  runProgram(programOfRun(), [...words, "--url", url]);

/** A host as an agent shows it. */
async function hostAt(agent: AgentProcess, name: string): Promise<JsonObject> {
  const { body } = await agent.get("/agent/v1/hosts");
  const hosts = Array.isArray(body.items) ? body.items : [];
  return hosts.filter(isJsonObject).find((host) => host.name === name) ?? {};
}

/** Makes a job with a target, and waits until it is where it should be. */
async function newJob(agent: AgentProcess, target: string, execution: string): Promise<string> {
  const workflow = String((await agent.post("/workflows", SLEEPS)).body.uuid);
  const { body } = await agent.post("/jobs", { workflow, target });
  await agent.job(String(body.uuid), execution);
  return String(body.uuid);
}

postgresTest(
  "a host is drained through another agent, with its running job",
  () =>
    withHosts(async ({ one, other }) => {
      for (const agent of [one, other]) {
        const { stdout } = await cli(agent, "host", "list");
        for (const name of ["gz01", "gz02"]) assertStringIncludes(stdout, name);
      }
      const job = await newJob(one, "/a", "running");
      const late = await cli(other, "host", "drain", "gz01", "--timeout", "1s");
      assertEquals([late.code, late.stdout], [124, ""]);
      assertStringIncludes(late.stderr, "gz01: 1 job runs");
      assertEquals((await one.get(`/jobs/${job}`)).body.execution, "running");
      const next = await newJob(one, "/b", "queued");
      const drained = cli(other, "host", "drain", "gz01");
      await other.post(`/jobs/${job}/cancel`);
      const { code, stdout } = await drained;
      assertEquals([code, stdout], [0, "gz01 drained\n"]);
      const { state, running, queued } = await hostAt(other, "gz01");
      assertEquals([state, running, queued], ["cordoned", 0, 1]);
      assertEquals((await cli(other, "host", "uncordon", "gz01")).stdout, "gz01 connected\n");
      await other.job(next, "running");
      await other.post(`/jobs/${next}/cancel`);
    }),
);

postgresTest(
  "a host that was killed is forgotten, and acts on nothing until it is admitted",
  () =>
    withHosts(async ({ one, other, start }) => {
      const job = await newJob(one, "/a", "running");
      const early = await cli(other, "host", "forget", "gz01", "--yes");
      assertEquals(early.code, 6);
      await one.kill();
      await until(
        "the host to be away",
        async () => (await hostAt(other, "gz01")).state === "away",
      );
      const uuid = String((await hostAt(other, "gz01")).uuid);
      const forgotten = await cli(other, "host", "forget", "gz01", "--yes");
      assertEquals([forgotten.code, forgotten.stdout], [0, "gz01 forgotten, 1 job failed\n"]);
      const { body } = await other.get(`/jobs/${job}`);
      assertEquals(body.execution, "failure");
      assertStringIncludes(JSON.stringify(body.chain_results), "host_lost");
      const same = await newJob(other, "/a", "running");
      await other.post(`/jobs/${same}/cancel`);
      const again = await start("gz01");
      const unready = async () => JSON.stringify((await again.get("/readyz")).body);
      await until("the host to say so", async () => (await unready()).includes("was forgotten"));
      const workflow = String(body.workflow_uuid);
      const refused = await again.post("/jobs", { workflow, target: "/b" });
      assertEquals(refused.status, 409);
      assertStringIncludes(String(refused.body.message), `"${uuid}" was forgotten`);
      assertEquals((await hostAt(other, "gz01")).state, "forgotten");
      assertEquals((await cli(other, "host", "uncordon", uuid)).stdout, "gz01 connected\n");
      const next = await newJob(again, "/b", "running");
      await other.post(`/jobs/${next}/cancel`);
    }),
);
