// What lists, counts and statistics cost in a store with a long history: 1,000,000 finished jobs of ten
// workflows over a day, and 100,000 that fell due at one instant. Of each it tells the processor time of the
// longest single statement, during which the agent does nothing else, and of the whole.

import process from "node:process";
import { join } from "@std/path";
import type { JobUuid, RunnerId, WorkflowUuid } from "../src/domain/id.ts";
import { HOUR_MS, type Instant, instantAfter } from "../src/domain/instant.ts";
import { Connection } from "../src/store/sqlite/connection.ts";
import { claimJobs } from "../src/store/sqlite/job/claims.ts";
import { insertJob } from "../src/store/sqlite/job/jobs.ts";
import { countJobs, hasParam, listKeys, listRows } from "../src/store/sqlite/job/lists.ts";
import { listSummaries } from "../src/store/sqlite/job/summaries.ts";
import { selectFinished, selectMeasures, selectStats } from "../src/store/sqlite/job/counts.ts";
import type { Execution } from "../src/domain/job/state.ts";
import { fillWithJobs } from "./fill.ts";
import { figure, tableLines } from "./numbers.ts";
import { withRunFolder } from "./run_folder.ts";

const FINISHED = 1_000_000;
const QUEUED = 100_000;
const WORKFLOWS = 10;
/** The instant at which all is looked at; a fixed one, so that every run reads the same rows. */
const NOW = "2026-06-01T12:00:00.000Z";
const DAY_MS = 24 * HOUR_MS;
/** When the queued jobs were posted: within the minute in which a window of the statistics begins. */
const POSTED = instantAfter(NOW, -HOUR_MS - 30_000);
const TIMES = 3;
/** A statement that takes longer is a defect, milliseconds. */
const STATEMENT_MS_MAX = 5;

/** Processor time of this process: beside other work a clock would tell of that work. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Longest statement since it was asked last. */
class TimedConnection extends Connection {
  longestMs = 0;
  longest = "";

  override row<T extends object>(sql: string, ...values: never[]): T | undefined {
    return this.#timed(sql, () => super.row<T>(sql, ...values));
  }
  override rows<T extends object>(sql: string, ...values: never[]): T[] {
    return this.#timed(sql, () => super.rows<T>(sql, ...values));
  }
  override run(sql: string, ...values: never[]): number {
    return this.#timed(sql, () => super.run(sql, ...values));
  }

  #timed<T>(sql: string, run: () => T): T {
    const began = cpuMs();
    try {
      return run();
    } finally {
      const took = cpuMs() - began;
      if (took > this.longestMs) [this.longestMs, this.longest] = [took, sql];
    }
  }
}

