// Looking at machines: what vmadm and the job that stands for each tell.

import { assertEquals } from "@std/assert";
import { waitForVnc } from "../../src/host/vmadm/vnc.ts";
import { machine as description, media } from "../domain/machine_request.ts";
import {
  assertRefused,
  type HttpAgent,
  listOf,
  newWorkflow,
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

Deno.test("GET of a machine that neither the host nor a job knows answers 404", async () => {
  await withMachines(async (agent) => {
    assertEquals((await agent.call("GET", "/agent/v1/machines")).body, []);
    for (const id of [NO_UUID, "x", "%2e%2e"]) {
      assertRefused(await agent.call("GET", `/agent/v1/machines/${id}`), 404, "ResourceNotFound");
    }
  });
});

Deno.test("a machine that only a job knows is absent", async () => {
  await withMachines(async (agent) => {
    const { job_uuid } = await start(agent, { ...REQUEST, uuid: MACHINE });
    const shown = {
      uuid: MACHINE,
      alias: null,
      brand: "kvm",
      state: "absent",
      zone_state: null,
      ram: 1024,
      vcpus: 1,
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
