// What two agents read of one shared database: events in one order, counters that one of them folds, texts that the
// server itself could not read, and what belongs to one host.

import type { WorkflowRules } from "../../src/store/store.ts";
import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { hostEvent, type StoredEvent } from "../../src/domain/event.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { foldCounts } from "../../src/store/postgres/job/counts.ts";
import type { EventFilter } from "../../src/store/event_store.ts";
import { at, type ClockedStore } from "../support/clocked_store.ts";
import { jobOf, T0, uuidOf, workflowOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { fleetTests, HOSTS } from "./postgres_fleet.ts";
import { assertStats, create, finish, JOB, kindsOf, run } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const fleetTest = fleetTests();

/** All events that a filter lets through, in pages of two. */
async function eventsOf(store: ClockedStore, filter: EventFilter = {}): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  for (let after = 0, more = true; more;) {
    const page = await store.events.after(after, 2, filter);
    assert(page.joins && page.last >= after);
    events.push(...page.events);
    ({ last: after, more } = page);
  }
  return events;
}

const said = (events: readonly StoredEvent[]) =>
  events.map((event) => event.kind === "job" ? event.change : event.kind);

fleetTest(
  "every reader has the events of all agents in one order, whatever it asks for",
  async (fleet) => {
    const { one, other } = fleet;
    const machine = uuidOf<MachineUuid>(77);
    await finish(
      one,
      await run(one, jobOf(1, { target: `/machines/${machine}`, machine_uuid: machine })),
    );
    await create(other, jobOf(2));
    await one.info.append(uuidOf<JobUuid>(2), { line: 1 }, T0, NO_LIMIT);
    await other.events.append(hostEvent(HOSTS[1], "started", "x"));
    const all = await eventsOf(one);
    assertEquals(said(all), [
      "created",
      "started",
      "machine",
      "succeeded",
      "machine",
      "created",
      "log",
      "host",
    ]);
    assertEquals(all.map(({ seq }) => seq), [1, 2, 3, 4, 5, 6, 7, 8]);
    assertEquals(await eventsOf(other), all);
    assertEquals(await other.events.bounds(), { first: 1, last: 8 });
    const ofJob = await eventsOf(other, { job: [uuidOf<JobUuid>(2)] });
    assertEquals(said(ofJob), ["created", "log"]);
    assertEquals(said(await eventsOf(other, { machine: [machine], kind: ["machine"] })), [
      "machine",
      "machine",
    ]);
    assertEquals(said(await eventsOf(other, { kind: ["log", "host"] })), ["log", "host"]);
    assertEquals(await one.jobs.prune({ age_ms: null, finished_max: 0, limit: 9 }), 1);
    assertEquals(said(await eventsOf(other, { job: [JOB] })), ["removed_job"]);
  },
);

fleetTest(
  "an event that is committed late has a higher number than all that were read",
  async (fleet) => {
    const { one, db } = fleet;
    const written = Promise.withResolvers<void>();
    const read = Promise.withResolvers<void>();
    const late = db.write(async (tx) => {
      await tx.run(
        "INSERT INTO events (kind, at, body) VALUES ('host', $1, $2)",
        T0,
        JSON.stringify({ change: "started", detail: "late" }),
      );
      written.resolve();
      await read.promise;
    });
    await written.promise;
    await create(one, jobOf(1));
    const before = await one.events.after(0, 9);
    assertEquals([said(before.events), before.last, before.more], [["created"], 1, false]);
    read.resolve();
    await late;
    const after = await one.events.after(before.last, 9);
    assertEquals([said(after.events), after.last], [["host"], 2]);
  },
);

fleetTest("readers that follow each other come to rest after a write", async ({ one, other }) => {
  let looks = 0;
  const ends: (() => void)[] = [];
  const seen = [0, 0];
  const reads: Promise<void>[] = [];
  for (const [index, store] of [one, other].entries()) {
    const look = async () => {
      looks += 1;
      seen[index] = (await store.events.after(seen[index] ?? 0, 100)).last;
    };
    ends.push(store.events.follow(() => void reads.push(look())));
  }
  await create(one, jobOf(1));
  await until("both agents to have read the event", () => seen.every((last) => last === 1));
  const { last } = await one.events.bounds();
  assertEquals(last, 1);
  assert(looks < 20, `${looks} looks for one event`);
  for (const end of ends) end();
  // The last of them may be under way, and a closed store would refuse it.
  await Promise.all(reads);
});