function uuidOf<T extends JobUuid | WorkflowUuid>(number: number): T {
  // The text has the form of a uuid, which is what the brand stands for.
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}` as T;
}

/** An instant as the store writes it, so many milliseconds after another, as an expression of SQL. */
const instantSql = (from: Instant, ms: string) =>
  `strftime('%Y-%m-%dT%H:%M:%fZ', '${from}', printf('+%.4f seconds', (${ms}) / 1000.0))`;

/** One of the workflows; a job of the last one is rare. */
const WORKFLOW_SQL = `iif(number % 50000 = 7, ${WORKFLOWS}, 1 + number % ${WORKFLOWS - 1})`;

async function fill(path: string): Promise<void> {
  const db = new Connection(path);
  await db.write("fill", () => {
    for (let number = 1; number <= WORKFLOWS; number++) insertOne(db, number);
    db.run(
      "UPDATE jobs SET execution = 'succeeded', claimable_at = NULL, turn = NULL," +
        " finished_at = created_at WHERE id = 1",
    );
  });
  await db.close();
  const stepMs = DAY_MS / FINISHED;
  fillWithJobs(path, FINISHED, "succeeded", {
    created_at: instantSql(instantAfter(NOW, -DAY_MS), `number * ${stepMs}`),
    finished_at: instantSql(instantAfter(NOW, -DAY_MS), `number * ${stepMs} + 5`),
    definition_id: WORKFLOW_SQL,
    workflow_uuid: `'00000000-0000-4000-8000-' || printf('%012d', ${WORKFLOW_SQL})`,
    execution: "CASE number % 1000 WHEN 3 THEN 'failed' ELSE 'succeeded' END",
    target: "'/machines/' || number % 1000",
    params_sha256: "printf('%064d', number)",
  });
  fillWithJobs(path, QUEUED, "queued", {
    created_at: instantSql(POSTED, "number * 0.2"),
    exec_after: `'${instantAfter(NOW, -1000)}'`,
    claimable_at: `'${instantAfter(NOW, -1000)}'`,
    turn: "NULL",
    definition_id: WORKFLOW_SQL,
    workflow_uuid: `'00000000-0000-4000-8000-' || printf('%012d', ${WORKFLOW_SQL})`,
  });
}

function insertOne(db: Connection, number: number): void {
  const uuid = uuidOf<WorkflowUuid>(number);
  const chain = [{ uuid: uuid as never, name: "only", body: "(job, cb) => cb()" }];
  const workflow = { uuid, name: `workflow ${number}`, chain, onerror: [] };
  const job = { uuid: uuidOf<JobUuid>(number), workflow, target: null, params: { color: "red" } };
  insertJob(db, job, null, instantAfter(NOW, -DAY_MS));
}

type Look = readonly [name: string, look: (db: Connection) => unknown];

const COMMON = uuidOf<WorkflowUuid>(3);
const RARE = uuidOf<WorkflowUuid>(WORKFLOWS);
const PAGE = { limit: 50 };

const page = (filter: Parameters<typeof listKeys>[1], offset = 0) => (db: Connection) =>
  listRows(db, "id", filter, { ...PAGE, offset });
const count = (filter: Parameters<typeof countJobs>[1]) => (db: Connection) =>
  countJobs(db, filter);
const summaries = (filter: Partial<Parameters<typeof listSummaries>[1]>) => (db: Connection) =>
  listSummaries(db, { searchesParams: false, ...filter }, PAGE);

const FILTERS = {
  none: {},
  succeeded: { execution: "succeeded" },
  failed: { execution: "failed" },
  queued: { execution: "queued" },
  "a name": { name: "workflow 3" },
  "a rare name": { name: `workflow ${WORKFLOWS}` },
  "no such name": { name: "nobody" },
  "a workflow": { workflow_uuid: COMMON },
  "a rare workflow": { workflow_uuid: RARE },
  "a workflow, failed": { workflow_uuid: COMMON, execution: "failed" },
  "a workflow, canceled": { workflow_uuid: COMMON, execution: "canceled" },
  "a rare name, succeeded": { name: `workflow ${WORKFLOWS}`, execution: "succeeded" },
  "a target": { target: "/machines/7" },
  "an hour": { since: instantAfter(NOW, -2 * HOUR_MS), until: instantAfter(NOW, -HOUR_MS) },
  "a param": { params: { color: "red" } },
  "no such param": { params: { color: "blue" } },
} as const satisfies Record<string, Parameters<typeof countJobs>[1]>;

function looks(): Look[] {
  const found: Look[] = [];
  for (const [name, filter] of Object.entries(FILTERS)) {
    found.push([`list, ${name}`, page(filter)], [`count, ${name}`, count(filter)]);
    found.push([`offset 1000, ${name}`, page(filter, 1000)]);
    found.push([`offset 900000, ${name}`, page(filter, 900_000)]);
  }
  const life = {
    runner_id: "11111111-0000-4000-8000-000000000001" as RunnerId,
    incarnation: "22222222-0000-4000-8000-000000000001" as never,
  };
  const states: Execution[] = ["succeeded"];
  return [
    ...found,
    ["summaries", summaries({})],
    ["summaries, succeeded", summaries({ states })],
    ["summaries, a rare name", summaries({ name: `workflow ${WORKFLOWS}` })],
    ["summaries, no such word", summaries({ search: "nothing" })],
    ["summaries, an hour", summaries({ since: instantAfter(NOW, -2 * HOUR_MS) })],
    ["summaries, ended in an hour", summaries({ finished_since: instantAfter(NOW, -HOUR_MS) })],
    ["has param", (db) => hasParam(db, "size")],
    ["stats", (db) => selectStats(db, NOW)],
    ["stats by hour", (db) => selectFinished(db, instantAfter(NOW, -DAY_MS))],
    ["measures", (db) => selectMeasures(db, NOW)],
    ["claim of 4", (db) => db.write("claim", () => claimJobs(db, life, 4, NOW))],
  ];
}

/** The least of some times. */
async function measure(db: TimedConnection, look: Look[1]) {
  const runs: { longestMs: number; longest: string; totalMs: number }[] = [];
  for (let round = 1; round <= TIMES; round++) {
    [db.longestMs, db.longest] = [0, ""];
    const began = cpuMs();
    await look(db);
    const totalMs = cpuMs() - began;
    if (round > 0) runs.push({ longestMs: db.longestMs, longest: db.longest, totalMs });
  }
  runs.sort((one, other) => one.longestMs - other.longestMs);
  return runs[0] ?? { longestMs: NaN, longest: "", totalMs: NaN };
}

async function main(path: string): Promise<void> {
  const db = new TimedConnection(path);
  try {
    const rows: string[][] = [];
    const defects: string[] = [];
    for (const [name, look] of looks()) {
      const { longestMs, longest, totalMs } = await measure(db, look);
      const late = longestMs > STATEMENT_MS_MAX;
      rows.push([name, figure(longestMs), figure(totalMs), late ? "over" : ""]);
      if (late) defects.push(`${name}: ${longest.replaceAll(/\s+/g, " ")}`);
    }
    console.log(
      tableLines([["", "longest statement, ms of CPU", "all, ms", ""], ...rows]).join("\n"),
    );
    for (const defect of defects) console.log(defect);
  } finally {
    await db.close();
  }
}

const [given] = Deno.args;
if (given !== undefined) {
  if (!(await Deno.stat(given).then(() => true, () => false))) await fill(given);
  await main(given);
} else {
  await withRunFolder(async (folder) => {
    const path = join(folder, "history.db");
    await fill(path);
    await main(path);
  });
}
