// The SQLite store's commits: what shares one, what a failure undoes, when an answer is given.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { heldTimers } from "../support/timers.ts";
import { withFolder } from "../support/until.ts";
import { register } from "./host_suite.ts";
import { create, present, recordOf } from "./store_case.ts";
import { claimJobs, lifeOf } from "../support/clocked_store.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Runs a test on a file, with the names of the writes of each commit. */
function withCommits(
  run: (store: Store, commits: readonly string[][]) => Promise<void>,
): Promise<void> {
  return withFolder(async (folder) => {
    const commits: string[][] = [];
    const store = await openSqliteStore(`${folder}/store.db`, {
      // The clock stands still: nothing here waits for it.
      timers: heldTimers(),
      committing: (when, names) => {
        if (when === "after") commits.push([...names]);
      },
    });
    try {
      await run(store, commits);
    } finally {
      await store.close();
    }
  });
}

Deno.test("sqlite: simultaneous writes share few commits", () =>
  withCommits(async (store, commits) => {
    const numbers = Array.from({ length: 200 }, (_, number) => number);
    await Promise.all(numbers.map((number) => store.jobs.create(jobOf(number), NO_LIMIT)));
    assertEquals(commits.flat().length, 200);
    assert(commits.length <= 4, `200 writes took ${commits.length} commits`);
  }));

Deno.test("sqlite: many callers who write again as soon as they are answered share the next commit", () =>
  withFolder(async (folder) => {
    const commits: number[] = [];
    const store = await openSqliteStore(`${folder}/store.db`, {
      // The clock stands still: the test would not end if a caller were missing.
      timers: heldTimers(),
      committing: (when, names) => void (when === "after" && commits.push(names.length)),
    });
    await Promise.all(Array.from({ length: 8 }, async (_, number) => {
      await store.jobs.create(jobOf(number), NO_LIMIT);
      for (let turn = 0; turn < 3 * number; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      await store.jobs.create(jobOf(100 + number), NO_LIMIT);
    }));
    assertEquals(commits, [8, 8]);
    // Nobody else is waited for once someone is in a hurry.
    const last = store.jobs.create(jobOf(200), NO_LIMIT);
    store.jobs.hurry();
    await last;
    await store.close();
    assertEquals(commits, [8, 8, 1]);
  }));

Deno.test("sqlite: a write that waits for no other has a commit of its own", () =>
  withCommits(async (store, commits) => {
    for (const number of [1, 2, 3]) await store.jobs.create(jobOf(number), NO_LIMIT);
    await claimJobs(store, RUNNER, 1);
    assertEquals(commits, [["job_create"], ["job_create"], ["job_create"], ["job_claim"]]);
  }));

Deno.test("sqlite: writes that may wait share a commit, and go along with one that may not", () =>
  withCommits(async (store, commits) => {
    const life = lifeOf(RUNNER);
    await Promise.all([1, 2, 3].map((number) => store.jobs.create(jobOf(number), NO_LIMIT)));
    const { jobs: [first] } = await store.jobs.ready(life, 1, new Set());
    assert(first !== undefined);
    const holding = store.jobs.hold(life, [first]);
    store.jobs.hurry();
    assertEquals(await holding, [first.uuid]);
    const record = store.jobs.recordTask(recordOf(first, { kind: "succeed" }), true);
    // The event loop comes round: a write that may not wait would be committed by then.
    for (let turn = 0; turn < 30; turn++) await new Promise((resolve) => setImmediate(resolve));
    const created = store.jobs.create(jobOf(4), NO_LIMIT);
    assert(await record);
    await created;
    assertEquals(commits.slice(1), [["job_claim"], ["job_record", "job_create"]]);
  }));

Deno.test("sqlite: a claim is written with the end of its task, and before any write that depends on claims", () =>
  withCommits(async (store, commits) => {
    const life = lifeOf(RUNNER);
    await Promise.all([1, 2, 3].map((number) => store.jobs.create(jobOf(number), NO_LIMIT)));
    const { jobs } = await store.jobs.ready(life, 3, new Set());
    const [first, second, third] = jobs;
    assert(first !== undefined && second !== undefined && third !== undefined);
    const held = store.jobs.hold(life, jobs);
    assert(await store.jobs.recordTask(recordOf(first, { kind: "continue" })));
    await store.jobs.create(jobOf(4), NO_LIMIT);
    assertEquals((await present(store, second.uuid)).execution, "queued");
    const canceled = await store.jobs.cancel(second.uuid);
    assertEquals(await held, [first.uuid, second.uuid, third.uuid]);
    assert(canceled.kind === "changed");
    assertEquals(commits.slice(1), [["job_record"], ["job_create"], ["job_claim", "job_cancel"]]);
    const now = await Promise.all(jobs.map(({ uuid }) => present(store, uuid)));
    assertEquals(now.map(({ execution }) => execution), ["running", "canceled", "running"]);
    assertEquals(now.map(({ lease, starts }) => [lease, starts]), [[1, 1], [1, 0], [1, 1]]);
    assert(await store.jobs.recordTask(recordOf(third, { kind: "succeed" })));
  }));

Deno.test("sqlite: a task whose job was canceled, or whose host was cordoned, under it records nothing", () =>
  withCommits(async (store) => {
    const life = lifeOf(RUNNER);
    await Promise.all([1, 2].map((number) => store.jobs.create(jobOf(number), NO_LIMIT)));
    const { jobs: [first] } = await store.jobs.ready(life, 1, new Set());
    assert(first !== undefined);
    await store.jobs.cancel(first.uuid);
    const late = store.jobs.hold(life, [first]);
    assertEquals(await store.jobs.recordTask(recordOf(first, { kind: "succeed" })), false);
    assertEquals(await late, []);
    const { jobs: [second] } = await store.jobs.ready(life, 1, new Set());
    assert(second !== undefined);
    await register(store);
    await store.hosts.cordon(RUNNER);
    const begun = store.jobs.hold(life, [second]);
    assertEquals(await store.jobs.recordTask(recordOf(second, { kind: "succeed" })), false);
    assertEquals(await begun, []);
    assertEquals((await present(store, second.uuid)).execution, "queued");
  }));

Deno.test("sqlite: 48 delayed writes are committed at once, and the rest when the store closes", () =>
  withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const timers = heldTimers();
    const store = await openSqliteStore(path, { timers });
    const numbers = Array.from({ length: 50 }, (_, number) => number);
    await Promise.all(numbers.map((number) => create(store, jobOf(number))));
    const { jobs } = await store.jobs.ready(lifeOf(RUNNER), 50, new Set());
    const holds = jobs.map((job) => store.jobs.hold(lifeOf(RUNNER), [job]));
    // They wait no longer for the callers that were just answered.
    timers.advance(4);
    await Promise.all(holds.slice(0, 48));
    const last = jobs.at(-1);
    assert(last !== undefined);
    const record = store.jobs.recordTask(recordOf(last, { kind: "succeed" }), true);
    await store.close();
    assert(await record);
    assertEquals((await Promise.all(holds)).flat(), jobs.map(({ uuid }) => uuid));
  }));

