import { assert, assertEquals } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { successorOf } from "../../src/runner/successor.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { jobOf, uuidOf, workflowOf } from "../support/job.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** How long the job after this attempt waits, or null when there is none. */
async function dueAfter(attempt: number, rules: JsonObject): Promise<number | null> {
  const store = await openSqliteStore(":memory:");
  try {
    const made = await store.jobs.create(jobOf(1, { props: { num_attempts: attempt } }), NO_LIMIT);
    if (made.kind !== "created") throw new Error("The job was not created");
    const workflow = { ...workflowOf(), ...rules };
    const successor = successorOf(made.job, workflow, uuidOf<JobUuid>(2));
    return successor.kind === "made" ? successor.job.delay_ms ?? null : null;
  } finally {
    await store.close();
  }
}

Deno.test("the delay doubles with each attempt up to max_delay", async () => {
  const rules = { initial_delay: 100, max_delay: 1000 };
  const dues = await Promise.all([0, 1, 2, 3, 4, 8].map((attempt) => dueAfter(attempt, rules)));
  assertEquals(dues, [100, 200, 400, 800, 1000, 1000]);
  assertEquals(await dueAfter(9, rules), null);
});

Deno.test("no delay that a workflow names leaves the range of dates", async () => {
  const tenYears = 10 * 365 * 86_400_000;
  for (const initial_delay of [1e14, 1e16, 1e308]) {
    assertEquals(await dueAfter(0, { initial_delay }), tenYears);
    assertEquals(await dueAfter(9, { initial_delay, max_attempts: 1e9 }), tenYears);
  }
  assertEquals(await dueAfter(5000, { max_attempts: 1e9 }), 0);
  assertEquals(await dueAfter(0, { initial_delay: "soon", max_attempts: -1 }), 0);
});

Deno.test("a successor takes over target, params, lock and callback of the job before it", async () => {
  const store = await openSqliteStore(":memory:");
  try {
    const of = {
      target: "/t",
      locks: "^/t",
      callback_url: "http://tell.example/",
      params: { a: 1 },
    };
    const made = await store.jobs.create(jobOf(1, of), NO_LIMIT);
    if (made.kind !== "created") throw new Error("The job was not created");
    // What a task has made of the params was for the job before it.
    const job = { ...made.job, params: { a: 2, seen: true } };
    const successor = successorOf(job, workflowOf(), uuidOf<JobUuid>(2));
    assertEquals(successor, {
      kind: "made",
      job: {
        ...of,
        machine_uuid: null,
        uuid: uuidOf<JobUuid>(2),
        workflow: workflowOf(),
        delay_ms: 0,
        props: { num_attempts: 1, prev_attempt: made.job.uuid },
      },
    });
  } finally {
    await store.close();
  }
});

Deno.test("a successor keeps secret what was secret in the job before it", async () => {
  const store = await openSqliteStore(":memory:");
  try {
    const workflow = { ...workflowOf(), secret_params: ["license_key"] };
    const made = await store.jobs.create(jobOf(1, { workflow }), NO_LIMIT);
    if (made.kind !== "created") throw new Error("The job was not created");
    // The workflow was changed since.
    const successor = successorOf(made.job, workflowOf(), uuidOf<JobUuid>(2));
    assert(successor.kind === "made");
    assertEquals(successor.job.props?.secret_params, ["license_key"]);
  } finally {
    await store.close();
  }
});
