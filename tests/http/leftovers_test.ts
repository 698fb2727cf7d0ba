// DELETE /agent/v1/leftovers/:uuid: forgets what no attempt can remove, and nothing that a job still has.

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { MachineUuid } from "../../src/domain/id.ts";
import { assertRefused, claimAll, endTask, listOf, objectOf } from "./http_agent.ts";
import { MACHINE, REQUEST, withMachines } from "./machine_agent.ts";

const PATH = `/agent/v1/leftovers/${MACHINE}`;

Deno.test("a leftover can be dropped only after its job has ended without the machine", () =>
  withMachines(async (agent) => {
    await agent.call("POST", "/agent/v1/machines", { ...REQUEST, uuid: MACHINE });
    const [listed] = await agent.store.jobs.list({});
    const { uuid: job_uuid, params } = listed?.job ?? {};
    if (job_uuid === undefined) throw new Error("There is no job");
    const none = await agent.call("DELETE", PATH);
    assertRefused(none, 404, "ResourceNotFound");
    await claimAll(agent);
    const claim = { uuid: MACHINE as MachineUuid, host: "gone.example.com", job_uuid };
    await agent.store.machineClaims.take(claim);

    const running = await agent.call("DELETE", PATH);
    assertStringIncludes(assertRefused(running, 409, "ConflictError"), job_uuid);
    assertEquals((await agent.store.machineClaims.get(claim.uuid))?.job_uuid, job_uuid);

    await endTask(agent, job_uuid, { kind: "fail", onerror: false }, {}, params);
    const [shown] = listOf(await agent.call("GET", "/agent/v1/leftovers"));
    for (
      const [path, body] of [[`${PATH}?force=true`, undefined], [PATH, { force: true }]] as const
    ) {
      const refused = await agent.call("DELETE", path, body);
      assertEquals(refused.status, 409);
      assertStringIncludes(JSON.stringify(refused.body), "force");
    }
    assertEquals((await agent.store.machineClaims.left()).length, 1);

    const path = `/agent/v1/leftovers/${MACHINE.toUpperCase()}`;
    const { dropped, note } = objectOf(await agent.call("DELETE", path));
    assertEquals<unknown>(dropped, shown);
    assertStringIncludes(String(note), '"gone.example.com"');
    assertEquals(await agent.store.machineClaims.get(claim.uuid), undefined);
    assertEquals((await agent.call("DELETE", PATH)).status, 404);
    assertEquals((await agent.call("DELETE", "/agent/v1/leftovers/x")).status, 404);
  }));
