// From a description and a medium to a connected VNC client, on the simulated host; and what is
// left when something goes wrong on the way: nothing.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { RfbClient } from "../host/simulator/rfb_client.ts";
import {
  type AgentProcess,
  assertNothingLeft,
  type Program,
  programOfRun,
  startAgentProcess,
} from "../support/agent_process.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until, withFolder } from "../support/until.ts";
import { eachProgram } from "../support/each_program.ts";
import { isoBytes, markIso } from "../support/medium.ts";

/** The description of document 3. */
const MACHINE: JsonObject = {
  brand: "kvm",
  vcpus: 1,
  autoboot: false,
  ram: 1024,
  resolvers: ["192.0.2.53"],
  disks: [{ boot: true, model: "virtio", size: 10240 }],
  nics: [{
    nic_tag: "external",
    model: "virtio",
    ip: "192.0.2.10",
    netmask: "255.255.255.0",
    gateway: "192.0.2.1",
    primary: 1,
  }],
};
const SAMPLE: JsonObject = {
  artifact: { distro: "zonewright-sample", release: "latest", format: "iso" },
};
const MACHINE_UUID = "0b1a6e1c-3f52-4a57-9d6b-5a0c6f1d2e3f";

/** Runs a test with a development agent whose sample index is synced. */
async function withAgent(
  program: Program,
  run: (agent: AgentProcess, folder: string) => Promise<void>,
  flags: readonly string[] = [],
): Promise<void> {
  await withFolder(async (folder) => {
    const media = join(folder, "media");
    await Deno.mkdir(media);
    const dev = ["--dev", "--media-dir", media, ...flags];
    const agent = await startAgentProcess(program, join(folder, "state"), dev);
    try {
      await until("the index", async () => (await agent.get("/v1/index.json")).status === 200);
      await run(agent, folder);
    } finally {
      assertEquals(await agent.stop(), 0);
    }
  });
}

/** Asks for a machine that must fail. @returns the error of the task that failed */
async function failedMachine(
  agent: AgentProcess,
  media: JsonObject,
  machine: JsonObject = MACHINE,
): Promise<{ task: string; error: string }> {
  const posted = await agent.post("/agent/v1/machines", { machine, media });
  assertEquals(posted.status, 202, JSON.stringify(posted.body));
  const job = await agent.job(String(posted.body.job_uuid), "failure");
  const failed = (job.chain_results as JsonObject[]).at(-1);
  assertEquals((job.onerror_results as JsonObject[]).map(({ error }) => error), [""]);
  assertEquals((await agent.get(`/agent/v1/machines/${posted.body.uuid}`)).body.vnc, null);
  await assertNothingLeft(agent);
  assertEquals((await agent.get("/stats")).status, 200);
  return { task: String(failed?.name), error: JSON.stringify(failed?.error) };
}

/** Connects to the console at this address as a caller does who read the password. */
async function assertConsole(agent: AgentProcess, uuid: unknown, address: unknown): Promise<void> {
  const { vnc } = (await agent.get(`/agent/v1/machines/${uuid}/vnc`)).body as { vnc: JsonObject };
  const { password, ...reported } = vnc;
  assertEquals(reported, address);
  assertEquals(reported.host, "127.0.0.1");
  using client = await RfbClient.connect(Number(reported.port));
  const picture = await client.handshake("3.8", String(password));
  assert(picture.width > 0 && picture.height > 0);
  assertStringIncludes(picture.name, String(uuid));
}

