// Two hosts and their database in three network namespaces. One host is cut off, in one direction or both, without a
// word to either side: it goes on with what is bound to it, its free jobs run on the other host after its lease, and
// each task has one recorded result.

import { assert, assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { makeCertificate } from "../http/tls_files.ts";
import {
  type AgentProcess,
  type Program,
  programOfRun,
  startAgentProcess,
} from "../support/agent_process.ts";
import { gateOf } from "../support/cut_agent.ts";
import {
  type Cut,
  HOST_ADDRESSES,
  type HostNamespace,
  namespaceTest,
  SERVER_ADDRESS,
  withNamespaces,
} from "../support/namespaces.ts";
import { postgresFolder, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { length } from "./agent_under_chaos.ts";
import { CHAIN, FleetBook, type FleetHost, hostOf } from "./fleet_book.ts";
import { randomOf } from "./random.ts";

const DATABASE = "fleet";
/** Who runs the server. */
const NOBODY = 65_534;
const PORT = 5432;
const LEASE_SECONDS = 5;
const POSTERS = 2;
/** What is cut in turn. */
const CUTS = length<readonly Cut[]>({
  quick: ["sent", "received"],
  full: ["sent", "received", "both", "received", "sent", "both", "sent", "received", "both"],
});
/** A first attempt lasts until its guest is ended. */
const FREE = {
  name: "free",
  placement: "any",
  chain: [{
    name: "only",
    body: `async (job, cb) => {
      if (job.attempt === 1) await sleep(600000);
      await info({ attempt: job.attempt });
      cb(null, job.attempt);
    }`,
  }],
};

interface CutFleet {
  readonly server: PostgresServer;
  readonly hosts: readonly [FleetHost, FleetHost];
  readonly cables: readonly HostNamespace[];
  /** A folder of media of all hosts. */
  readonly media: string;
}

async function withCutFleet(run: (fleet: CutFleet) => Promise<void>): Promise<void> {
  await withNamespaces(2, (namespaces) =>
    withFolder(async (folder) => {
      const names = { names: `IP:${SERVER_ADDRESS}` };
      const { certPath, keyPath } = await makeCertificate(folder, "server", names);
      for (const path of [certPath, keyPath]) await Deno.chown(path, NOBODY, NOBODY);
      await Deno.chmod(folder, 0o711);
      const tls = ["ssl=on", `ssl_cert_file=${certPath}`, `ssl_key_file=${keyPath}`];
      const admits = `hostssl all all ${HOST_ADDRESSES} trust`;
      const address = { hostname: SERVER_ADDRESS, port: PORT, admits };
      const server = await startPostgres(folder, ["fsync=off", ...tls], address, {
        around: namespaces.server,
      });
      const media = `${folder}/media`;
      await Deno.mkdir(media);
      const hosts: FleetHost[] = [];
      try {
        await server.sql(`CREATE DATABASE ${DATABASE}`);
        await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
        const store = `postgres://owner@${SERVER_ADDRESS}:${PORT}/${DATABASE}`;
        for (const [at, { around }] of namespaces.hosts.entries()) {
          const agent = await startAgentProcess(
            inside(around),
            `${folder}/${at}`,
            [
              ...["--host", "simulated", "--store", store, "--store-ca-file", certPath],
              ...["--lease", `${LEASE_SECONDS}`, "--store-deadline", "1"],
              ...["--media-dir", media],
            ],
            {},
            { socket: `${folder}/${at}.sock` },
          );
          hosts.push({ uuid: "", agent, kills: 0, logged: "" });
          hosts[at] = { uuid: await hostOf(agent), agent, kills: 0, logged: "" };
        }
        const [one, other] = hosts;
        assert(one !== undefined && other !== undefined);
        await run({ server, hosts: [one, other], cables: namespaces.hosts, media });
      } finally {
        for (const cable of namespaces.hosts) await cable.mend();
        for (const { agent } of hosts) await agent.stop();
        await server.stop();
      }
    }));
}

/** The program of this run in a namespace. */
function inside(around: readonly string[]): Program {
  const { name, program, args, env } = programOfRun();
  const [first = "", ...more] = around;
  return { name, program: first, args: [...more, program, ...args], env };
}

/** Posts until that is taken: on a busy machine a host may not reach its database within a second. @returns the uuid */
async function post(agent: AgentProcess, path: string, body: () => JsonObject): Promise<string> {
  const headers = { "content-type": "application/json", "idempotency-key": crypto.randomUUID() };
  return await until(`an answer to ${path}`, async () => {
    const init = { method: "POST", headers, body: JSON.stringify(body()) };
    const response = await agent.fetch(path, init);
    const text = await response.text();
    if (response.status === 503) return undefined;
    assert(response.ok, text);
    return String(JSON.parse(text).uuid);
  });
}

/** Cuts one host off with jobs of both kinds on it, and looks what becomes of them. */
async function cutOff({ server, hosts, cables, media }: CutFleet, what: Cut): Promise<void> {
  const at = what === "received" ? 1 : 0;
  const [host, other] = at === 0 ? hosts : [hosts[1], hosts[0]];
  const cable = cables[at];
  assert(cable !== undefined);
  const executionOf = (job: string) =>
    server.sql(`SELECT execution FROM jobs WHERE uuid = '${job}'`, DATABASE);
  const posted = async (agent: AgentProcess, definition: JsonObject, more: JsonObject = {}) => {
    const named = () => ({ ...definition, name: crypto.randomUUID() });
    const workflow = await post(agent, "/workflows", named);
    return await post(agent, "/jobs", () => ({ workflow, ...more }));
  };
  const running = async (job: string) => {
    await until("the job to run", async () => await executionOf(job) === "running");
    return job;
  };
  const gate = `${media}/${crypto.randomUUID()}`;
  const task = { body: "(job, cb) => { info({ ran: job.chain_results.length }); cb(); }" };
  const chain = { chain: [task, { body: gateOf(gate) }, task] };
  // The other one claims nothing meanwhile.
  await post(other.agent, `/agent/v1/hosts/${other.uuid}/cordon`, () => ({}));
  const free = await running(await posted(host.agent, FREE));
  await post(other.agent, `/agent/v1/hosts/${other.uuid}/uncordon`, () => ({}));
  const bound = await running(await posted(host.agent, chain));
  await cable.cut(what);
  await Deno.writeTextFile(gate, "open");
  await host.agent.said(`"job finished","job_uuid":"${bound}"`);
  assertEquals(await executionOf(bound), "running");
  const sent = await posted(other.agent, chain, { server_uuid: host.uuid });
  await other.agent.said(`"job finished","job_uuid":"${free}"`);
  assertEquals(await executionOf(bound), "running");
  await cable.mend();
  for (const job of [bound, sent]) {
    const { chain_results, host_uuid } = await other.agent.job(job, "success");
    assertEquals(host_uuid, host.uuid);
    const attempts = (chain_results as JsonObject[]).map((result) => result.attempts);
    assertEquals(attempts, [1, 1, 1]);
    const noted = (await other.agent.get(`/jobs/${job}/info`)).body.items as JsonObject[];
    assertEquals(noted.flatMap(({ ran }) => ran ?? []), [0, 2]);
    assert(!other.agent.log().includes(`"job finished","job_uuid":"${job}"`));
  }
  const taken = await other.agent.job(free, "success");
  assertEquals(taken.host_uuid, other.uuid);
  assertEquals((taken.chain_results as JsonObject[]).map(({ result }) => result), [2]);
  assertEquals((await other.agent.get(`/jobs/${free}/info`)).body.items, [{ attempt: 2 }]);
}

const SEED = Number(Deno.env.get("ZONEWRIGHT_CHAOS_SEED") ?? Date.now() % 1_000_000);

namespaceTest(
  `a host that is cut off in one direction continues without the other agent, and its free jobs go on elsewhere (seed ${SEED})`,
  postgresFolder() === undefined,
  () =>
    withCutFleet(async (fleet) => {
      const { server, hosts } = fleet;
      const workflow = String((await hosts[0].agent.post("/workflows", CHAIN)).body.uuid);
      const book = new FleetBook(randomOf(SEED), () => hosts);
      const end = book.postAll(workflow, POSTERS);
      try {
        for (const what of CUTS) await cutOff(fleet, what);
      } finally {
        await end();
      }
      await book.check(hosts, (text) => server.sql(text, DATABASE));
    }),
);
