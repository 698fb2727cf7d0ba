// An agent that manages a host behind ssh: from a request to a console over a real sshd, with the
// simulator at its far end; and what becomes of the way when the agent or the host goes.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { makeKey, type SshServer, sshTest, withSshServer } from "../host/ssh_server.ts";
import { RfbClient } from "../host/simulator/rfb_client.ts";
import { writeVmadm } from "../host/test_host.ts";
import {
  type AgentProcess,
  programOfRun,
  selfOfRun,
  startAgentProcess,
} from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { isoBytes } from "../support/medium.ts";

const MACHINE: JsonObject = {
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 1024,
  resolvers: ["192.0.2.53"],
  disks: [{ boot: true, model: "virtio", size: 10240 }],
  nics: [{ nic_tag: "external", model: "virtio", ip: "dhcp", primary: 1 }],
};

interface Scene {
  readonly folder: string;
  readonly server: SshServer;
  readonly zones: string;
  start(): Promise<AgentProcess>;
  /** Runs a command of the far simulator. */
  simulate(...words: string[]): Promise<number>;
}

function sceneTest(name: string, run: (scene: Scene) => Promise<void>): void {
  sshTest(name, () =>
    withFolder(async (temporary) => {
      const folder = await Deno.realPath(temporary);
      const stateDir = `${folder}/far`;
      const vmadm = await writeVmadm(folder, stateDir);
      await Deno.mkdir(`${folder}/media`);
      await Deno.writeFile(`${folder}/media/install.iso`, isoBytes(2_000_000));
      const self = selfOfRun();
      const simulate = async (...words: string[]) => {
        const args = [...self.args, "simulate", "--state", stateDir, ...words];
        const { code } = await new Deno.Command(self.program, { args, env: { ...self.env } })
          .output();
        return code;
      };
      try {
        await withSshServer(folder, (server) => {
          const { destination, identityFile, knownHostsFile } = server.host;
          const flags = [
            ...["--host", `ssh://${destination}:${server.port}`, "--vmadm", vmadm],
            ...["--ssh-identity", identityFile ?? "", "--ssh-known-hosts", knownHostsFile ?? ""],
            ...["--zones", `${stateDir}/zones`, "--media-dir", `${folder}/media`],
          ];
          const start = () => startAgentProcess(programOfRun(), `${folder}/state`, flags);
          return run({ folder, server, zones: `${stateDir}/zones`, start, simulate });
        });
      } finally {
        await simulate("stop-all");
      }
    }));
}

function request(): JsonObject {
  return { machine: MACHINE, media: { path: "install.iso" } };
}

/** Asks for a machine and waits until it stands. @returns its uuid */
async function makeMachine(agent: AgentProcess): Promise<string> {
  const posted = await agent.post("/agent/v1/machines", request());
  assertEquals(posted.status, 202, JSON.stringify(posted.body));
  const job = await agent.job(String(posted.body.job_uuid), "success", "failure");
  assertEquals(job.execution, "success", JSON.stringify(job));
  return String(posted.body.uuid);
}

sceneTest("a request becomes a machine with a console on a host behind ssh", async (scene) => {
  const { zones, start, simulate, server } = scene;
  const agent = await start();
  try {
    const uuid = await makeMachine(agent);
    const machine = (await agent.get(`/agent/v1/machines/${uuid}`)).body;
    assertEquals([machine.state, machine.brand], ["running", "kvm"]);
    const { vnc } = (await agent.get(`/agent/v1/machines/${uuid}/vnc`)).body as { vnc: JsonObject };
    using client = await RfbClient.connect(Number(vnc.port));
    const picture = await client.handshake("3.8", String(vnc.password));
    assert(picture.width > 0);
    assertEquals((await Deno.lstat(`${zones}/${uuid}/root/install.iso`)).size, 2_000_000);
    assertEquals(await server.connections(), 1);
    assertEquals(await simulate("audit"), 0);
  } finally {
    assertEquals(await agent.stop(), 0);
  }
  await until("the end of the connection", async () => await server.connections() === 0);
});

sceneTest(
  "a machine that meets a wrong host key fails with that reason, and not later",
  async (scene) => {
    const { folder, server, start, simulate } = scene;
    const known = server.host.knownHostsFile ?? "";
    const right = await Deno.readTextFile(known);
    await makeKey(`${folder}/other`);
    const [type, key] = (await Deno.readTextFile(`${folder}/other.pub`)).split(" ");
    await Deno.writeTextFile(known, `[127.0.0.1]:${server.port} ${type} ${key}\n`);
    const agent = await start();
    try {
      await until("the warning", () => agent.log().includes("host unreachable"));
      const posted = await agent.post("/agent/v1/machines", request());
      const job = await agent.job(String(posted.body.job_uuid), "success", "failure");
      assertEquals(job.execution, "failure");
      assertStringIncludes(
        JSON.stringify(job.chain_results),
        "its host key differs from the one in",
      );
      await Deno.writeTextFile(known, right);
      await makeMachine(agent);
      assertEquals(await simulate("audit"), 0);
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  },
);

sceneTest(
  "a killed agent leaves no connection, and the next one makes its machine",
  async (scene) => {
    const { server, start, simulate } = scene;
    const first = await start();
    const posted = await first.post("/agent/v1/machines", request());
    await until("the connection", async () => await server.connections() > 0);
    await first.kill();
    await until("the end of the connection", async () => await server.connections() === 0);
    const second = await start();
    try {
      const job = await second.job(String(posted.body.job_uuid), "success", "failure");
      const { state } = (await second.get(`/agent/v1/machines/${posted.body.uuid}`)).body;
      assertEquals([job.execution, state], ["success", "running"], JSON.stringify(job));
      assertEquals(await simulate("audit"), 0);
    } finally {
      assertEquals(await second.stop(), 0);
    }
  },
);

sceneTest(
  "a machine whose connection breaks again and again ends as running or as gone",
  async (scene) => {
    const { server, start, simulate } = scene;
    const agent = await start();
    try {
      const posted = await agent.post("/agent/v1/machines", request());
      const job_uuid = String(posted.body.job_uuid);
      for (const tasks of [1, 2, 3]) {
        await until(`${tasks} tasks, or the end`, async () => {
          const { execution, chain_results } = (await agent.get(`/jobs/${job_uuid}`)).body;
          return execution === "failure" || (chain_results as JsonObject[]).length >= tasks;
        });
        await server.dropConnections();
      }
      const job = await agent.job(job_uuid, "success", "failure");
      const machine = await agent.get(`/agent/v1/machines/${posted.body.uuid}`);
      const there = job.execution === "success" ? "running" : undefined;
      assertEquals(machine.body.state ?? undefined, there, JSON.stringify(job));
      assertEquals(await simulate("audit"), 0);
      await makeMachine(agent);
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  },
);
