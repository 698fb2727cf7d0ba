// The steps of a list of summaries: each statement walks an index or stays within a number of jobs,
// however many there are.

import { assert, assertEquals } from "@std/assert";
import type { MachineUuid, WorkflowUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import type { SummaryFilter, SummaryPlace } from "../../src/domain/job/summary.ts";
import { Connection, IN_MEMORY } from "../../src/store/sqlite/connection.ts";
import { listSummaries } from "../../src/store/sqlite/job/summaries.ts";
import { SUMMARIES_LOOKED_AT_MAX } from "../../src/store/limits.ts";
import { countJobs, listKeys } from "../../src/store/sqlite/job/lists.ts";
import { insertJob } from "../../src/store/sqlite/job/jobs.ts";
import type { JobFilter } from "../../src/store/job_store.ts";
import { jobOf, T0, uuidOf, workflowOf } from "../support/job.ts";

/** More jobs than one page looks at. */
const JOBS = SUMMARIES_LOOKED_AT_MAX + 5_000;

/** Jobs that one statement passes over at most. */
const PASSED_OVER_MAX = 20_000;

interface Ran {
  readonly sql: string;
  readonly params: readonly (string | number | null)[];
  readonly rows: number;
}

/** A connection that notes each statement and how many rows it answered. */
class WatchedConnection extends Connection {
  readonly ran: Ran[] = [];
  override rows<T extends object>(sql: string, ...params: never[]): T[] {
    const rows = super.rows<T>(sql, ...params);
    this.ran.push({ sql, params, rows: rows.length });
    return rows;
  }
}

async function withJobs(run: (db: WatchedConnection) => Promise<void>): Promise<void> {
  const db = new WatchedConnection(IN_MEMORY);
  try {
    const workflow = workflowOf({ name: "common" });
    const other = workflowOf({ name: "rare", uuid: uuidOf<WorkflowUuid>(2) });
    await db.write("fill", () => {
      for (let n = 1; n <= JOBS; n++) {
        const created_at = instantAfter(T0, n * 1000);
        const rare = n % 5_000 === 7;
        insertJob(db, jobOf(n, { workflow: rare ? other : workflow }), null, created_at);
        if (n % 2 === 0) {
          db.run(
            `UPDATE jobs SET execution = ?2, claimable_at = NULL, turn = NULL, finished_at = ?3,
                error = 'disk died' WHERE uuid = ?1`,
            uuidOf(n),
            n % 5_000 === 0 ? "failed" : "succeeded",
            created_at,
          );
        }
      }
    });
    await run(db);
  } finally {
    await db.close();
  }
}

/** Reads a whole list in pages. @returns the jobs found, and the pages */
async function readAll(db: WatchedConnection, filter: SummaryFilter): Promise<[number, number]> {
  let found = 0;
  let pages = 0;
  let after: SummaryPlace | undefined;
  do {
    db.ran.length = 0;
    const part = await listSummaries(db, filter, { limit: 20, after });
    found += part.summaries.length;
    pages += 1;
    after = part.next;
    const read = db.ran.filter(({ sql }) => sql.includes("LIMIT")).reduce((n, r) => n + r.rows, 0);
    assert(read <= SUMMARIES_LOOKED_AT_MAX + 500, `a page has read ${read} rows of an index`);
  } while (after !== undefined && pages < 20);
  return [found, pages];
}

const FILTERS: [name: string, filter: Partial<SummaryFilter>][] = [
  ["all", {}],
  ["rare state", { states: ["failed"] }],
  ["several states", { states: ["failed", "succeeded", "queued"] }],
  ["rare state in a time", { states: ["failed"], since: T0 }],
  ["name", { name: "rare" }],
  ["name and state", { name: "rare", states: ["queued"] }],
  ["target", { target: "/none" }],
  ["machine", { machine: uuidOf<MachineUuid>(77) }],
  ["machine, state and time", { machine: uuidOf<MachineUuid>(77), states: ["failed"], since: T0 }],
  ["uuid", { uuid: uuidOf(77) }],
  ["since", { since: instantAfter(T0, 3_600_000) }],
  ["until", { until: instantAfter(T0, 3_600_000), states: ["queued", "succeeded"] }],
  ["finished", { finished_since: T0 }],
  ["finished and state", { finished_since: T0, states: ["failed"] }],
  ["search", { search: "nowhere" }],
  ["search in a state", { search: "disk", states: ["failed"] }],
];

Deno.test("lists of summaries, step by step", (t) =>
  withJobs(async (db) => {
    await t.step(
      "no list of summaries reads all jobs or sorts them, and each page is bounded",
      async () => {
        for (const [name, asked] of FILTERS) {
          const filter = { searchesParams: true, ...asked };
          const first = await listSummaries(db, filter, { limit: 20 });
          db.ran.length = 0;
          await listSummaries(db, filter, { limit: 20 });
          if (first.next !== undefined) {
            await listSummaries(db, filter, { limit: 20, after: first.next });
          }
          for (const { sql, params } of [...db.ran]) {
            const plan = db.rows<{ detail: string }>(
              `EXPLAIN QUERY PLAN ${sql}`,
              ...params as never[],
            ).map(({ detail }) => detail);
            for (const detail of plan) {
              assert(!/SCAN (?!listed|json_each)/.test(detail), `${name}: ${detail} in ${sql}`);
              assert(!detail.includes("TEMP B-TREE"), `${name}: ${detail} in ${sql}`);
            }
          }
        }
      },
    );
    await t.step("the jobs of one machine are found through the index of targets", async () => {
      const machine = uuidOf<MachineUuid>(77);
      db.ran.length = 0;
      await listSummaries(db, { searchesParams: true, machine }, { limit: 20 });
      const walks = db.ran.filter(({ sql }) => sql.includes("ORDER BY id DESC LIMIT"));
      const plans = walks.flatMap(({ sql, params }) =>
        db.rows<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...params as never[])
      );
      const [{ detail } = { detail: "" }, ...others] = plans;
      assert(detail.includes("INDEX jobs_target (target=? AND id<?)"), detail);
      assertEquals(others, []);
    });
    await t.step(
      "a deep offset and a count take many short steps, whatever the filter",
      async () => {
        const counts: [JobFilter, number][] = [
          [{ name: "common" }, JOBS - 5],
          [{ execution: "succeeded", since: T0 }, Math.floor(JOBS / 2) - 5],
          [{ workflow_uuid: uuidOf<WorkflowUuid>(2) }, 5],
        ];
        for (const [filter, jobs] of [[{}, JOBS] as const, ...counts]) {
          assertEquals(await countJobs(db, filter), jobs);
          const rows = async (offset: number) => {
            db.ran.length = 0;
            const keys = await listKeys(db, filter, { limit: 10, offset });
            for (const { params } of db.ran) assert(Number(params.at(-1)) <= PASSED_OVER_MAX);
            return keys.length;
          };
          assertEquals([await rows(jobs - 3), await rows(jobs)], [3, 0]);
        }
      },
    );
    await t.step("a rare job among many is found within pages that are bounded", async () => {
      const filter = (asked: Partial<SummaryFilter>) => ({ searchesParams: true, ...asked });
      assertEquals(await readAll(db, filter({ states: ["failed"] })), [5, 1]);
      assertEquals(await readAll(db, filter({ name: "rare" })), [5, 1]);
      assertEquals(await readAll(db, filter({ states: ["failed"], since: T0 })), [5, 1]);
      const [none, pages] = await readAll(db, filter({ search: "nowhere" }));
      assertEquals([none, pages], [0, Math.ceil(JOBS / SUMMARIES_LOOKED_AT_MAX)]);
      const [rare] = await readAll(db, filter({ search: "RARE" }));
      assertEquals(rare, 5);
    });
  }));
