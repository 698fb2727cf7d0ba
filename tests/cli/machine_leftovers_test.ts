// `machine leftovers`: what is owed, against the HTTP application with a store of its own.

import { assertEquals, assertMatch } from "@std/assert";
import type { MachineUuid } from "../../src/domain/id.ts";
import { T0 } from "../support/job.ts";
import { claimAll, endTask } from "../http/http_agent.ts";
import { MACHINE, REQUEST, withMachines } from "../http/machine_agent.ts";
import { screenFor } from "./screen.ts";

const NEXT = "2026-11-21T12:02:00.000Z";
const BUSY = "Cannot delete machine: its dataset is busy";

Deno.test("machine leftovers lists what failed jobs have left, and says when nothing is", () =>
  withMachines(async (agent) => {
    const empty = screenFor(agent.url);
    assertEquals(await empty.run("machine", "leftovers", "--json"), 0);
    assertEquals(JSON.parse(empty.out()), []);

    await agent.call("POST", "/agent/v1/machines", { ...REQUEST, uuid: MACHINE });
    const [listed] = await agent.store.jobs.list({});
    const { uuid: job_uuid, params } = listed?.job ?? {};
    if (job_uuid === undefined) throw new Error("There is no job");
    await claimAll(agent);
    await agent.store.machineClaims.take(
      { uuid: MACHINE as MachineUuid, host: "simulated", job_uuid },
      T0,
    );
    await endTask(agent, job_uuid, { kind: "fail", onerror: false }, {}, params);
    const [left] = await agent.store.machineClaims.left();
    if (left === undefined) throw new Error("Nothing is left");
    await agent.store.machineClaims.postpone(left, NEXT, BUSY);

    const json = screenFor(agent.url);
    assertEquals(await json.run("machine", "leftovers", "--json"), 0);
    assertEquals(JSON.parse(json.out()), [{
      uuid: MACHINE,
      host: "simulated",
      job_uuid,
      job_execution: "failure",
      claimed_at: T0,
      tries: 1,
      next_try_at: NEXT,
      error: BUSY,
    }]);
    const table = screenFor(agent.url);
    assertEquals(await table.run("machine", "leftovers"), 0);
    const row = new RegExp(`${MACHINE} +${job_uuid} +1 +${NEXT}`);
    assertMatch(table.out(), row);
  }));
