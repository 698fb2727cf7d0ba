// The later life of a machine, from source and compiled: what the jobs of the actions do, that they may
// be repeated, and what is left when the agent dies in the middle of one.

import { assert, assertEquals, assertFalse, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { eachProgram } from "../support/each_program.ts";
import { assertNothingLeft } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { consoleUrl, openConsole, shakeHands } from "./console_client.ts";
import { ISO, type MachineAgent, withMachineAgent } from "./machine_process.ts";

const UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
const PATH = `/agent/v1/machines/${UUID}`;
const BHYVE = { brand: "bhyve", ram: 256, disks: [{ boot: true, model: "virtio", size: 1024 }] };

function resultOf(job: JsonObject): unknown {
  assertEquals(job.execution, "success", JSON.stringify(job.chain_results));
  return (job.chain_results as JsonObject[]).at(-1)?.result;
}

function errorOf(job: JsonObject): string {
  assertEquals(job.execution, "failure");
  return JSON.stringify((job.chain_results as JsonObject[]).at(-1)?.error);
}

async function isPlaced(agent: MachineAgent): Promise<boolean> {
  return await Deno.stat(join(agent.zoneRoot(UUID), ISO)).then(() => true, () => false);
}

eachProgram(
  "each action does its work once, and nothing when it is repeated",
  (program) =>
    withMachineAgent(program, async (agent) => {
      await agent.make(UUID);
      const act = async (action: string, body?: JsonObject) =>
        resultOf(await agent.act(UUID, action, body));
      const running = { uuid: UUID, state: "running" };
      const stopped = { uuid: UUID, state: "stopped" };
      assertEquals(await act("boot"), { ...running, changed: false });
      assertEquals(await act("stop"), { ...stopped, changed: true });
      assertEquals(await act("stop", { force: true }), { ...stopped, changed: false });
      assertEquals(await act("boot"), { ...running, changed: true });
      const { pid } = await agent.guest(UUID);
      assertEquals(await act("reboot", { force: true }), { ...running, changed: true });
      const guest = await agent.guest(UUID);
      // A medium that was given at a boot is not given again.
      assertEquals([pid === guest.pid && pid !== undefined, guest.order ?? null], [false, null]);
      assertEquals((await agent.post(`${PATH}/eject`)).status, 409);
      await act("stop", { force: true });
      const files = [`/${ISO}`];
      assertEquals(await act("eject"), { uuid: UUID, files, removed: files });
      assertFalse(await isPlaced(agent));
      assertEquals(await act("eject", { files }), { uuid: UUID, files, removed: [] });
      assertEquals((await agent.machine(UUID)).medium, null);
      assertEquals(await act("boot"), { ...running, changed: true });
      assertEquals(await act("delete"), { uuid: UUID, changed: true });
      assertEquals((await agent.remove(PATH)).status, 404);
      assertEquals((await agent.get(PATH)).status, 404);
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "a bhyve machine whose medium is ejected boots without it",
  (program) =>
    withMachineAgent(program, async (agent) => {
      await agent.make(UUID, { machine: BHYVE });
      const refused = await agent.post(`${PATH}/boot`, { cdrom: `/${ISO}` });
      assertEquals(refused.status, 409);
      resultOf(await agent.act(UUID, "stop", { force: true }));
      resultOf(await agent.act(UUID, "eject"));
      assertFalse(await isPlaced(agent));
      resultOf(await agent.act(UUID, "boot"));
      const { state, medium } = await agent.machine(UUID);
      assertEquals([state, medium], ["running", null]);
      resultOf(await agent.act(UUID, "delete"));
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "an agent killed in the middle of an action finishes it at its next start",
  (program) =>
    withMachineAgent(program, async (first) => {
      let agent = first;
      await agent.make(UUID);
      const steps: [action: string, body: JsonObject, state: string | null][] = [
        ["stop", {}, "stopped"],
        ["boot", {}, "running"],
        ["reboot", {}, "running"],
        ["stop", { force: true }, "stopped"],
        ["eject", {}, "stopped"],
        ["delete", {}, null],
      ];
      for (const [action, body, state] of steps) {
        await agent.simulate("fault", "slow", "100");
        const answer = action === "delete"
          ? await agent.remove(PATH)
          : await agent.post(`${PATH}/${action}`, body);
        assertEquals([action, answer.status], [action, 202]);
        const job = String(answer.body.job_uuid);
        const calls = agent;
        // A look may come so late that it has ended.
        await until(`${action} to run`, async () =>
          (await calls.get(`/jobs/${job}`)).body.execution !== "queued");
        agent = await agent.crash();
        await agent.simulate("fault", "--clear");
        resultOf(await agent.job(job, "success", "failure"));
        assertEquals((await agent.machine(UUID)).state ?? null, state);
      }
      assertFalse(await isPlaced(agent));
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "stop and delete wait for a machine that is already being stopped outside the agent",
  (program) =>
    withMachineAgent(program, async (agent) => {
      await agent.make(UUID);
      for (const action of ["stop", "delete"]) {
        await agent.simulate("fault", "acpi_ignored", "1");
        const stops = agent.simulate("vmadm", "stop", UUID, "-t", "6");
        await until("state stopping", async () => (await agent.machine(UUID)).state === "stopping");
        resultOf(await agent.act(UUID, action));
        await stops;
        if (action === "stop") resultOf(await agent.act(UUID, "boot"));
      }
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "a refusal of the host fails the job with its cause and leaves the machine unchanged",
  (program) =>
    withMachineAgent(program, async (agent) => {
      await agent.make(UUID);
      await agent.simulate("fault", "vmadmd_down");
      assertStringIncludes(errorOf(await agent.act(UUID, "stop")), "ECONNREFUSED");
      await agent.simulate("fault", "--clear");
      assertEquals((await agent.machine(UUID)).state, "running");
      resultOf(await agent.act(UUID, "stop", { force: true }));
      await agent.simulate("fault", "start_dies", "1");
      const died = errorOf(await agent.act(UUID, "boot"));
      assertStringIncludes(died, "it ended at once with exit status 1: its state is ");
      assertStringIncludes(died, "root/tmp/vm.log ends with: ");
      await agent.simulate("fault", "start_failure");
      assertStringIncludes(errorOf(await agent.act(UUID, "boot")), "vmadm boot");
      await agent.simulate("fault", "--clear");
      const missing = await agent.act(UUID, "boot", { cdrom: "/none.iso" });
      assertStringIncludes(errorOf(missing), "Cannot find disk: /none.iso");
      assertEquals((await agent.machine(UUID)).state, "stopped");
      await agent.simulate("fault", "killed", "delete", "1");
      resultOf(await agent.act(UUID, "delete"));
      await assertNothingLeft(agent);
    }),
);

eachProgram(
  "the password of a console is shown on request and kept nowhere else",
  (program) =>
    withMachineAgent(program, async (agent) => {
      const { uuid: job } = await agent.make(UUID);
      const { vnc } = (await agent.get(`${PATH}/vnc`)).body;
      const password = String((vnc as JsonObject).password);
      assertEquals(password.length, 8);
      const client = await openConsole(consoleUrl(agent.url, UUID));
      assertEquals((await shakeHands(client, password)).width, 640);
      await client.close();
      resultOf(await agent.act(UUID, "stop", { force: true }));
      const paths = [
        ...["/jobs", `/jobs/${job}`, `/jobs/${job}/info`, "/workflows", "/stats"],
        ...["/agent/v1/machines", PATH],
      ];
      for (const path of paths) {
        const text = await (await fetch(agent.url + path)).text();
        assertEquals([path, text.includes(password)], [path, false]);
      }
      assertFalse(agent.log().includes(password));
      const files = Array.from(Deno.readDirSync(agent.stateDir)).filter(({ isFile }) => isFile);
      assert(files.length > 0);
      for (const { name } of files) {
        const bytes = await Deno.readFile(join(agent.stateDir, name));
        assertEquals([name, new TextDecoder("latin1").decode(bytes).includes(password)], [
          name,
          false,
        ]);
      }
      resultOf(await agent.act(UUID, "delete"));

      await agent.make(UUID, { machine: { brand: "kvm", ram: 256, vnc_password: false } });
      const open = (await agent.get(`${PATH}/vnc`)).body.vnc as JsonObject;
      assertFalse("password" in open);
      const unlocked = await openConsole(consoleUrl(agent.url, UUID));
      await shakeHands(unlocked);
      await unlocked.close();
      const chosen = { machine: { brand: "kvm", ram: 256, vnc_password: "mine1234" } };
      const refused = await agent.post("/agent/v1/machines", { ...chosen, media: { path: ISO } });
      assertEquals([refused.status, (refused.body.errors as JsonObject[])[0]?.field], [
        409,
        "machine.vnc_password",
      ]);
      assertFalse(agent.log().includes("mine1234"));
    }),
);

/** Descriptors of the agent that come and go with its calls. */
const SLACK = 8;

eachProgram(
  "consoles that were opened and closed leave the agent no descriptor",
  (program) =>
    withMachineAgent(program, async (agent) => {
      await agent.make(UUID, { machine: { brand: "kvm", ram: 256, vnc_password: false } });
      const pid = /"agent started".*"pid":(\d+)/.exec(agent.log())?.[1];
      const descriptors = () => [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
      const cycle = async () => {
        const client = await openConsole(consoleUrl(agent.url, UUID));
        await shakeHands(client);
        await client.close();
      };
      await cycle();
      const before = descriptors();
      for (let times = 0; times < 10; times += 1) await Promise.all([1, 2, 3, 4].map(cycle));
      const closed = () => agent.log().split('"console closed"').length - 1;
      await until("every console to end", () => closed() === 41);
      await until("the descriptors to be closed", () => descriptors() <= before + SLACK);
    }),
);