Deno.test("sqlite: ready() returns a new job as its row has it, and not after a cancel", () =>
  withFolder(async (folder) => {
    const open = () => openSqliteStore(`${folder}/store.db`, { now: () => T0 });
    const ready = (store: Store) => store.jobs.ready(lifeOf(RUNNER), 3, new Set());
    const store = await open();
    await create(store, jobOf(1));
    // Reads the definition that they share.
    await claimJobs(store, RUNNER, 1);
    const params = { text: "é", list: [1.5, null, { deep: true }] };
    await create(store, jobOf(2, { target: "/two", params }));
    const canceled = await create(store, jobOf(3));
    await create(store, jobOf(4, { callback_url: "http://127.0.0.1/", requested_params: {} }));
    await store.jobs.cancel(canceled.uuid);
    const made = await ready(store);
    await store.close();
    const again = await open();
    assertEquals([made, made.jobs.length], [await ready(again), 2]);
    await again.close();
  }));

Deno.test("sqlite: a write is answered, and shown to readers, after its commit", async () => {
  await withFolder(async (folder) => {
    let durable = 0;
    const store = await openSqliteStore(`${folder}/store.db`, {
      committing: (when, names) => {
        if (when === "after") durable += names.length;
      },
    });
    try {
      for (let number = 1; number <= 30; number++) {
        let answered = false;
        const write = store.jobs.create(jobOf(number), NO_LIMIT).then(() => {
          assertEquals(durable, number);
          answered = true;
        });
        while (!answered) {
          const [jobs, job, count, listed] = await Promise.all([
            store.jobs.count({}),
            store.jobs.get(uuidOf<JobUuid>(number)),
            store.jobs.stats(),
            store.jobs.list({}, { limit: 1 }),
          ]);
          assert(jobs <= durable && count.current.queued <= durable);
          if (job !== undefined || listed[0]?.job.uuid === uuidOf<JobUuid>(number)) {
            assertEquals(durable, number);
          }
          await new Promise((resolve) => setImmediate(resolve));
        }
        await write;
      }
    } finally {
      await store.close();
    }
  });
});

