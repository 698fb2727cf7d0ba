// An undoing that fails, as an operator sees it: the job says so, the agent lists what is left, and the
// next agent removes it.

import { assertEquals, assertMatch } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { isJsonObject } from "../../src/domain/json.ts";
import { until, withFolder } from "../support/until.ts";
import { listOf, objectOf } from "./agent_under_chaos.ts";
import { MachineRounds } from "./machine_rounds.ts";

const UUID = "bbbbbbbb-0000-4000-8000-000000000001";
/** The undoing is tried four times, five seconds apart. */
const JOB_MS_MAX = 300_000;

/** Lets the next attempt be due at once; the agent is dead. */
function hasten(stateDir: string): void {
  const db = new Database(join(stateDir, "zonewright.db"), { create: false });
  try {
    db.exec("UPDATE machine_claims SET next_try_at = '2026-01-01T00:00:00.000Z'");
  } finally {
    db.close();
  }
}

Deno.test("leftovers of a failed undo are listed, and removed by the next agent", async () => {
  await withFolder(async (folder) => {
    const rounds = new MachineRounds(folder);
    await rounds.prepare();
    try {
      await rounds.simulate("fault", "start_failure");
      await rounds.simulate("fault", "delete_busy");
      const agent = await rounds.agent();
      const job = await rounds.post(agent, { uuid: UUID, brand: "kvm" });
      const ended = await until("the job to fail", async () => {
        const body = objectOf(await agent.ask("GET", `/jobs/${job}`));
        return body.execution === "failure" ? body : null;
      }, JOB_MS_MAX);
      const [undone] = Array.isArray(ended.onerror_results) ? ended.onerror_results : [];
      assertMatch(String(isJsonObject(undone) && undone.error), /^undo_failed: /);
      const [left, ...others] = listOf(await agent.ask("GET", "/agent/v1/leftovers"));
      assertEquals(others, []);
      assertEquals([left?.uuid, left?.job_uuid, left?.job_execution], [UUID, job, "failure"]);
      assertEquals([left?.tries, left?.error], [0, null]);
      await rounds.kill();
      await rounds.simulate("fault", "--clear");
      hasten(rounds.stateDir);
      const next = await rounds.agent();
      await until("the leftover to go", async () => {
        return listOf(await next.ask("GET", "/agent/v1/leftovers")).length === 0;
      }, JOB_MS_MAX);
      await rounds.expectNothing();
    } finally {
      await rounds.end();
    }
  });
});
