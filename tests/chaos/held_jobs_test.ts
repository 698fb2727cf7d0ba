// Large jobs that run at the same time: what their tasks are given and leave is many times its text.

import { assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { length, objectOf } from "./agent_under_chaos.ts";
import { type Load, loadTest, makeLargeJob } from "./memory_load.ts";

/** JSON of under 2 MiB that becomes most in a heap: objects of one member. */
const PARAM = JSON.stringify({ a: 1 });
const PARAM_CHARS = 1_400_000;
const MEMBERS = Math.floor(PARAM_CHARS / (PARAM.length + 1));
const LIST = JSON.parse(`[${Array(MEMBERS).fill(PARAM).join()}]`);
const JOBS = length({ quick: 12, full: 60 });
/** As many slots as the agent may be given here, beside the number that it takes by itself. */
const MANY_SLOTS = 16;
const END_MS_MAX = 300_000;

/** Keeps its job until all are there. */
const WAITS = `(job, cb) => cb("wait")`;
/** Changes a little of the params; all of them go back. */
const CHANGES = `(job, cb) => {
  job.params.list[0] = { a: 2 };
  job.params.seen = (job.params.seen ?? 0) + job.params.list.length;
  cb(null, job.params.list.length);
}`;

async function runJobs(load: Load): Promise<void> {
  const { agent } = load;
  const chain = [{ body: WAITS }, { body: CHANGES }, { body: CHANGES }];
  const workflow = objectOf(await agent.ask("POST", "/workflows", { name: "changes", chain }));
  const uuids: string[] = [];
  const job = { workflow: String(workflow.uuid), list: LIST };
  for (let at = 0; at < JOBS; at++) uuids.push(await makeLargeJob(agent, job));
  await until(
    "the large jobs to wait",
    async () => (await counts(load)).waiting === JOBS ? true : undefined,
    END_MS_MAX,
  );
  for (const uuid of uuids) {
    const { status, body } = await agent.ask("POST", `/jobs/${uuid}/resume`, {});
    assertEquals(status, 200, JSON.stringify(body).slice(0, 300));
  }
  await until("the large jobs to end", async () => {
    const counted = await counts(load);
    return (counted.queued ?? 0) + (counted.running ?? 0) === 0 ? true : undefined;
  }, END_MS_MAX);
  assertEquals((await counts(load)).succeeded, JOBS);
  const last = uuids.at(-1);
  const { body } = await agent.ask("GET", `/jobs/${last}`);
  const { params, execution } = body as { params: JsonObject; execution: string };
  assertEquals([execution, params.seen], ["success", 2 * MEMBERS]);
  assertEquals((params.list as JsonObject[]).slice(0, 2), [{ a: 2 }, { a: 1 }]);
}

/** Jobs by execution, whatever their age. */
async function counts({ agent }: Load): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const window of Object.values(objectOf(await agent.ask("GET", "/stats")))) {
    for (const [execution, jobs] of Object.entries(window as Record<string, number>)) {
      sums[execution] = (sums[execution] ?? 0) + jobs;
    }
  }
  return sums;
}

loadTest("60 large jobs run on the default number of slots", runJobs);
loadTest("60 large jobs run on 16 slots", runJobs, { flags: ["--slots", String(MANY_SLOTS)] });
