// Tasks that pass objects of as many keys as fit to everything that they may call.

import { assertEquals } from "@std/assert";
import { until } from "../support/until.ts";
import { length, objectOf } from "./agent_under_chaos.ts";
import { FINAL } from "./load_machine.ts";
import { loadTest } from "./memory_load.ts";

const KEYS = 60_000;
/** Jobs at the same time. */
const JOBS = length({ quick: 2, full: 16 });
/** Rounds of one job through all that it may call. */
const ROUNDS = length({ quick: 2, full: 50 });
const JOB_MS_MAX = length({ quick: 300_000, full: 600_000 });

/** Every call is refused or taken; the last result says how many were refused. */
const BODY = `async function (job, cb) {
  const many = {};
  for (let at = 0; at < ${KEYS}; at++) many[at.toString(36)] = 0;
  const calls = [
    () => info(many), () => vmadm.create(many), () => vmadm.validate(many), () => vmadm.update(many),
    () => vmadm.list(many), () => vmadm.get(many), () => media.find(many), () => media.place(many),
    () => images.find(many), () => images.download(many), () => vnc.wait(many), () => log.info("x", many),
  ];
  let answered = 0;
  for (let round = 0; round < ${ROUNDS}; round++) {
    for (const call of calls) {
      try { await call(); } catch (error) { void error; }
      answered += 1;
    }
  }
  cb(null, answered);
}`;

loadTest("tasks pass objects of 60,000 keys to every capability", async ({ agent }) => {
  const workflow = await agent.ask("POST", "/workflows", { name: "keys", chain: [{ body: BODY }] });
  const { uuid } = objectOf(workflow);
  const jobs: string[] = [];
  for (let at = 0; at < JOBS; at++) {
    const posted = await agent.ask("POST", "/jobs", { workflow: String(uuid), at });
    jobs.push(String(objectOf(posted).uuid));
  }
  for (const job of jobs) {
    const ended = await until("the job to end", async () => {
      const read = objectOf(await agent.ask("GET", `/jobs/${job}`));
      return FINAL.includes(String(read.execution)) ? read : undefined;
    }, JOB_MS_MAX);
    assertEquals(ended.execution, "success", JSON.stringify(ended.chain_results));
  }
});
