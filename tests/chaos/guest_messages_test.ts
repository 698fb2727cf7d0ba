// Tasks that send the agent as much as a message may hold, from many slots at once.

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { until } from "../support/until.ts";
import { length, objectOf } from "./agent_under_chaos.ts";
import { type Load, loadTest } from "./memory_load.ts";

const SLOTS = length({ quick: 8, full: 16 });
const ROUNDS = length({ quick: 1, full: 20 });
/** What the tasks take is not what is tried here. */
const END_MS_MAX = 600_000;

/** Objects of as many members as the characters of a call have room for, and of as many as may be. */
const CALLS = `async (job, cb) => {
  const members = (count) => Object.fromEntries(Array.from({ length: count }, (_, k) => ["k" + k, 1]));
  const [many, most] = [members(45_000), members(9_900)];
  const lists = Array.from({ length: 3_000 }, (_, k) => ({ ["n" + k]: [k] }));
  const ended = {};
  const count = (word) => { ended[word] = (ended[word] ?? 0) + 1 };
  for (let round = 0; round < ${ROUNDS}; round++) {
    const uuid = job.uuid;
    const calls = [many, most, lists].flatMap((value) => [
      vmadm.create(value), vmadm.validate({ tags: value, disks: [value], nics: [value] }),
      vmadm.update(uuid, value), vmadm.update(uuid, { set_tags: value }), vmadm.boot(uuid, value),
      media.find(value), images.find(value), info(value),
    ]);
    log.info("many", most);
    await Promise.all(calls.map((call) => call.then(() => count("ok"), ({ code }) => count(code ?? "in_guest"))));
  }
  cb(null, ended);
}`;

/** Leaves as many values as a result and a job may have together, and more. */
const ENDS = `(job, cb) => {
  job.params.left = Array.from({ length: 300_000 }, () => ({}));
  cb(null, Array.from({ length: 150_000 }, (_, k) => k % 10));
}`;
const LEAVES_OVER = `(job, cb) => {
  job.params.left = Array.from({ length: 1_200_000 }, () => 0);
  cb();
}`;

async function endOf(load: Load, uuid: unknown): Promise<JsonObject> {
  return await until(`job ${uuid} to end`, async () => {
    const job = objectOf(await load.agent.ask("GET", `/jobs/${uuid}`));
    return ["queued", "running"].includes(String(job.execution)) ? undefined : job;
  }, END_MS_MAX);
}

async function runAll({ agent }: Load, body: string): Promise<unknown[]> {
  const { uuid } = objectOf(
    await agent.ask("POST", "/workflows", { name: "many", chain: [{ body }] }),
  );
  const jobs = Array.from({ length: SLOTS }, (_, n) => (
    agent.ask("POST", "/jobs", { workflow: uuid ?? "", n })
  ));
  return (await Promise.all(jobs)).map((answer) => objectOf(answer).uuid);
}

loadTest("tasks that call with as many members as a message holds", async (load) => {
  for (const uuid of await runAll(load, CALLS)) {
    const job = await endOf(load, uuid);
    assertEquals(job.execution, "success", JSON.stringify(job.chain_results).slice(0, 500));
    const [{ result }] = job.chain_results as [{ result: JsonObject }];
    // None of these arguments means anything, and what is too large is not even looked at.
    const { invalid_argument = 0, too_large = 0, in_guest = 0, ...others } = result;
    assertEquals(others, {});
    assertEquals(Number(invalid_argument) + Number(too_large) + Number(in_guest), 24 * ROUNDS);
  }
}, { flags: ["--slots", String(SLOTS)] });

loadTest("tasks that leave as many values as they may, and more", async (load) => {
  const left = await runAll(load, ENDS);
  for (const uuid of left) assertEquals((await endOf(load, uuid)).execution, "success");
  for (const uuid of await runAll(load, LEAVES_OVER)) {
    const job = await endOf(load, uuid);
    const [{ error }] = job.chain_results as [{ error: unknown }];
    assertEquals(job.execution, "failure");
    assertStringIncludes(JSON.stringify(error), "it has more than 1000000 values");
  }
}, { flags: ["--slots", String(SLOTS)] });
