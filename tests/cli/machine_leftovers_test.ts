// `machine leftovers`: what is pending, against the HTTP application with a store of its own.

import { assertEquals, assertMatch } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import { msBetween } from "../../src/domain/instant.ts";
import { T0 } from "../support/job.ts";
import { claimAll, endTask, type HttpAgent } from "../http/http_agent.ts";
import { MACHINE, REQUEST, withMachines } from "../http/machine_agent.ts";
import { screenFor } from "./screen.ts";

const NEXT = "2026-11-21T12:02:00.000Z";
const BUSY = "Cannot delete machine: its dataset is busy";

/** A job that failed and left its machine. @returns its uuid */
async function leave(agent: HttpAgent): Promise<JobUuid> {
  await agent.call("POST", "/agent/v1/machines", { ...REQUEST, uuid: MACHINE });
  const [listed] = await agent.store.jobs.list({});
  const { uuid: job_uuid, params } = listed?.job ?? {};
  if (job_uuid === undefined) throw new Error("There is no job");
  await claimAll(agent);
  await agent.store.machineClaims.take(
    { uuid: MACHINE as MachineUuid, host: "simulated", job_uuid },
  );
  await endTask(agent, job_uuid, { kind: "fail", onerror: false }, {}, params);
  const [left] = await agent.store.machineClaims.left();
  if (left === undefined) throw new Error("Nothing is left");
  await agent.store.machineClaims.postpone(left, msBetween(agent.clock.now, NEXT), BUSY);
  return job_uuid;
}

Deno.test("machine leftovers lists leftovers of failed jobs, or says that there are none", () =>
  withMachines(async (agent) => {
    const empty = screenFor(agent.url);
    assertEquals(await empty.run("machine", "leftovers", "--json"), 0);
    assertEquals(JSON.parse(empty.out()), []);

    const job_uuid = await leave(agent);

    const json = screenFor(agent.url);
    assertEquals(await json.run("machine", "leftovers", "--json"), 0);
    assertEquals(JSON.parse(json.out()), [{
      uuid: MACHINE,
      host: "simulated",
      host_uuid: null,
      job_uuid,
      job_execution: "failure",
      claimed_at: T0,
      tries: 1,
      next_try_at: NEXT,
      error: BUSY,
    }]);
    const table = screenFor(agent.url);
    assertEquals(await table.run("machine", "leftovers"), 0);
    const row = new RegExp(
      `${MACHINE.slice(0, 8)} +${job_uuid.slice(0, 8)} +simulated +1 +in \\S+ \\S+ `,
    );
    assertMatch(table.out(), row);
  }));

Deno.test("machine leftovers --drop forgets one, also by the beginning of its uuid, and says so", () =>
  withMachines(async (agent) => {
    const job_uuid = await leave(agent);
    const asking = screenFor(agent.url);
    assertEquals(await asking.run("machine", "leftovers", "--drop", MACHINE), 2);
    assertMatch(asking.err(), /there is no terminal to ask on, expected --yes/);
    const lone = screenFor(agent.url);
    assertEquals(await lone.run("machine", "leftovers", "--yes"), 2);
    assertMatch(lone.err(), /expected --drop MACHINE/);
    assertEquals((await agent.store.machineClaims.left()).length, 1);

    for (const flags of [[], ["--drop", MACHINE.slice(0, 8), "--yes"]]) {
      const elsewhere = screenFor(agent.url);
      const args = ["machine", "leftovers", "--host", "gz 9", ...flags];
      assertEquals(await elsewhere.run(...args), 4);
      assertMatch(elsewhere.err(), /host "gz 9" is not registered/);
    }
    const drop = screenFor(agent.url);
    const args = ["machine", "leftovers", "--drop", MACHINE.slice(0, 8), "--yes", "--json"];
    assertEquals(await drop.run(...args), 0);
    const { dropped, note } = JSON.parse(drop.out());
    assertEquals([dropped.uuid, dropped.job_uuid, dropped.error], [MACHINE, job_uuid, BUSY]);
    assertMatch(
      note,
      /^The agent does not try again to remove machine \S+ from host "simulated"\./,
    );
    assertEquals(await agent.store.machineClaims.left(), []);

    for (const word of [MACHINE, MACHINE.slice(0, 8), "web"]) {
      const again = screenFor(agent.url);
      assertEquals(await again.run("machine", "leftovers", "--drop", word, "--yes"), 4);
      assertMatch(again.err(), /leftover/);
    }
  }));

Deno.test("machine leftovers --drop says to a person what is forgotten", () =>
  withMachines(async (agent) => {
    await leave(agent);
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "leftovers", "--drop", MACHINE, "--yes"), 0);
    assertMatch(screen.err() + screen.out(), /does not try again to remove machine/);
  }));
