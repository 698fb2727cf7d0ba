// Writes that gather while a transaction runs, in a database that hosts share: they share its statements, and one that
// the server refuses takes none of the others with it.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, WorkflowUuid } from "../../src/domain/id.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { JobOrder, OrderRules } from "../../src/store/job_store.ts";
import type { TaskRecord } from "../../src/store/run_store.ts";
import { claimJobs } from "../support/clocked_store.ts";
import { jobOf, T0, uuidOf, workflowOf } from "../support/job.ts";
import { fleetTests, HOSTS, statementsOf } from "./postgres_fleet.ts";
import { present, recordOf } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const fleetTest = fleetTests();
const [ONE, OTHER] = HOSTS;
const RULES: OrderRules = {
  unfinishedMax: 1_000,
  workflowBytesMax: 10_000,
  needsTasks: false,
  showing: { wording: "document", now: T0, masksSecrets: false },
};
/** No text of the server may contain it. */
const NUL = "\0";

function orderOf(number: number, fields: Partial<JobOrder> = {}): JobOrder {
  const { workflow, ...job } = jobOf(number);
  const idempotency = { key: `order ${number}`, request_sha256: "a".repeat(64) };
  return { ...job, workflow_uuid: workflow.uuid, idempotency, ...fields };
}

/** The last task of a job of the first host has succeeded. */
function endOf(job: Job): TaskRecord {
  return recordOf(job, { kind: "succeed" }, { runner_id: ONE });
}

fleetTest("many orders, and many ends of tasks, take the statements of one", async ({ one }) => {
  await one.workflows.create(workflowOf(), { max: NO_LIMIT });
  const order = (number: number) => one.jobs.order(orderOf(number), RULES);
  // The first one makes what the others share.
  await order(1);
  const ofOne = await statementsOf(() => order(2));
  const numbers = Array.from({ length: 40 }, (_, at) => at + 3);
  const ofMany = await statementsOf(() => Promise.all(numbers.map(order)));
  assert(ofMany <= 2 * ofOne, `${ofMany} statements for 40 jobs, ${ofOne} for one`);
  const jobs = await claimJobs(one, ONE, 99);
  assertEquals(jobs.length, 42);
  const [first, ...others] = jobs.map((job) => () => one.jobs.recordTask(endOf(job)));
  const ofEnd = await statementsOf(async () => assert(await first?.()));
  const ofEnds = await statementsOf(() => Promise.all(others.map((end) => end())));
  assert(ofEnds <= 2 * ofEnd, `${ofEnds} statements for 41 ends, ${ofEnd} for one`);
  assertEquals(await one.jobs.count({ execution: "succeeded" }), 42);
});

fleetTest("an order that the server refuses takes no other with it", async ({ one }) => {
  await one.workflows.create(workflowOf(), { max: NO_LIMIT });
  const orders = [1, 2, 3, 4, 5].map((number) =>
    one.jobs.order(orderOf(number, number === 3 ? { target: `a${NUL}` } : {}), RULES)
  );
  const ends = await Promise.allSettled(orders);
  assertEquals(
    ends.map((end) => end.status === "fulfilled" && end.value.kind),
    ["created", "created", false, "created", "created"],
  );
  assertEquals(await one.jobs.count({}), 4);
});

fleetTest(
  "the end of a task that the server refuses takes no other with it",
  async ({ one, db }) => {
    await one.workflows.create(workflowOf(), { max: NO_LIMIT });
    for (const number of [1, 2, 3]) await one.jobs.order(orderOf(number), RULES);
    const jobs = await claimJobs(one, ONE, 9);
    // For the server's own reasons.
    await db.write((tx) =>
      tx.script(
        `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF NEW.uuid = '${uuidOf<JobUuid>(2)}' THEN RAISE EXCEPTION 'refused'; END IF;
         RETURN NEW;
       END $$;
       CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION refuse()`,
      )
    );
    const ends = await Promise.allSettled(jobs.map((job) => one.jobs.recordTask(endOf(job))));
    assertEquals(
      ends.map((end) => end.status === "fulfilled" ? end.value : `${end.reason}`),
      [true, "error: refused", true],
    );
    const executions = [1, 2, 3].map(async (number) =>
      (await present(one, uuidOf<JobUuid>(number))).execution
    );
    assertEquals(await Promise.all(executions), ["succeeded", "running", "succeeded"]);
  },
);

fleetTest(
  "orders of one commit get the turns that they would get one by one",
  async ({ one, other }) => {
    const second = workflowOf({ uuid: uuidOf<WorkflowUuid>(70), name: "other" });
    for (const workflow of [workflowOf(), second]) {
      await one.workflows.create(workflow, { max: NO_LIMIT });
    }
    const orders = (before: number) =>
      [1, 2, 3, 4, 5].map((number) =>
        orderOf(before + number, number > 3 ? { workflow_uuid: second.uuid } : {})
      );
    await Promise.all(orders(0).map((order) => one.jobs.order(order, RULES)));
    for (const order of orders(10)) await other.jobs.order(order, RULES);
    const claimed = async (store: typeof one, host: typeof ONE) =>
      (await claimJobs(store, host, 9)).map(({ uuid }) => Number(uuid.slice(-2)) % 10);
    assertEquals(await claimed(one, ONE), [1, 2, 4, 3, 5]);
    assertEquals(await claimed(other, OTHER), [1, 2, 4, 3, 5]);
  },
);

fleetTest(
  "two agents that get orders with the same keys at the same time make one job for each key",
  async ({ one, other }) => {
    await one.workflows.create(workflowOf(), { max: NO_LIMIT });
    const made = new Map<string, Set<string>>();
    for (const round of [1, 2, 3, 4, 5]) {
      // Of each key two requests, each of which both agents get, in another order.
      const orders = Array.from({ length: 16 }, (_, at) => {
        const request_sha256 = (at < 8 ? "a" : "b").repeat(64);
        const key = `key ${round} ${at % 8}`;
        return orderOf(20 * round + at, {
          target: `/${key}`,
          idempotency: { key, request_sha256 },
        });
      });
      const asked = [
        ...orders.map((order) => ({ store: one, order })),
        ...orders.toReversed().map((order) => ({ store: other, order })),
      ];
      await Promise.all(asked.map(async ({ store, order }) => {
        const outcome = await store.jobs.order(order, RULES);
        const { key, request_sha256 } = order.idempotency ?? { key: "", request_sha256: "" };
        const of = made.get(key) ?? new Set();
        made.set(key, of);
        if (outcome.kind === "created" || outcome.kind === "repeated") {
          of.add(`${outcome.job.uuid} of ${request_sha256[0]}`);
        } else {
          assert(outcome.kind === "key_reused", outcome.kind);
          of.add(`${outcome.job_uuid} of ${request_sha256[0] === "a" ? "b" : "a"}`);
        }
      }));
    }
    assertEquals([...made.values()].map(({ size }) => size), Array(40).fill(1));
    assertEquals(await one.jobs.count({}), 40);
  },
);