fleetTest("folded counters count the same jobs, and are few rows", async ({ one, other, db }) => {
  const rows = () =>
    db.read(async (tx) =>
      (await tx.row<{ rows: number }>(
        "SELECT (SELECT count(*) FROM job_counts) + (SELECT count(*) FROM finished_counts) AS rows",
      ))?.rows ?? 0
    );
  for (let number = 1; number <= 12; number++) {
    await create(at(one, instantAfter(T0, number * 5_000)), jobOf(number));
    if (number % 3 === 0) await one.jobs.cancel(uuidOf<JobUuid>(number));
  }
  const before = await rows();
  await foldCounts(db);
  // Two minutes of creations, and one hour of ends.
  assertEquals([before, await rows()], [20, 3]);
  await assertStats(other, instantAfter(T0, 60_000));
  await create(other, jobOf(13));
  await other.jobs.cancel(uuidOf<JobUuid>(13));
  await Promise.all([foldCounts(db), assertStats(one, instantAfter(T0, 60_000))]);
  await assertStats(one, instantAfter(T0, 30 * 3_600_000));
  // Minutes that are older than any window become one.
  at(one, instantAfter(T0, 100 * 3_600_000));
  await foldCounts(db);
  assertEquals(await rows(), 2);
  await assertStats(one, instantAfter(T0, 100 * 3_600_000));
});

fleetTest(
  "texts with NUL and half pairs of surrogates are found as others, and hide none",
  async ({ one }) => {
    const odd = ["\0", "\ud83d", "\\u0000", "\\\0", "\ufffd"];
    for (const [index, text] of odd.entries()) {
      const params = { [text]: `${text}!`, same: index, nested: { inner: text } };
      const secret_params = [`${text}name`];
      await create(one, jobOf(index + 1, { params, workflow: { ...workflowOf(), secret_params } }));
    }
    const numbers = async (params: Record<string, string>) =>
      (await one.jobs.list({ params })).map(({ job }) => job.params.same);
    for (const index of odd.keys()) {
      assertEquals(await numbers({ same: `${index}` }), [index]);
      const { secrets } = await one.log.lines(uuidOf<JobUuid>(index + 1), { limit: 1 }) ?? {};
      assertEquals(secrets, [`${odd[index]}name`]);
      const summary = await one.jobs.summary(uuidOf<JobUuid>(index + 1));
      assertEquals(summary?.secrets, [`${odd[index]}name`]);
    }
    for (const [index, text] of odd.entries()) {
      assert((await numbers({ [text]: `${text}!` })).includes(index));
      assert(await one.jobs.hasParam(text));
    }
    assertEquals(await numbers({ inner: "\0" }), []);
    assertEquals(await one.jobs.hasParam("inner"), false);
    assertEquals((await one.jobs.list({ target: "\0" })).length, 0);
    assertEquals((await one.jobs.keys({})).length, odd.length);
    const found = await one.jobs.summaries({ search: "\0", searchesParams: true }, { limit: 9 });
    assertEquals(found.summaries.length, 3);
  },
);

fleetTest("a callback is taken by the host of its job alone", async ({ one, other }) => {
  const url = "http://tell.example/done";
  await finish(one, await run(one, jobOf(1, { callback_url: url })));
  assertEquals(await other.callbacks.nextDue(), { kind: "none" });
  assertEquals(await other.callbacks.take(60_000, 9), []);
  await other.callbacks.done(JOB);
  const taken = await one.callbacks.take(60_000, 9);
  assertEquals(taken.map(({ job, url, attempts }) => [job.uuid, url, attempts]), [[JOB, url, 0]]);
});

fleetTest(
  "info of two agents has one order, and no more entries than it may",
  async ({ one, other }) => {
    await create(one, jobOf(1));
    const outcomes = await Promise.all(
      Array.from(
        { length: 40 },
        (_, n) => (n % 2 === 0 ? one : other).info.append(JOB, { n }, T0, 30),
      ),
    );
    assertEquals(
      outcomes.filter((outcome) => outcome === "appended").length,
      30,
    );
    const read = await one.info.list(JOB);
    assertEquals([read?.length, await other.info.list(JOB)], [30, read]);
  },
);

fleetTest(
  "the limit of workflows and their names hold for two agents together",
  async ({ one, other }) => {
    const create = (number: number, name: string, rules: Partial<WorkflowRules> = {}) =>
      (number % 2 === 0 ? one : other).workflows.create(
        workflowOf({ uuid: uuidOf<WorkflowUuid>(number), name }),
        { max: NO_LIMIT, ...rules },
      );
    const limited = Array.from({ length: 12 }, (_, n) => create(n, `w${n}`, { max: 5 }));
    assertEquals(kindsOf(await Promise.all(limited)), { created: 5, full: 7 });
    const named = Array.from({ length: 8 }, (_, n) => create(n + 20, "same", { uniqueName: true }));
    assertEquals(kindsOf(await Promise.all(named)), { created: 1, name_taken: 7 });
  },
);
