// Looking at machines: what vmadm and the job that stands for each tell.

import { assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import { machine as description, media } from "../domain/machine_request.ts";
import {
  assertRefused,
  type HttpAgent,
  listOf,
  MACHINE_DEPS,
  newWorkflow,
  NO_MACHINES,
  NO_UUID,
  objectOf,
} from "./http_agent.ts";
import {
  DEADLINE_MS,
  end,
  MACHINE,
  REQUEST,
  start,
  withHost,
  withMachines,
} from "./machine_agent.ts";

/** Machines as a real vmadm has printed them. */
const VMADM_RECORDS = new URL("../fixtures/vmadm/created.jsonl", import.meta.url);

Deno.test("GET of a machine that neither the host nor any job knows answers 404", async () => {
  await withMachines(async (agent) => {
    assertEquals((await agent.call("GET", "/agent/v1/machines")).body, []);
    for (const id of [NO_UUID, "x", "%2e%2e"]) {
      assertRefused(await agent.call("GET", `/agent/v1/machines/${id}`), 404, "ResourceNotFound");
    }
  });
});

Deno.test("the machines that vmadm named last are shown to who asks for them, with their age", async () => {
  const asked: string[] = [];
  let broken = false;
  const vmadm = {
    ...NO_MACHINES,
    list: () => {
      asked.push("list");
      if (broken) return Promise.reject(new AgentError("unreachable", "Cannot list the machines"));
      return Promise.resolve([{ uuid: MACHINE, alias: `asked ${asked.length}`, state: "running" }]);
    },
  };
  await withMachines(async (agent) => {
    const look = async (query: string) => {
      const answer = await agent.call("GET", `/agent/v1/machines${query}`);
      const names = answer.status === 200 ? listOf(answer).map(({ alias }) => alias) : [];
      return [answer.status, names[0], answer.headers.has("age")];
    };
    assertEquals(await look("?max_age=60"), [200, "asked 1", false]);
    assertEquals(await look("?max_age=60"), [200, "asked 1", true]);
    assertEquals(await look(""), [200, "asked 2", false]);
    assertEquals(await look("?max_age=0"), [200, "asked 3", false]);
    broken = true;
    assertEquals(await look(""), [503, undefined, false]);
    assertEquals(await look("?max_age=60&state=running"), [200, "asked 3", true]);
    assertEquals(await look("?max_age=60&state=stopped"), [200, undefined, true]);
    for (const bad of ["-1", "1.5", "86401", "soon"]) {
      assertEquals((await look(`?max_age=${bad}`))[0], 409, bad);
    }
  }, { machines: { ...MACHINE_DEPS, vmadm } });
});

Deno.test("a machine that only a job knows is shown with the state absent", async () => {
  await withMachines(async (agent) => {
    const { job_uuid } = await start(agent, { ...REQUEST, uuid: MACHINE });
    const shown = {
      uuid: MACHINE,
      ...{ host: null, host_uuid: null, age_seconds: null },
      alias: null,
      brand: "kvm",
      state: "absent",
      zone_state: null,
      ram: 1024,
      vcpus: 1,
      created_at: null,
      owner_uuid: null,
      disks: [{ path: null, media: null, model: "virtio", size: 40_960, boot: true }],
      nics: [{
        ...{ interface: null, mac: null, nic_tag: "admin", vlan_id: null, model: "virtio" },
        ...{ gateway: "192.0.2.2", primary: true, ips: ["192.0.2.69"] },
      }],
      media,
      medium: null,
      job_uuid,
      job_execution: "queued",
    };
    const answer = await agent.call("GET", `/agent/v1/machines/${MACHINE}`);
    assertEquals(answer.body, { ...shown, vnc: null, console: null });
    assertEquals((await agent.call("GET", "/agent/v1/machines")).body, [shown]);
    await agent.call("POST", `/jobs/${job_uuid}/cancel`, {});
    assertEquals((await agent.call("GET", "/agent/v1/machines")).body, []);
  });
});

Deno.test("disks and nics of a machine that only a job knows are those of its request", async () => {
  await withMachines(async (agent) => {
    const disks = [{ boot: true, model: "virtio", size: "10240" }, { model: "virtio", size: 20 }];
    const nic = { nic_tag: "admin", model: "virtio" };
    const nics = [
      { ...nic, ip: "192.0.2.69", netmask: "255.255.255.0", gateway: "192.0.2.1", primary: 1 },
      { ...nic, ips: ["dhcp", "addrconf"] },
    ];
    await start(agent, { ...REQUEST, machine: { ...description, disks, nics }, uuid: MACHINE });
    const [shown] = listOf(await agent.call("GET", "/agent/v1/machines"));
    const disk = { path: null, media: null, model: "virtio" };
    assertEquals(shown?.disks, [
      { ...disk, size: 10_240, boot: true },
      { ...disk, size: 20, boot: null },
    ]);
    const unknown = { interface: null, mac: null, vlan_id: null };
    assertEquals(shown?.nics, [
      {
        ...unknown,
        ...nic,
        gateway: "192.0.2.1",
        primary: true,
        ips: ["192.0.2.69"],
      },
      { ...unknown, ...nic, gateway: null, primary: null, ips: ["dhcp", "addrconf"] },
    ]);
  });
});

Deno.test("machines as a real vmadm shows them are listed with their disks and addresses by one call", async () => {
  const recorded = (await Deno.readTextFile(VMADM_RECORDS)).trim().split("\n")
    .map((line): JsonObject => JSON.parse(line).get);
  const calls: unknown[] = [];
  const list = (options: unknown) => {
    calls.push(options);
    return Promise.resolve(
      Array.from({ length: 500 }, (_, at) => recorded[at % recorded.length] ?? {}),
    );
  };
  const never = () => Promise.reject(new Error("a list asks for no single machine"));
  const vmadm = { ...NO_MACHINES, list, get: never, infoVnc: never };
  await withMachines(async (agent) => {
    const answer = await agent.call("GET", "/agent/v1/machines");
    assertEquals(answer.headers.get("x-count"), String(recorded.length));
    const shown = listOf(answer).find(({ uuid }) => uuid === recorded.find(isOfTwoNics)?.uuid);
    assertEquals(shown?.created_at, "2026-11-22T09:41:52.821Z");
    assertEquals(shown?.owner_uuid, "00000000-0000-0000-0000-000000000000");
    assertEquals(shown?.disks, [{
      path: `/dev/zvol/rdsk/zones/${shown?.uuid}-disk0`,
      media: "disk",
      model: "virtio",
      size: 100,
      boot: true,
    }]);
    const nics = shown?.nics as JsonObject[];
    assertEquals(nics.map(({ mac, ips, primary, vlan_id }) => [mac, ips, primary, vlan_id]), [
      ["e2:14:1a:7b:f3:4", ["addrconf", "10.7.0.9/24", "2001:db8::9/64"], true, 4095],
      ["2:8:20:aa:bb:cc", [], null, 0],
    ]);
    assertEquals(calls, [{ detailed: true }]);
    for (const listed of listOf(answer)) assertEquals("vnc_password" in listed, false);
  }, { machines: { ...MACHINE_DEPS, vmadm } });
});

/** That of the records whose nic has a router and three addresses. */
function isOfTwoNics({ nics }: JsonObject): boolean {
  return Array.isArray(nics) && nics.some((nic) => (nic as JsonObject).network_uuid !== undefined);
}

Deno.test("machines of the host are shown with their state, console and newest job", async () => {
  await withHost(async (agent, vmadm) => {
    const { job_uuid } = await start(agent, { ...REQUEST, uuid: MACHINE });
    const extra = { alias: "web1", autoboot: false, vnc_password: "pass1234" };
    await vmadm.create({ ...description, ...extra, uuid: MACHINE });
    const path = `/agent/v1/machines/${MACHINE}`;
    const stopped = objectOf(await agent.call("GET", path));
    assertEquals([stopped.state, stopped.alias, stopped.vnc], ["stopped", "web1", null]);

    await vmadm.boot(MACHINE, {});
    const vnc = await waitForVnc(vmadm, MACHINE, { deadlineMs: DEADLINE_MS });
    const running = await agent.call("GET", path);
    const { state, brand, job_execution } = objectOf(running);
    assertEquals([state, brand, job_execution], ["running", "kvm", "queued"]);
    const { vnc: _, console: __, ...fields } = objectOf(running);
    assertEquals(listOf(await agent.call("GET", "/agent/v1/machines")), [fields]);
    assertEquals(objectOf(running).vnc, { ...vnc });
    const list = await agent.call("GET", "/agent/v1/machines");
    assertEquals(
      listOf(list).map((machine) => [machine.uuid, machine.state, machine.job_uuid, machine.vnc]),
      [[MACHINE, "running", job_uuid, undefined]],
    );
    assertEquals((running.text + list.text).includes("pass1234"), false);
  });
});

/** What one read, and the list, tell of the job of the machine. */
async function shownJobs(agent: HttpAgent): Promise<unknown[][]> {
  const one = objectOf(await agent.call("GET", `/agent/v1/machines/${MACHINE}`));
  const list = listOf(await agent.call("GET", "/agent/v1/machines"));
  const listed = list.filter(({ uuid }) => uuid === MACHINE);
  return [one, ...listed].map((it) => [it.job_uuid, it.job_execution, it.media]);
}

Deno.test("jobs of other workflows do not replace the job that a machine is shown with", async () => {
  await withMachines(async (agent) => {
    const target = `/machines/${MACHINE}`;
    const workflow = await newWorkflow(agent);
    await agent.call("POST", "/jobs", { workflow, target, number: 0 });
    const path = `/agent/v1/machines/${MACHINE}`;
    assertRefused(await agent.call("GET", path), 404, "ResourceNotFound");
    for (const { job } of await agent.store.jobs.list({})) await end(agent, job.uuid, "succeeded");

    const { job_uuid } = await start(agent, { ...REQUEST, uuid: MACHINE });
    // More than are looked at first.
    for (let number = 1; number <= 20; number += 1) {
      await agent.call("POST", "/jobs", { workflow, target, number, media: { path: "/mine" } });
    }
    const shown = [job_uuid, "queued", media];
    assertEquals(await shownJobs(agent), [shown, shown]);
  });
});

Deno.test("a request that failed later does not replace the job that made a machine", async () => {
  await withHost(async (agent, vmadm) => {
    const body = { ...REQUEST, uuid: MACHINE };
    const first = await start(agent, body);
    await end(agent, first.job_uuid, "succeeded");
    const other = { ...body, machine: { ...description, ram: 2048 }, media: { path: "/b.iso" } };
    // While there is no machine of this uuid; one that is there is named in a refusal.
    const second = await start(agent, other);
    await vmadm.create({ ...description, autoboot: false, uuid: MACHINE });
    const running = [second.job_uuid, "queued", { path: "/b.iso" }];
    assertEquals(await shownJobs(agent), [running, running]);
    await end(agent, second.job_uuid, "failed");
    const made = [first.job_uuid, "success", media];
    assertEquals(await shownJobs(agent), [made, made]);
    await vmadm.delete(MACHINE);
    assertEquals(await shownJobs(agent), [[second.job_uuid, "failure", { path: "/b.iso" }]]);
  });
});