Deno.test("sqlite: a runner is notified of a claimable job before its commit is on disk", () =>
  withCommits(async (store, commits) => {
    const heard: number[] = [];
    const unfollow = store.jobs.follow(({ kind }) => {
      if (kind === "queued") heard.push(commits.length);
    });
    await store.jobs.create(jobOf(1), NO_LIMIT);
    await store.jobs.create(jobOf(2, { delay_ms: 3_600_000 }), NO_LIMIT);
    assertEquals(heard, [0, 1]);
    const [job] = await claimJobs(store, RUNNER, 1);
    assert(job !== undefined);
    assert(await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" })));
    assertEquals(heard, [0, 1], "A claim, or a job that waits, may not be claimed");
    await store.jobs.resume(job.uuid, { kind: "result", result: "yes" });
    assertEquals(heard, [0, 1, 4]);
    unfollow();
    await store.jobs.create(jobOf(3), NO_LIMIT);
    assertEquals(heard.length, 3);
  }));

Deno.test("sqlite: a write that throws undoes its own part of the shared commit only", async () => {
  const store = await openSqliteStore(":memory:");
  const twice = [
    store.jobs.create(jobOf(1), NO_LIMIT),
    // Its definition is written before its params, which are no JSON.
    store.jobs.create(
      jobOf(9, { workflow: workflowOf({ name: "undone" }), params: { a: 1n as never } }),
      NO_LIMIT,
    ),
    store.jobs.create(jobOf(2), NO_LIMIT),
    store.jobs.create(jobOf(3, { workflow: workflowOf({ name: "other" }) }), NO_LIMIT),
  ];
  const outcomes = await Promise.allSettled(twice);
  assertEquals(outcomes.map(({ status }) => status), [
    "fulfilled",
    "rejected",
    "fulfilled",
    "fulfilled",
  ]);
  const names = (await store.jobs.list({})).map(({ job }) => job.name);
  assertEquals(names, ["other", "sample", "sample"]);
  await store.close();
});

Deno.test("sqlite: what was rolled back notifies nobody, and what shared its commit does", async () => {
  let failing = false;
  const store = await openSqliteStore(":memory:", {
    committing: (when) => {
      if (failing && when === "before") throw new Error("undone");
    },
  });
  const [one, two] = [jobOf(1), jobOf(2)];
  for (const job of [one, two]) await store.jobs.create(job, NO_LIMIT);
  const heard: string[] = [];
  store.jobs.follow((notice) => void (notice.kind === "canceled" && heard.push(notice.job_uuid)));
  failing = true;
  await assertRejects(() => store.jobs.cancel(one.uuid), Error, "undone");
  failing = false;
  const broken = store.jobs.create(jobOf(9, { params: { a: 1n as never } }), NO_LIMIT);
  await Promise.allSettled([store.jobs.cancel(two.uuid), broken]);
  await assertRejects(() => broken, TypeError);
  assertEquals(heard, [two.uuid]);
  await store.jobs.cancel(one.uuid);
  assertEquals(heard, [two.uuid, one.uuid]);
  await store.close();
});

Deno.test("sqlite: after a commit that was rolled back no job shows its chain", async () => {
  let failing = false;
  const store = await openSqliteStore(":memory:", {
    committing: (when) => {
      if (failing && when === "before") throw new Error("undone");
    },
  });
  try {
    await create(store, jobOf(1));
    failing = true;
    const undone = workflowOf({ name: "undone", chain: [taskOf("undone")] });
    await assertRejects(
      () => store.jobs.create(jobOf(2, { workflow: undone }), NO_LIMIT),
      Error,
      "undone",
    );
    const together = [3, 4].map((number) =>
      store.jobs.create(jobOf(number, { workflow: undone }), NO_LIMIT)
    );
    const outcomes = await Promise.allSettled(together);
    assertEquals(outcomes.map(({ status }) => status), ["rejected", "rejected"]);
    failing = false;
    const kept = workflowOf({ name: "kept", chain: [taskOf("kept")] });
    const job = await create(store, jobOf(5, { workflow: kept }));
    assertEquals([job.name, job.chain[0]?.name], ["kept", "kept"]);
    assertEquals((await store.jobs.list({})).map(({ job }) => job.name), ["kept", "sample"]);
    assertEquals(await store.jobs.count({}), 2);
  } finally {
    await store.close();
  }
});

Deno.test("sqlite: closing commits the waiting writes, and a closed store refuses further ones", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const store = await openSqliteStore(path);
    const writes = [1, 2, 3].map((number) => store.jobs.create(jobOf(number), NO_LIMIT));
    // The digest of the params is computed before a write is queued.
    await writes[0];
    const late = store.info.append(uuidOf<JobUuid>(1), { a: 1 }, T0, NO_LIMIT);
    await store.close();
    assertEquals(await late, "appended");
    const error = await assertRejects(() => store.jobs.cancel(jobOf(1).uuid), AgentError);
    assertEquals(error.code, "aborted");
    await store.close();
    const again = await openSqliteStore(path);
    assertEquals(await again.info.list(uuidOf<JobUuid>(1)), [{ a: 1 }]);
    await again.close();
    await Promise.all(writes);
  });
});

Deno.test("sqlite: more writes than may wait are refused as overload, and the others are made", async () => {
  const store = await openSqliteStore(":memory:");
  const writes = Array.from({ length: 10_500 }, () => store.measures.check());
  const outcomes = await Promise.allSettled(writes);
  const refused = outcomes.filter((outcome) => outcome.status === "rejected");
  assertEquals(refused.length, 500);
  for (const { reason } of refused) {
    assertEquals([reason.code, reason.retryAfterSeconds], ["overloaded", 1]);
  }
  assertEquals((await store.jobs.create(jobOf(1), NO_LIMIT)).kind, "created");
  await store.close();
});
