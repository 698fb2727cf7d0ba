// The suite's part on lost answers: each call that writes is made, its answer is dropped, and it is made
// again. What the store holds is what the first call left, and the answer is one to go on with.

import { assert, assertEquals } from "@std/assert";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import type { JobOrder } from "../../src/store/job_store.ts";
import type { MediaStore } from "../../src/store/media_store.ts";
import type { Store } from "../../src/store/store.ts";
import { at, lifeOf, rescueAt } from "../support/clocked_store.ts";
import {
  jobOf,
  OTHER_RUNNER,
  resultOf,
  RUNNER,
  T0,
  taskOf,
  uuidOf,
  workflowOf,
} from "../support/job.ts";
import { documentOf, SYNC } from "./index_suite.ts";
import { register } from "./host_suite.ts";
import { fileOf, hexOf } from "./media_suite.ts";
import {
  claim,
  create,
  finish,
  holdOf,
  JOB,
  present,
  recordOf,
  run,
  type Test,
} from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

const MACHINE = uuidOf<MachineUuid>(901);
const LATER = instantAfter(T0, 60_000);
const LIFE = lifeOf(RUNNER);
const KEYED = { idempotency: { key: "k", request_sha256: "a".repeat(64) } };
const EVERYTHING = { age_ms: null, finished_max: 0, limit: 9 };

/** A call that is made twice. */
interface Repeated {
  readonly name: string;
  /** Brings the store to where the call is made. @returns the call */
  readonly prepare: (store: Store) => Promise<() => Promise<unknown>>;
  /** What the repetition answers; as the first call unless given. */
  readonly again?: unknown;
}

/** A call that ends a task of a claimed job. */
const record = (fields: Parameters<typeof recordOf>[1], of = jobOf(1)) => async (store: Store) => {
  const job = await run(store, of);
  return () => store.jobs.recordTask(recordOf(job, fields));
};

const undoable = jobOf(1, { workflow: workflowOf({ oncancel: [taskOf("undo")] }) });
const withOnerror = jobOf(1, { workflow: workflowOf({ onerror: [taskOf("undo")] }) });
const locking = jobOf(1, { target: "/t", locks: "^/t$" });

/** The calls about hosts. */
const HOST_CALLS: readonly Repeated[] = [
  {
    name: "hosts.register",
    prepare: async (store) => {
      await register(store, LIFE);
      return () => register(store, lifeOf(RUNNER, 2), [LIFE]);
    },
  },
  ...(["cordon", "uncordon", "forget"] as const).map((name): Repeated => ({
    name: `hosts.${name}`,
    prepare: async (store) => {
      await register(store, LIFE);
      return () => store.hosts[name](RUNNER);
    },
  })),
];

