// The suite's part on locks: patterns of unfinished jobs on the targets of later ones.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Store } from "../../src/store/store.ts";
import { jobOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import {
  claim,
  create,
  finish,
  JOB,
  kindsOf,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Unfinished jobs that may hold locks at a time. */
const LOCKS_MAX = 256;

async function kindFor(store: Store, target: string, number = 90): Promise<string> {
  const outcome = await store.jobs.create(jobOf(number, { target }), NO_LIMIT);
  if (outcome.kind === "created") await store.jobs.cancel(outcome.job.uuid);
  return outcome.kind;
}

export function lockTests(test: Test): void {
  test("a lock refuses targets that its pattern matches anywhere, and names its job", async (store) => {
    await create(store, jobOf(1, { locks: "disk[0-9]+" }));
    const refused = await store.jobs.create(jobOf(2, { target: "/pool/disk07/x" }), NO_LIMIT);
    assertEquals(refused, { kind: "locked", job_uuid: JOB });
    assertEquals(await store.jobs.get(uuidOf<JobUuid>(2)), undefined);
  });
  test("a lock allows other targets, other letter case, and jobs without a target", async (store) => {
    await create(store, jobOf(1, { locks: "^/disk$" }));
    for (const [index, target] of ["/disk/", "/Disk", " /disk", "/disk\n"].entries()) {
      assertEquals([target, await kindFor(store, target, 10 + index)], [target, "created"]);
    }
    await create(store, jobOf(2));
  });
  test("of several locks each one counts", async (store) => {
    await create(store, jobOf(1, { locks: "^/a" }));
    await create(store, jobOf(2, { locks: "^/b" }));
    await create(store, jobOf(3, { locks: "^/b" }));
    assertEquals(await kindFor(store, "/a", 11), "locked");
    assertEquals(await kindFor(store, "/b", 12), "locked");
    assertEquals(await kindFor(store, "/c", 13), "created");
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    assertEquals(await kindFor(store, "/b", 14), "locked");
    await store.jobs.cancel(uuidOf<JobUuid>(3));
    assertEquals(await kindFor(store, "/b", 15), "created");
  });
  test("a job may lock its own target", async (store) => {
    await create(store, jobOf(1, { target: "/t", locks: "^/t" }));
    assertEquals(await kindFor(store, "/t/2"), "locked");
  });
  test("a lock holds while its job is delayed, runs and waits, and ends with it", async (store) => {
    const later = instantAfter(T0, 1000);
    await create(store, jobOf(1, { locks: "^/t", exec_after: later }));
    assertEquals(await kindFor(store, "/t", 11), "locked");
    const job = await claim(store, later);
    assertEquals(await kindFor(store, "/t", 12), "locked");
    await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
    assertEquals(await kindFor(store, "/t", 13), "locked");
    await store.jobs.resume(JOB, { kind: "error", error: "no", result: "" });
    assertEquals(await kindFor(store, "/t", 14), "created");
  });
  test("a lock ends with the success and with the cancel of its job", async (store) => {
    await finish(store, await run(store, jobOf(1, { locks: "^/t" })));
    assertEquals(await kindFor(store, "/t", 11), "created");
    await create(store, jobOf(2, { locks: "^/t" }));
    await store.jobs.cancel(uuidOf<JobUuid>(2));
    assertEquals(await kindFor(store, "/t", 12), "created");
  });
  test("a lock with an invalid pattern is refused, and blocks nothing", async (store) => {
    for (const locks of ["(?=x)", "(", "(a)\\1", "a{2000}", "(?:\\pL?){1000}[^a]"]) {
      const error = await assertRejects(
        () => store.jobs.create(jobOf(1, { locks, target: "/own" }), NO_LIMIT),
        AgentError,
      );
      assertEquals([error.code, error.errors[0]?.field], ["invalid_argument", "locks"]);
    }
    assertEquals(await store.jobs.count({}), 0);
    assertEquals(await kindFor(store, "/t"), "created");
  });
  test("target and lock are held until a canceled job has undone what it did", async (store) => {
    const workflow = workflowOf({ oncancel: [taskOf("undo")] });
    await run(store, jobOf(1, { workflow, target: "/t/1", locks: "^/t/" }));
    await store.jobs.cancel(JOB);
    assertEquals(await kindFor(store, "/t/2"), "locked");
    const same = jobOf(2, { target: "/t/1" });
    assertEquals((await store.jobs.create(same, NO_LIMIT)).kind, "locked");
    const undoing = await present(store);
    await store.jobs.recordTask(recordOf(undoing, { kind: "succeed" }));
    assertEquals(await kindFor(store, "/t/2"), "created");
    assertEquals((await store.jobs.create(same, NO_LIMIT)).kind, "created");
  });
  test(`${LOCKS_MAX} locks may be held, and one more when one of them ends`, async (store) => {
    for (let number = 1; number <= LOCKS_MAX; number++) {
      await create(store, jobOf(number, { locks: `^/t${number % 3}$` }));
    }
    const one = jobOf(LOCKS_MAX + 1, { locks: "^/t9$" });
    const full = { kind: "full", what: "locks", limit: LOCKS_MAX } as const;
    assertEquals(await store.jobs.create(one, NO_LIMIT), full);
    assertEquals(await kindFor(store, "/t9", LOCKS_MAX + 2), "created");
    await store.jobs.cancel(JOB);
    assertEquals((await store.jobs.create(one, NO_LIMIT)).kind, "created");
  });
  test("of a lock and a matching target that are created together, the later one is refused", async (store) => {
    for (let round = 0; round < 20; round++) {
      const [locking, targeted] = [
        jobOf(2 * round, { locks: `^/t${round}$` }),
        jobOf(2 * round + 1, {
          target: `/t${round}`,
        }),
      ];
      const requests = round % 2 === 0 ? [locking, targeted] : [targeted, locking];
      const outcomes = await Promise.all(requests.map((job) => store.jobs.create(job, NO_LIMIT)));
      const { created = 0, locked = 0 } = kindsOf(outcomes);
      assertEquals(created + locked, 2);
      if (created < 2) continue;
      // Both are there: the target came first, when nothing was locked yet.
      const [second, first] = (await store.jobs.list({}, { limit: 2 })).map(({ job }) => job.uuid);
      assertEquals([first, second], [targeted.uuid, locking.uuid]);
    }
  });
  test("many simultaneous locks and targets are all answered", async (store) => {
    const outcomes = await Promise.all(Array.from({ length: 60 }, (_, number) => {
      const own = number % 2 === 0 ? { locks: `^/t${number}$` } : { target: `/t${number - 1}` };
      return store.jobs.create(jobOf(number, own), NO_LIMIT);
    }));
    const { created = 0, locked = 0 } = kindsOf(outcomes);
    assertEquals(created + locked, 60);
    assertEquals(await store.jobs.count({}), created);
  });
}
