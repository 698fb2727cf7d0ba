// Two agents on one database: a machine of one is listed, shown, acted on and looked at through the other.

import { assert, assertEquals, assertFalse, assertMatch, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { consoleUrl, openConsole, shakeHands } from "../http/console_client.ts";
import { makeCertificate } from "../http/tls_files.ts";
import type { AgentProcess } from "../support/agent_process.ts";
import { startAtPort } from "../support/hosts.ts";
import { isoBytes } from "../support/medium.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const DATABASE = "peers";
const MACHINE: JsonObject = {
  brand: "kvm",
  alias: "web1",
  vcpus: 1,
  autoboot: false,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};

interface Pair {
  readonly server: PostgresServer;
  readonly folder: string;
  readonly one: AgentProcess;
  readonly other: AgentProcess;
  start(name: string, flags?: readonly string[]): Promise<AgentProcess>;
}

/** @param address flags that give the agent at a port its address */
async function withPair(
  run: (pair: Pair) => Promise<void>,
  address = (port: number, _folder: string): readonly string[] => [
    "--address",
    `http://127.0.0.1:${port}`,
  ],
): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    const started = new Set<AgentProcess>();
    try {
      await server.sql(`CREATE DATABASE ${DATABASE}`);
      await migrateSharedDatabase({ url: server.url(DATABASE), deadlineMs: 60_000 });
      const media = `${folder}/media`;
      await Deno.mkdir(media);
      await Deno.writeFile(`${media}/installer.iso`, isoBytes(64 * 1024));
      const ports = new Map<string, number>();
      const start = async (name: string, flags: readonly string[] = []) => {
        const agent = await startAtPort({
          stateDir: `${folder}/${name}`,
          port: ports.get(name),
          flags: (port) => [
            ...["--host", "simulated", "--store", server.url(DATABASE), "--lease", "5"],
            ...["--media-dir", media],
            ...address(port, folder),
            ...flags,
          ],
        });
        started.add(agent);
        ports.set(name, Number(new URL(agent.url).port));
        return agent;
      };
      await run({
        server,
        folder,
        start,
        one: await start("one"),
        other: await start("other"),
      });
    } finally {
      for (const agent of started) await agent.stop();
      await server.stop();
    }
  });
}

/** The uuid of the host of an agent. */
async function hostOf(agent: AgentProcess): Promise<string> {
  const line = await agent.said('"host registered"');
  return String((JSON.parse(line) as JsonObject).host);
}

/** Makes a machine at its own agent. @returns its uuid */
async function makeMachine(agent: AgentProcess): Promise<string> {
  const asked = { machine: MACHINE, media: { path: "installer.iso" } };
  const { status, body } = await agent.post("/agent/v1/machines", asked);
  assertEquals(status, 202, JSON.stringify(body));
  await agent.job(String(body.job_uuid), "success");
  return String(body.uuid);
}

/** The row of a machine in the list of an agent, in this state. */
function listed(agent: AgentProcess, uuid: string, state: string): Promise<JsonObject> {
  return until(`machine ${uuid} to be listed as ${state}`, async () => {
    const { body } = await agent.get("/agent/v1/machines");
    return (body.items as JsonObject[]).find((one) => one.uuid === uuid && one.state === state);
  });
}

async function remove(agent: AgentProcess, path: string): Promise<JsonObject> {
  const response = await fetch(agent.url + path, { method: "DELETE" });
  return await response.json();
}

postgresTest(
  "a machine of one host is listed, shown, stopped, started and deleted through another",
  () =>
    withPair(async ({ one, other }) => {
      const uuid = await makeMachine(other);
      const host_uuid = await hostOf(other);
      const row = await listed(one, uuid, "running");
      assertEquals([row.host_uuid, row.host, row.alias], [host_uuid, "simulated", "web1"]);
      assert(Number(row.age_seconds) >= 0 && Number(row.age_seconds) < 60);
      assertFalse(JSON.stringify(row).includes("password"));
      const path = `/agent/v1/machines/${uuid}`;
      const { body: shown } = await one.get(path);
      assertEquals([shown.uuid, shown.state, shown.host_uuid], [uuid, "running", host_uuid]);
      const here = (await other.get(`${path}/vnc`)).body;
      assertEquals((await one.get(`${path}/vnc`)).body, here);
      const stop = await one.post(`${path}/stop`, { force: true });
      assertEquals(stop.status, 202, JSON.stringify(stop.body));
      assertEquals(stop.headers.get("location"), `/jobs/${stop.body.job_uuid}`);
      await one.job(String(stop.body.job_uuid), "success");
      await listed(one, uuid, "stopped");
      const boot = await one.post(`${path}/boot`);
      await one.job(String(boot.body.job_uuid), "success");
      const refused = await one.post(`${path}/stop`, { force: "no" });
      assertEquals(refused.status, 409);
      assertStringIncludes(String(refused.body.message), "Cannot do this on host simulated: ");
      assertEquals((refused.body.errors as JsonObject[])[0]?.field, "force");
      const deleted = await remove(one, path);
      await one.job(String(deleted.job_uuid), "success");
      await until("the machine to be gone", async () =>
        (await one.get(path)).body.state !== "running");
      // Its own agent has recorded who called.
      const audited = other.log().split("\n").filter((line) =>
        line.includes('"call audited"')
      );
      assert(audited.some((line) => line.includes('"who":"host:simulated:loopback"')));
      assertFalse(one.log().includes("host:simulated"));
    }),
);