/** The calls of a runner. */
const RUNNER_CALLS: readonly Repeated[] = [
  {
    name: "jobs.begin",
    prepare: async (store) => {
      await run(store);
      return () => store.jobs.begin(lifeOf(RUNNER, 2), [LIFE.incarnation], 60_000);
    },
    again: { kind: "begun", rescued: 0 },
  },
  {
    name: "jobs.renew",
    prepare: async (store) => {
      const job = await run(store);
      const gone = { ...holdOf(job), job_uuid: uuidOf<JobUuid>(7) };
      await create(store, jobOf(2));
      await claim(store);
      return () => store.jobs.renew(LIFE, [holdOf(job), gone], 60_000);
    },
  },
  {
    name: "jobs.hold",
    prepare: async (store) => {
      await create(store, jobOf(1));
      const { jobs } = await store.jobs.ready(LIFE, 1, new Set());
      return () => store.jobs.hold(LIFE, jobs);
    },
  },
  { name: "jobs.recordTask", prepare: record({ kind: "continue" }) },
  { name: "jobs.recordTask", prepare: record({ kind: "succeed" }) },
  { name: "jobs.recordTask", prepare: record({ kind: "fail", onerror: true }, withOnerror) },
  { name: "jobs.recordTask", prepare: record({ kind: "cb_wait" }) },
  { name: "jobs.recordTask", prepare: record({ kind: "cb_queue" }) },
  { name: "jobs.recordTask", prepare: record({ kind: "cb_cancel", oncancel: true }, undoable) },
  {
    name: "jobs.recordTask",
    prepare: async (store) => {
      const job = await run(store, locking);
      const successor = { ...locking, uuid: uuidOf<JobUuid>(2) };
      return () => store.jobs.recordTask(recordOf(job, { kind: "cb_retry" }, { successor }));
    },
  },
  {
    name: "jobs.recordTask",
    prepare: async (store) => {
      const job = await run(store, jobOf(1, { workflow: workflowOf({ chain: [] }) }));
      const { entry: _none, ...end } = recordOf(job, { kind: "succeed" });
      return () => store.jobs.recordTask(end);
    },
  },
  {
    name: "jobs.recordAttempt",
    prepare: async (store) => {
      const job = await run(store);
      const attempt = {
        task: "first",
        index: 0,
        attempt: 1,
        fallback: false,
        error: "no",
        started_at: T0,
        finished_at: T0,
        wait_seconds: 0,
      };
      const { params, props } = job;
      const of = { ...holdOf(job), attempt, params, props, failures: 0, elapsed_ms: 1 };
      return () => store.jobs.recordAttempt(of);
    },
  },
  {
    name: "jobs.release",
    prepare: async (store) => {
      const job = await run(store);
      return () => store.jobs.release(holdOf(job), 7);
    },
    again: false,
  },
  {
    name: "jobs.abandon",
    prepare: async (store) => {
      const job = await run(store);
      return () => store.jobs.abandon(holdOf(job));
    },
    again: false,
  },
  {
    name: "jobs.rescue",
    prepare: async (store) => {
      await run(store);
      return () => rescueAt(store, OTHER_RUNNER);
    },
    again: 0,
  },
];

/** An order of a job of a workflow that is gone when the call is repeated. */
const ordering = (fields: Partial<JobOrder>) => async (store: Store) => {
  const { workflow, ...job } = jobOf(1);
  await store.workflows.create(workflow, { max: NO_LIMIT });
  const order = { ...job, workflow_uuid: workflow.uuid, ...fields };
  const showing = { wording: "document", now: T0, masksSecrets: false } as const;
  const rules = { unfinishedMax: 9, workflowBytesMax: 9_999, needsTasks: false, showing };
  return async () => {
    const outcome = await store.jobs.order(order, rules);
    await store.workflows.remove(workflow.uuid);
    return outcome;
  };
};

