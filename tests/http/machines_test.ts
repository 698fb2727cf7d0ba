// Looking at machines: what vmadm and the newest job of each tell.

import { assertEquals } from "@std/assert";
import { waitForVnc } from "../../src/host/vnc.ts";
import { machine as description, media } from "../domain/machine_request.ts";
import { assertRefused, listOf, NO_UUID, objectOf } from "./http_agent.ts";
import { DEADLINE_MS, MACHINE, REQUEST, start, withHost, withMachines } from "./machine_agent.ts";

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
      ram: 1024,
      vcpus: 1,
      media,
      job_uuid,
      job_execution: "queued",
    };
    const answer = await agent.call("GET", `/agent/v1/machines/${MACHINE}`);
    assertEquals(answer.body, { ...shown, vnc: null });
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