postgresTest(
  "the dry run of a machine of another host is that host's own",
  () =>
    withPair(async ({ one, other, start }) => {
      const server_uuid = await hostOf(other);
      await other.stop();
      await start("other", ["--ram-mib-max", "512"]);
      const check = (machine: JsonObject) =>
        one.post("/agent/v1/machines", {
          machine,
          media: { path: "installer.iso" },
          server_uuid,
          dry_run: true,
        });
      const possible = await until("its host to answer", async () => {
        const answer = await check(MACHINE);
        return answer.status === 200 ? answer.body : undefined;
      });
      assertEquals((possible.medium as JsonObject).name, "installer.iso");
      const refused = await check({ ...MACHINE, ram: 1024 });
      assertEquals(refused.status, 409);
      assertMatch(
        String(refused.body.message),
        /^Cannot do this on host simulated: .*from 1 to 512/,
      );
      assertEquals((refused.body.errors as JsonObject[])[0]?.field, "machine.ram");
      assertEquals((await one.get("/jobs")).headers.get("x-count"), "0");
    }),
);

postgresTest(
  "the list is filtered by host, and media of another host are listed and removed through any agent",
  () =>
    withPair(async ({ one, other }) => {
      const uuid = await makeMachine(other);
      await listed(one, uuid, "running");
      const [here, there] = [await hostOf(one), await hostOf(other)];
      const uuids = async (agent: AgentProcess, host: string) =>
        ((await agent.get(`/agent/v1/machines?host=${host}`)).body.items as JsonObject[])
          .map((row) => row.uuid);
      assertEquals([await uuids(one, here), await uuids(one, there)], [[], [uuid]]);
      assertEquals(await uuids(other, there), [uuid]);
      const unknown = await one.get("/agent/v1/machines?host=nowhere");
      assertEquals([unknown.status, unknown.body.error_code], [409, "no_host"]);
      // Both have this name.
      assertEquals((await one.get("/agent/v1/machines?host=simulated")).status, 409);
      const media = async (agent: AgentProcess, query: string) =>
        (await agent.get(`/agent/v1/media${query}`)).body.items as JsonObject[];
      const known = await media(other, "");
      assertEquals(known.length > 0, true);
      assertEquals(await media(one, `?host=${there}`), known);
      assertEquals(await media(one, `?host=${here}`), await media(one, ""));
      const library = await one.get(`/agent/v1/media/library?host=${there}&limit=1`);
      assertEquals((library.body.files as JsonObject[]).length, 1);
      assertEquals((await one.get(`/agent/v1/media?host=${there}&limit=1`)).status, 409);
    }),
);

postgresTest(
  "the console of a machine of one host is opened through another, also by a ticket of that agent",
  () =>
    withPair(async ({ one, other }) => {
      const uuid = await makeMachine(other);
      await listed(one, uuid, "running");
      const path = `/agent/v1/machines/${uuid}`;
      const { vnc } = (await one.get(`${path}/vnc`)).body as { vnc: JsonObject };
      const direct = await openConsole(consoleUrl(one.url, uuid));
      const screen = await shakeHands(direct, String(vnc.password));
      assert(screen.width > 0 && screen.height > 0);
      await direct.close();
      const { body: address } = await one.get(`${path}/console`);
      assertEquals(address.url, consoleUrl(one.url, uuid));
      const ticket = await one.post(`${path}/console-tickets`);
      assertEquals(ticket.status, 201, JSON.stringify(ticket.body));
      const ticketed = await openConsole(String(ticket.body.url));
      await shakeHands(ticketed, String(vnc.password));
      await ticketed.close();
      const again = await openConsole(String(ticket.body.url));
      assertEquals(again.socket.readyState, WebSocket.CLOSED);
      await other.said('"console closed"');
      const stop = await one.post(`${path}/stop`, { force: true });
      await one.job(String(stop.body.job_uuid), "success");
      const refused = await one.post(`${path}/console-tickets`);
      assertEquals(refused.status, 409, JSON.stringify(refused.body));
    }),
);