/** The calls of those who ask for jobs. */
const CALLER_CALLS: readonly Repeated[] = [
  {
    name: "jobs.create",
    prepare: (store) => Promise.resolve(() => store.jobs.create(locking, NO_LIMIT)),
  },
  {
    name: "jobs.create",
    prepare: (store) => Promise.resolve(() => store.jobs.create(jobOf(1, KEYED), NO_LIMIT)),
  },
  { name: "jobs.order", prepare: ordering({ target: "/t", locks: "^/t$" }) },
  { name: "jobs.order", prepare: ordering(KEYED) },
  {
    name: "jobs.retry",
    prepare: async (store) => {
      await finish(store, await run(store), "failed");
      return () => store.jobs.retry(JOB, jobOf(2, { target: "/t", locks: "^/t$" }), NO_LIMIT);
    },
  },
  {
    name: "jobs.cancel",
    prepare: async (store) => {
      await create(store, jobOf(1));
      return () => store.jobs.cancel(JOB);
    },
    again: { kind: "made", job: { uuid: JOB, execution: "canceled" } },
  },
  {
    name: "jobs.resume",
    prepare: async (store) => {
      const job = await run(store);
      await store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
      const done = { kind: "result", result: "done" } as const;
      return () => store.jobs.resume(JOB, done, undefined, "call 1");
    },
  },
  {
    name: "jobs.prune",
    prepare: async (store) => {
      await finish(store, await run(store));
      return () => store.jobs.prune(EVERYTHING);
    },
    again: 0,
  },
  {
    name: "jobs.pruneKeys",
    prepare: async (store) => {
      await finish(store, await run(store, jobOf(1, KEYED)));
      return () => at(store, instantAfter(T0, 86_400_001)).jobs.pruneKeys(9);
    },
    again: 0,
  },
  {
    name: "jobs.pruneInfo",
    prepare: async (store) => {
      await finish(store, await run(store));
      await store.info.append(JOB, { a: 1 }, T0, NO_LIMIT);
      await store.jobs.prune(EVERYTHING);
      return () => store.jobs.pruneInfo(9);
    },
    again: 0,
  },
  {
    name: "info.append",
    prepare: async (store) => {
      await create(store, jobOf(1));
      // The second time the list is full of what the first one appended.
      return () => store.info.append(JOB, { a: 1 }, T0, 1, undefined, "call 1");
    },
  },
  {
    name: "workflows.create",
    prepare: (store) =>
      Promise.resolve(() => store.workflows.create(workflowOf(), { max: NO_LIMIT })),
    again: { kind: "uuid_taken" },
  },
  {
    name: "workflows.putBuiltin",
    prepare: (store) => Promise.resolve(() => store.workflows.putBuiltin(workflowOf())),
  },
  {
    name: "workflows.replace",
    prepare: async (store) => {
      await store.workflows.create(workflowOf(), { max: NO_LIMIT });
      return () => store.workflows.replace(workflowOf({ name: "changed" }));
    },
  },
  {
    name: "workflows.remove",
    prepare: async (store) => {
      await store.workflows.create(workflowOf(), { max: NO_LIMIT });
      return () => store.workflows.remove(workflowOf().uuid);
    },
    again: false,
  },
];

async function owing(store: Store): Promise<void> {
  await finish(store, await run(store, jobOf(1, { callback_url: "http://tell.example/" })));
}

/** The calls of the loops that go on by themselves. */
const LOOP_CALLS: readonly Repeated[] = [
  {
    // Who lost the answer is given the callback again when its time is over.
    name: "callbacks.take",
    prepare: async (store) => {
      await owing(store);
      return () => store.callbacks.take(60_000, 9);
    },
    again: [],
  },
  {
    name: "callbacks.done",
    prepare: async (store) => {
      await owing(store);
      return () => store.callbacks.done(JOB);
    },
  },
  {
    name: "callbacks.postpone",
    prepare: async (store) => {
      await owing(store);
      return () => store.callbacks.postpone(JOB, 60_000);
    },
  },
  {
    name: "machineClaims.take",
    prepare: async (store) => {
      await run(store);
      return () => store.machineClaims.take({ uuid: MACHINE, host: "one", job_uuid: JOB });
    },
  },
  ...(["release", "drop", "settle", "postpone"] as const).map((name): Repeated => ({
    name: `machineClaims.${name}`,
    prepare: async (store) => {
      const job = await run(store);
      await store.machineClaims.take({ uuid: MACHINE, host: "one", job_uuid: JOB });
      await finish(store, job, name === "settle" ? "succeeded" : "failed");
      const taken = await store.machineClaims.get(MACHINE);
      assert(taken !== undefined);
      if (name === "release") return () => store.machineClaims.release(MACHINE, JOB);
      if (name === "drop") return () => store.machineClaims.drop(MACHINE, JOB);
      if (name === "settle") return () => store.machineClaims.settle();
      return () => store.machineClaims.postpone(taken, 60_000, "busy");
    },
  })),
];

