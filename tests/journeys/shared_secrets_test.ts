// The secrets of a console, looked for in a dump of the database that agents share: its readers see jobs and
// machines, and cannot take over a console.

import { assert, assertEquals, assertFalse } from "@std/assert";
import { isJsonObject } from "../../src/domain/json.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { DESCRIPTION, ISO } from "../http/machine_process.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { isoBytes } from "../support/medium.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { withFolder } from "../support/until.ts";

const MACHINE = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
/** Is found wherever the machine is, which shows that the dump can be read. */
const ALIAS = "nightingale-canary";
/** A body that keeps all that it sees of the machine. */
const CURIOUS = `async function (job, cb) {
  const found = { machine: await vmadm.get("${MACHINE}"), vnc: await vmadm.info("${MACHINE}", "vnc") };
  log.info(JSON.stringify(found), found);
  await info(found);
  job.params.found = found;
  cb("saw " + JSON.stringify(found));
}`;

interface Scene {
  readonly server: PostgresServer;
  readonly agent: AgentProcess;
  /** Makes the machine. */
  make(): Promise<void>;
}

async function withScene(run: (scene: Scene) => Promise<void>): Promise<void> {
  await withFolder(async (temporary) => {
    const folder = await Deno.realPath(temporary);
    const media = `${folder}/media`;
    await Deno.mkdir(media);
    await Deno.writeFile(`${media}/${ISO}`, isoBytes(300 * 1024));
    const server = await startPostgres(folder);
    try {
      await server.sql("CREATE ROLE runs LOGIN");
      await server.sql("CREATE DATABASE fleet");
      const owner = { url: server.url("fleet"), deadlineMs: 60_000 };
      await migrateSharedDatabase(owner, { agent: "runs" });
      const agent = await startAgentProcess(programOfRun(), `${folder}/agent`, [
        ...["--host", "simulated", "--media-dir", media, "--log-level", "debug"],
        ...["--store", server.url("fleet", "runs")],
      ]);
      const make = async () => {
        const machine = { ...DESCRIPTION, alias: ALIAS };
        const body = { uuid: MACHINE, machine, media: { path: ISO } };
        const made = await agent.post("/agent/v1/machines", body);
        await agent.job(String(made.body.job_uuid), "success");
      };
      try {
        await run({ server, agent, make });
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    } finally {
      await server.stop();
    }
  });
}

postgresTest(
  "a dump of the shared database has no password and no ticket of a console",
  () =>
    withScene(async ({ server, agent, make }) => {
      await make();
      const path = `/agent/v1/machines/${MACHINE}`;
      const { vnc } = (await agent.get(`${path}/vnc`)).body;
      const password = String(isJsonObject(vnc) ? vnc.password : "");
      assertEquals(password.length, 8);
      const ticket = String((await agent.post(`${path}/console-tickets`)).body.ticket);
      assertEquals(ticket.length, 47);
      const curious = { name: "curious", chain: [{ body: CURIOUS }] };
      const workflow = String((await agent.post("/workflows", curious)).body.uuid);
      const job = String((await agent.post("/jobs", { workflow })).body.uuid);
      await agent.job(job, "failure");
      const dump = await server.run("pg_dump", "--inserts", "fleet");
      assert(dump.includes(ALIAS));
      for (const secret of [password, ticket, ticket.slice(8, 24)]) {
        assertFalse(dump.includes(secret), "a secret is in the database");
      }
    }),
);

postgresTest(
  "a machine is made by the built-in workflow of the agent that takes the request",
  () =>
    withScene(async ({ server, make }) => {
      // What an agent of another version might write as it starts.
      const task = `{"uuid":"${MACHINE}","body":"(job, cb) => cb(new Error(1))"}`;
      const later = `jsonb_set(body::jsonb, '{chain}', '[${task}]')::text`;
      await server.sql(`UPDATE workflows SET body = ${later} WHERE builtin`, "fleet");
      await make();
    }),
);