eachProgram(
  "a machine goes from its description and the mirrored index to a connected console",
  (program) =>
    withAgent(program, async (agent) => {
      const request = { machine: MACHINE, media: SAMPLE, uuid: MACHINE_UUID };
      const posted = await agent.post("/agent/v1/machines", request);
      assertEquals([posted.status, posted.body.uuid], [202, MACHINE_UUID]);
      const job_uuid = String(posted.body.job_uuid);
      assertEquals(posted.headers.get("location"), `/jobs/${job_uuid}`);
      const again = await agent.post("/agent/v1/machines", request);
      assertEquals([again.status, again.body.job_uuid], [202, job_uuid]);
      await agent.job(job_uuid, "success");
      const machine = (await agent.get(`/agent/v1/machines/${MACHINE_UUID}`)).body;
      assertEquals([machine.state, machine.brand, machine.job_uuid], ["running", "kvm", job_uuid]);
      await assertConsole(agent, MACHINE_UUID, machine.vnc);
      const repeated = await agent.post("/agent/v1/machines", request);
      assertEquals([repeated.status, repeated.body.job_uuid], [202, job_uuid]);
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "a plain POST /jobs with the built-in workflow makes a bhyve machine from a local ISO",
  (program) =>
    withAgent(program, async (agent, folder) => {
      await Deno.writeFile(join(folder, "media/local.iso"), isoBytes(3_000_000));
      const workflows = (await agent.get("/workflows?name=provision-machine")).body.items;
      const [workflow] = workflows as JsonObject[];
      const machine = { ...MACHINE, brand: "bhyve" };
      const posted = await agent.post("/jobs", {
        workflow: workflow?.uuid ?? "",
        machine,
        media: { path: "local.iso" },
        boot: "cd",
      });
      const job = await agent.job(String(posted.body.uuid), "success");
      await assertConsole(agent, job.uuid, job.vnc);
    }),
);

eachProgram(
  "an ISO of over 100 MB arrives whole in the zone",
  (program) =>
    withAgent(program, async (agent, folder) => {
      const path = join(folder, "media/large.iso");
      const file = await Deno.open(path, { write: true, createNew: true });
      const piece = new Uint8Array(1 << 20);
      for (let megabyte = 0; megabyte < 128; megabyte++) {
        piece.fill(megabyte);
        if (megabyte === 0) markIso(piece);
        await new Blob([piece]).stream().pipeTo(file.writable, { preventClose: true });
      }
      file.close();
      const posted = await agent.post("/agent/v1/machines", { machine: MACHINE, media: { path } });
      const job = await agent.job(String(posted.body.job_uuid), "success");
      const placed = join(
        agent.stateDir,
        `simulator/zones/${posted.body.uuid}/root`,
        String(job.medium_file),
      );
      const { size, mode } = await Deno.lstat(placed);
      assertEquals([size, (mode ?? 0) & 0o777], [128 << 20, 0o444]);
      const { items } = (await agent.get(`/jobs/${job.uuid}/info`)).body;
      const copied = (items as JsonObject[]).filter((entry) => entry.progress !== undefined);
      assert(copied.length > 0, "no progress was reported");
    }),
);

/** Fails unless a machine that boots from this is refused at once, with these words. */
async function assertRefused(
  agent: AgentProcess,
  media: JsonObject,
  status: number,
  words: string,
): Promise<void> {
  const posted = await agent.post("/agent/v1/machines", { machine: MACHINE, media });
  assertEquals(posted.status, status, JSON.stringify(posted.body));
  assertStringIncludes(String(posted.body.message), words);
}

eachProgram(
  "a medium that cannot be used is refused with the cause, and leaves nothing",
  (program) =>
    withAgent(program, async (agent, folder) => {
      const unknown = {
        artifact: { distro: "zonewright-sample", release: "latest", variant: "none" },
      };
      await assertRefused(agent, unknown, 404, "none");
      await assertRefused(agent, { path: "missing.iso" }, 404, "missing.iso");
      await Deno.writeFile(
        join(folder, "media/cloud.img"),
        Uint8Array.from("QFI\xfb and more", (character) => character.charCodeAt(0)),
      );
      await assertRefused(agent, { path: "cloud.img" }, 409, "it is a qcow2 file");
      assertEquals((await agent.get("/jobs")).body.items, []);
      await Deno.writeFile(join(folder, "media/other.iso"), isoBytes(40_960));
      const digest = `sha256:${"0".repeat(64)}`;
      const wrong = await failedMachine(agent, { path: "other.iso", digest });
      assertEquals(wrong.task, "fetch_medium");
      assertMatch(wrong.error, /sha256|digest/i);
      const refused = await failedMachine(agent, SAMPLE, {
        ...MACHINE,
        nics: [{ nic_tag: "nowhere", model: "virtio", ip: "dhcp", primary: true }],
      });
      assertStringIncludes(refused.error, "nowhere");
    }),
);

eachProgram(
  "faults of the host end with an error that names the cause, and leave nothing",
  (program) =>
    withAgent(program, async (agent) => {
      const faulty = async (name: string, ...words: string[]) => {
        await agent.simulate("fault", name, ...words);
        const failed = await failedMachine(agent, SAMPLE);
        await agent.simulate("fault", "--clear");
        return failed;
      };
      const full = await faulty("out_of_space");
      assertEquals(full.task, "create_machine");
      assertStringIncludes(full.error, "out of space");
      assertEquals((await faulty("validate_refuses")).task, "preflight");
      assertEquals((await faulty("start_failure")).task, "boot_machine");
      const nothing = await faulty("create_without_machine");
      assertEquals(nothing.task, "create_machine");
    }),
);

smallDiskTest(
  "a medium that does not fit into the zones ends with an error that says so",
  () =>
    withAgent(programOfRun(), async (agent) => {
      const zones = join(agent.stateDir, "simulator/zones");
      await Deno.mkdir(zones, { recursive: true });
      await withSmallDisk(zones, 4, async () => {
        const { task, error } = await failedMachine(agent, SAMPLE);
        assertEquals(task, "place_medium");
        assertStringIncludes(error, " are free there");
      });
    }),
);

eachProgram(
  "a machine that never shows its console is taken down again",
  (program) =>
    withAgent(program, async (agent) => {
      await agent.simulate("fault", "vnc_silent");
      const workflows = (await agent.get("/workflows?name=provision-machine")).body.items;
      const posted = await agent.post("/jobs", {
        workflow: (workflows as JsonObject[])[0]?.uuid ?? "",
        machine: MACHINE,
        media: SAMPLE,
        boot: "cd",
        vnc_timeout: 2,
      });
      const job = await agent.job(String(posted.body.uuid), "failure");
      const failed = (job.chain_results as JsonObject[]).at(-1);
      assertEquals(failed?.name, "wait_for_vnc");
      assertMatch(JSON.stringify(failed?.error), /VNC/);
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "a simulated host in a state folder behind a link boots an ISO",
  (program) =>
    withFolder(async (folder) => {
      const media = join(folder, "media");
      await Deno.mkdir(media);
      await Deno.writeFile(join(media, "install.iso"), isoBytes(100_000));
      await Deno.mkdir(join(folder, "real"));
      await Deno.symlink("real", join(folder, "link"));
      const dev = ["--dev", "--media-dir", media];
      const agent = await startAgentProcess(program, join(folder, "link", "state"), dev);
      try {
        const body = { machine: MACHINE, media: { path: "install.iso" } };
        const posted = await agent.post("/agent/v1/machines", body);
        assertEquals(posted.status, 202, JSON.stringify(posted.body));
        await agent.job(String(posted.body.job_uuid), "success");
      } finally {
        assertEquals(await agent.stop(), 0);
      }
    }),
);

eachProgram("a canceled request leaves nothing", (program) =>
  withAgent(program, async (agent) => {
    await agent.simulate("fault", "slow", "400");
    // Its request does not end before the cancel, however late that comes.
    await agent.simulate("fault", "vnc_silent");
    const posted = await agent.post("/agent/v1/machines", { machine: MACHINE, media: SAMPLE });
    const path = `/jobs/${posted.body.job_uuid}`;
    const made = `/agent/v1/machines/${posted.body.uuid}`;
    await until("the machine to be in the making", async () => {
      return (await agent.get(made)).body.state !== "absent";
    });
    assertEquals((await agent.post(`${path}/cancel`)).body.execution, "canceled");
    await until("the undoing", async () => {
      const job = (await agent.get(path)).body;
      return Array.isArray(job.oncancel_results) && job.oncancel_results.length === 1;
    });
    assertEquals((await agent.get(path)).body.execution, "canceled");
    await assertNothingLeft(agent);
  }));

eachProgram(
  "an agent killed in the middle finishes the machine at its next start",
  (program) =>
    withFolder(async (folder) => {
      for (const step of [1, 2, 3, 4]) {
        const state = join(folder, `state-${step}`);
        const first = await startAgentProcess(program, state, ["--dev"]);
        let job_uuid = "";
        try {
          await until("the index", async () => (await first.get("/v1/index.json")).status === 200);
          await first.simulate("fault", "slow", "50");
          const posted = await first.post("/agent/v1/machines", {
            machine: MACHINE,
            media: SAMPLE,
          });
          job_uuid = String(posted.body.job_uuid);
          await until(`${step} steps`, async () => {
            const { chain_results } = (await first.get(`/jobs/${job_uuid}`)).body;
            return (chain_results as JsonObject[]).length >= step;
          });
        } finally {
          await first.kill();
        }
        const second = await startAgentProcess(program, state, ["--dev"]);
        try {
          const job = await second.job(job_uuid, "success");
          await assertConsole(second, job.machine_uuid, job.vnc);
          await assertNothingLeft(second);
        } finally {
          assertEquals(await second.stop(), 0);
        }
      }
    }),
);