/** A call about a file that is known and used by no job. */
const ofFile = (
  method: keyof MediaStore,
  call: (media: MediaStore) => Promise<unknown>,
  again?: unknown,
): Repeated => ({
  name: `media.${method}`,
  prepare: async (store) => {
    await store.media.keep(fileOf(1, { level: "none" }));
    return () => call(store.media);
  },
  ...(again === undefined ? {} : { again }),
});

/** The calls of those who keep files and the copy of the index. */
const COPY_CALLS: readonly Repeated[] = [
  ofFile("keep", (media) => media.keep(fileOf(2))),
  ofFile(
    "copied",
    (media) => media.copied({ path: "/media/copy.iso", sha256: hexOf(1), verified_at: LATER }),
  ),
  ofFile("gone", (media) => media.gone("/media/copy.iso")),
  ofFile("use", (media) => media.use(hexOf(1), LATER)),
  ofFile("raise", (media) => media.raise(hexOf(1), "vendor")),
  ofFile("verified", (media) => media.verified(hexOf(1), LATER)),
  ofFile("ended", (media) => media.ended([JOB])),
  ofFile("remove", (media) => media.remove(hexOf(1)), "not_found"),
  {
    name: "index.swap",
    prepare: async (store) => {
      await store.index.swap([documentOf("a", "1")], [], SYNC);
      return () => store.index.swap([documentOf("b", "2")], ["a"], SYNC);
    },
  },
  {
    name: "measures.check",
    prepare: (store) => Promise.resolve(() => store.measures.check()),
  },
];

const CALLS = [...HOST_CALLS, ...RUNNER_CALLS, ...CALLER_CALLS, ...LOOP_CALLS, ...COPY_CALLS];

/**
 * Reads; the claim, whose lost answer renew() tells; and events that stand by themselves, which say that
 * something has changed: one that stands twice has readers look twice. Reports are of shared stores alone, whose tests
 * repeat them.
 */
const OTHERS = new Set(
  ("jobs.follow jobs.watch jobs.claim jobs.ready jobs.hurry jobs.creating jobs.earlier jobs.get jobs.text jobs.bytes jobs.execution jobs.list jobs.texts jobs.keys " +
    "jobs.ofTarget jobs.count jobs.stats jobs.finished jobs.hasParam jobs.summaries jobs.summaryCounts jobs.summary info.list info.texts workflows.get workflows.bytes " +
    "workflows.list workflows.text workflows.texts workflows.count callbacks.nextDue " +
    "hosts.list hosts.find hosts.jobs machineReports.report machineReports.list machineReports.hosts machineReports.ownerOf machineHistories.of machineHistories.making machineClaims.get machineClaims.left log.lines log.attempts index.get index.list index.lastSync " +
    "index.pins images.search images.count media.usingJobs media.find media.get media.list media.users media.bytes " +
    "media.unused media.copies measures.read events.append events.bounds events.after events.follow " +
    "journal.append journal.first journal.remove journal.jobs journal.size")
    .split(" "),
);

/** All that the calls above may change. */
async function contentsOf(store: Store): Promise<unknown> {
  const jobs = (await store.jobs.list({})).map(({ job }) => job);
  return {
    jobs,
    stats: await store.jobs.stats(),
    info: await Promise.all(jobs.map(({ uuid }) => store.info.list(uuid))),
    attempts: await Promise.all(jobs.map(({ uuid }) => store.log.attempts(uuid))),
    workflows: await store.workflows.list({}),
    callbackDue: await store.callbacks.nextDue(),
    claim: await store.machineClaims.get(MACHINE),
    left: await store.machineClaims.left(),
    key: await store.jobs.earlier(KEYED.idempotency),
    hosts: await store.hosts.list(),
    files: await store.media.list(),
    copies: await store.media.copies(),
    documents: await store.index.list(),
    sync: await store.index.lastSync(),
  };
}

