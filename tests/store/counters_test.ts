// The counters that writes keep are a recount of the jobs after every commit, whatever shares it, and whichever of its
// writes is undone.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { type JobUuid, randomUuid, type RunnerId } from "../../src/domain/id.ts";
import { type Instant, instantAfter } from "../../src/domain/instant.ts";
import type { Job } from "../../src/domain/job/job.ts";
import { Connection, IN_MEMORY } from "../../src/store/sqlite/connection.ts";
import { deleteCallback } from "../../src/store/sqlite/job/callbacks.ts";
import { cancelJob, recordTask, releaseJob } from "../../src/store/sqlite/job/changes.ts";
import { claimJobs, holdJobs, readyJobs } from "../../src/store/sqlite/job/claims.ts";
import { countUnfinished } from "../../src/store/sqlite/job/counts.ts";
import { insertJob } from "../../src/store/sqlite/job/jobs.ts";
import { rescueJobs } from "../../src/store/sqlite/job/leases.ts";
import { prune, pruneKeys } from "../../src/store/sqlite/job/retention.ts";
import { IDEMPOTENCY_MS } from "../../src/store/limits.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, RUNNER, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import { assertCounted } from "../support/recount.ts";
import { holdOf, recordOf } from "./store_case.ts";

const LIFE = lifeOf(RUNNER);
const OTHER = "11111111-0000-4000-8000-000000000009" as RunnerId;
const EVENTS = [
  { kind: "succeed" },
  { kind: "fail", onerror: false },
  { kind: "cb_wait" },
  { kind: "cb_queue" },
  { kind: "cb_cancel", oncancel: true },
  { kind: "cb_retry" },
  { kind: "continue" },
] as const;
/** Commits of one run, and writes of one commit at most. */
const COMMITS = 150;
const WRITES = 6;

/** Writes about jobs, chosen by a random number, and the jobs that they hold. */
class Play {
  readonly #db: Connection;
  readonly #below: (limit: number) => number;
  #made = 0;
  #held: Job[] = [];
  now: Instant = T0;

  constructor(db: Connection, below: (limit: number) => number) {
    this.#db = db;
    this.#below = below;
  }

  make(): void {
    const number = this.#made += 1;
    const workflow = workflowOf({
      uuid: uuidOf(1 + number % 3),
      ...(number % 2 === 0 ? { oncancel: [taskOf("undo")] } : {}),
    });
    const callback_url = number % 5 === 0 ? "http://127.0.0.1/ended" : null;
    const exec_after = number % 7 === 0 ? instantAfter(this.now, 3_600_000) : this.now;
    insertJob(this.#db, jobOf(number, { workflow, callback_url, exec_after }), null, this.now);
  }

  claim(): void {
    if (this.#below(2) === 0) {
      this.#held.push(...claimJobs(this.#db, LIFE, 1 + this.#below(3), this.now).jobs);
      return;
    }
    const { jobs } = readyJobs(this.#db, LIFE, 1 + this.#below(3), new Set(), this.now);
    const held = holdJobs(this.#db, LIFE, jobs, this.now);
    this.#held.push(...jobs.filter(({ uuid }) => held.includes(uuid)));
  }

  end(): void {
    const job = this.#held.shift();
    const event = EVENTS[this.#below(EVENTS.length)];
    if (job !== undefined && event !== undefined) {
      recordTask(this.#db, recordOf(job, event), this.now);
    }
  }

  release(): void {
    const job = this.#held.pop();
    if (job !== undefined) releaseJob(this.#db, holdOf(job), 1, this.now);
  }

  rescue(): void {
    this.#held = [];
    rescueJobs(this.#db, OTHER, instantAfter(this.now, 86_400_000));
  }

  cancel(): void {
    cancelJob(this.#db, uuidOf<JobUuid>(1 + this.#below(this.#made + 1)), this.now);
  }

  called(): void {
    deleteCallback(this.#db, uuidOf<JobUuid>(5 * (1 + this.#below(this.#made / 5 + 1))));
  }

  clean(): void {
    const finished_max = this.#below(10);
    prune(this.#db, { age_ms: null, finished_max, limit: 1 + this.#below(4) }, this.now);
  }

  /** One write; it may throw when it has written. */
  write(): "done" {
    const writes = [this.make, this.make, this.make, this.claim, this.claim, this.end, this.end]
      .concat(this.release, this.rescue, this.cancel, this.called, this.clean);
    const { length } = writes;
    writes[this.#below(length)]?.call(this);
    if (this.#below(12) === 0) throw new Error("undone");
    return "done";
  }
}

/** The minimal standard generator: equal seeds, equal numbers from 0 to below the limit. */
function randomFrom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = state * 48_271 % 2_147_483_647;
    return Math.floor(state / 2_147_483_647 * limit);
  };
}

for (const seed of [1, 2, 3, 4]) {
  Deno.test(`sqlite: after random writes the counters equal a recount, seed ${seed}`, async () => {
    const db = new Connection(IN_MEMORY);
    const below = randomFrom(seed);
    const play = new Play(db, below);
    let undone = 0;
    try {
      for (let commit = 0; commit < COMMITS; commit++) {
        play.now = instantAfter(play.now, below(40_000) - 5_000);
        const writes = Array.from(
          { length: 1 + below(WRITES) },
          () => db.write("play", () => play.write()).catch(() => void (undone += 1)),
        );
        await Promise.all(writes);
        assertCounted(db);
        const found = db.row<{ jobs: number }>(
          "SELECT count(*) AS jobs FROM jobs WHERE finished_at IS NULL",
        );
        assertEquals(countUnfinished(db), found?.jobs);
      }
      assert(undone > 10, `${undone} writes were undone`);
    } finally {
      await db.close();
    }
  });
}

Deno.test("sqlite: jobs with an idempotency key are counted, until the key is forgotten", async () => {
  const db = new Connection(IN_MEMORY);
  try {
    const idempotency = { key: "key", request_sha256: "a" };
    await db.write("make", () => {
      const made = insertJob(db, jobOf(1, { idempotency }), null, T0);
      assert(made.kind === "created");
      db.run(
        `INSERT INTO idempotency_keys (key, request_sha256, job_id, created_at)
         SELECT 'key', 'a', id, ?1 FROM jobs`,
        T0,
      );
    });
    await assertRejects(() =>
      db.write("undone", () => {
        cancelJob(db, uuidOf<JobUuid>(1), T0);
        throw new Error(randomUuid());
      })
    );
    await db.write("cancel", () => cancelJob(db, uuidOf<JobUuid>(1), T0));
    assertCounted(db);
    const later = instantAfter(T0, IDEMPOTENCY_MS + 1);
    assertEquals(await db.write("keys", () => pruneKeys(db, later, 10)), 1);
    assertCounted(db);
    const all = { age_ms: 0, finished_max: 0, limit: 10 };
    assertEquals(await db.write("prune", () => prune(db, all, later)), 1);
    assertCounted(db);
  } finally {
    await db.close();
  }
});