postgresTest(
  "errors about a machine of a host that is away name the host, and the list shows its age",
  () =>
    withPair(async ({ one, other, start }) => {
      const uuid = await makeMachine(other);
      const host = await hostOf(other);
      await listed(one, uuid, "running");
      await other.kill();
      const path = `/agent/v1/machines/${uuid}`;
      const refused = await one.get(path);
      assertEquals([refused.status, refused.body.error_code], [503, "host_away"]);
      assertStringIncludes(String(refused.body.message), `host simulated (${host})`);
      await until("the host to count as away", async () => {
        const { body } = await one.post(`${path}/stop`);
        assertEquals(body.error_code, "host_away");
        return String(body.message).includes("it was last heard from at");
      });
      const asked = { machine: MACHINE, media: { path: "installer.iso" }, server_uuid: host };
      const { status, body: ordered } = await one.post("/agent/v1/machines", asked);
      assertEquals([status, ordered.host_uuid, ordered.host_state], [202, host, "away"]);
      assertEquals((await one.post(`/jobs/${ordered.job_uuid}/cancel`)).status, 200);
      assertEquals((await one.post(`${path}/console-tickets`)).status, 503);
      await until(
        "the row to age",
        async () => Number((await listed(one, uuid, "running")).age_seconds) > 0,
      );
      const again = await start("other");
      await until("its host to answer", async () => (await one.get(path)).status === 200);
      assertEquals((await again.get(path)).status, 200);
    }),
);

postgresTest(
  "a host that takes nothing of others, or only reads, refuses by its name",
  () =>
    withPair(async ({ one, other, start }) => {
      const uuid = await makeMachine(other);
      await listed(one, uuid, "running");
      const path = `/agent/v1/machines/${uuid}`;
      await other.stop();
      const reading = await start("other", ["--peer-scope", "read"]);
      await until("its host to answer", async () => (await one.get(path)).status === 200);
      const refused = await one.post(`${path}/stop`, { force: true });
      assertEquals(refused.status, 403);
      assertMatch(String(refused.body.message), /^Cannot do this on host simulated: .*"read"/);
      assertEquals((await one.get(`${path}/vnc`)).status, 403);
      await reading.stop();
      await start("other", ["--peer-scope", "off"]);
      await until("its host to refuse", async () => (await one.get(path)).status === 403);
      const { body } = await one.get(path);
      assertMatch(String(body.message), /^Cannot do this on host simulated: .*peer_scope is off/);
    }),
);

postgresTest(
  "agents call each other over TLS, and only with a certificate of an authority that they trust",
  () =>
    withFolder(async (folder) => {
      const { certPath, keyPath } = await makeCertificate(folder, "peers");
      const secured = (port: number) => [
        ...["--address", `https://localhost:${port}`],
        ...["--tls-cert", certPath, "--tls-key", keyPath],
      ];
      const client = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(certPath)] });
      const ask = async (agent: AgentProcess, path: string, body?: JsonObject) => {
        const sent = body === undefined ? {} : {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        };
        const response = await fetch(agent.url + path, { ...sent, client });
        return { status: response.status, body: await response.json() as JsonObject };
      };
      try {
        await withPair(async ({ other, one, start }) => {
          const asked = { machine: MACHINE, media: { path: "installer.iso" } };
          const { body: made } = await ask(other, "/agent/v1/machines", asked);
          const path = `/agent/v1/machines/${made.uuid}`;
          const console = `${one.url.replace(/^http/, "ws")}${path}/console`;
          const refused = await until("its certificate to be refused", async () => {
            const { status, body } = await ask(one, path);
            return status === 503 ? String(body.message) : undefined;
          });
          assertMatch(refused, /Cannot reach host simulated .* at https:.*certificate/is);
          await one.stop();
          const trusting = await start("one", ["--peer-ca-file", certPath]);
          await until("the console to listen", async () => {
            const { body } = await ask(trusting, path);
            return body.console !== null && body.state === "running";
          });
          const viewer = await openConsole(console, { client, protocols: ["binary"] });
          assertEquals(new TextDecoder().decode(await viewer.read(12)), "RFB 003.008\n");
          await viewer.close();
        }, secured);
      } finally {
        client.close();
      }
    }),
);