export function lostAnswerTests(test: Test): void {
  for (const [index, { name, prepare, again }] of CALLS.entries()) {
    test(`${name}() changes nothing when repeated after its answer was lost (${index + 1})`, async (store) => {
      const call = await prepare(store);
      const first = await call();
      const left = await contentsOf(store);
      assertEquals(await call(), again === undefined ? first : again);
      assertEquals(await contentsOf(store), left);
    });
  }
  test("every writing method is tested with a lost answer", (store) => {
    const { close: _close, shared: _shared, ...rooms } = store;
    const methods = Object.entries(rooms).flatMap(([room, part]) =>
      // The clock of a test's store has no methods.
      Object.entries(part ?? {}).flatMap(([name, method]) =>
        typeof method === "function" ? [`${room}.${name}`] : []
      )
    );
    assertEquals(methods.length > 60, true);
    const named = new Set([...CALLS.map(({ name }) => name), ...OTHERS]);
    assertEquals(methods.filter((name) => !named.has(name)), []);
    return Promise.resolve();
  });
  test("renew() reports jobs whose claim was never answered, until the runner names them", async (store) => {
    for (const number of [1, 2, 3]) await create(store, jobOf(number));
    const known = (await store.jobs.claim(LIFE, 1)).jobs[0] as Job;
    await store.jobs.claim(LIFE, 1);
    const unknown = async (held: readonly Job[]) => {
      const outcome = await store.jobs.renew(LIFE, held.map((job) => holdOf(job)), 60_000);
      assert(outcome.kind === "renewed");
      assertEquals([outcome.lost, outcome.canceled], [[], []]);
      return outcome.unknown;
    };
    const reported = await unknown([known]);
    assertEquals(reported, [await present(store, uuidOf<JobUuid>(2))]);
    assertEquals(await unknown([known]), reported);
    assertEquals(await unknown([known, ...reported]), []);
    // What it gets is its own: the record counts.
    assert(await store.jobs.recordTask(recordOf(reported[0] as Job, { kind: "succeed" })));
  });
  test("renew() reports lost claims, and claims of canceled jobs", async (store) => {
    await register(store, LIFE);
    const [lost, canceled, undoing] = [
      await run(store, jobOf(1)),
      await run(store, jobOf(2)),
      await run(store, { ...undoable, uuid: uuidOf<JobUuid>(3) }),
    ];
    await store.jobs.release(holdOf(lost), 0);
    for (const { uuid } of [canceled, undoing]) await store.jobs.cancel(uuid);
    const held = [lost, canceled, undoing].map((job) => holdOf(job));
    assertEquals(await store.jobs.renew(LIFE, held, 60_000), {
      kind: "renewed",
      lost: [lost.uuid],
      canceled: [canceled.uuid, undoing.uuid],
      unknown: [],
      admission: "open",
    });
    // The runner that has the oncancel chain learns nothing more.
    const goes = holdOf(await present(store, undoing.uuid));
    assertEquals(await store.jobs.renew(LIFE, [goes], 60_000), {
      kind: "renewed",
      lost: [],
      canceled: [],
      unknown: [],
      admission: "open",
    });
  });
  test("a late repetition of a resume does not end a later wait", async (store) => {
    const waiting = await run(store);
    await store.jobs.recordTask(recordOf(waiting, { kind: "cb_wait" }));
    const resume = (call: string) =>
      store.jobs.resume(JOB, { kind: "result", result: call }, undefined, call);
    assertEquals((await resume("one")).kind, "changed");
    const again = await claim(store);
    await store.jobs.recordTask(
      recordOf(again, { kind: "cb_wait" }, { entry: resultOf("second") }),
    );
    assertEquals((await resume("one")).kind, "changed");
    const job = await present(store);
    assertEquals([job.execution, job.chain_results[1]?.result], ["waiting", "OK"]);
    assertEquals((await resume("two")).kind, "changed");
    assertEquals((await present(store)).chain_results[1]?.result, "two");
  });
}
