// Fills a store with jobs by copying one that is there, many times, in SQL. It knows no columns: it takes
// whatever the schema has, so that it need not change with it, and counts the jobs in the end. The agent of the store must not run. By
// hand: fill.ts FILE JOBS.

import { DatabaseSync } from "node:sqlite";
import { recount } from "../tests/support/recount.ts";

/** Rows of one transaction; more would only make the write-ahead log longer. */
const CHUNK = 100_000;

interface Column {
  readonly name: string;
  readonly type: string;
  /** Place in the primary key, from 1; 0 when it is not part of it. */
  readonly pk: number;
}

interface Reference {
  readonly table: string;
  /** Column of the table, and the column of `jobs` that it refers to. */
  readonly from: string;
  readonly to: string;
}

type Row = Readonly<Record<string, string | number | bigint | Uint8Array | null>>;

/** A random uuid as text, as an expression of SQL. */
const UUID_TEXT = ["4", "2", "2", "2", "6"].map((bytes) => `lower(hex(randomblob(${bytes})))`)
  .join(" || '-' || ");

/** Expressions of SQL for columns that are not copied, of `number`: 1 for the first copy. */
export type Varied = Readonly<Record<string, string>>;

/** @throws {Error} as fillWithJobs() */
export function fillWithFinishedJobs(path: string, jobs: number): void {
  fillWithJobs(path, jobs, "succeeded");
}

/**
 * Copies a job that has an execution, with all that belongs to it.
 * @throws {Error} when the store has no such job, or jobs have no number as their key
 */
export function fillWithJobs(
  path: string,
  jobs: number,
  execution: string,
  varied: Varied = {},
): void {
  const db = new DatabaseSync(path);
  try {
    // Speed only: a store that is not whole after a power cut is made again.
    db.exec("PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; PRAGMA cache_size = -1000000");
    const key = columnsOf(db, "jobs").find(({ pk, type }) => pk === 1 && type === "INTEGER")?.name;
    if (key === undefined) throw new Error(`Cannot fill ${path}: jobs have no number as their key`);
    const template = db.prepare("SELECT * FROM jobs WHERE execution = ? LIMIT 1").get(execution);
    if (template === undefined) throw new Error(`Cannot fill ${path}: it has no ${execution} job`);
    const references = referencesToJobs(db);
    for (let copied = 0; copied < jobs; copied += CHUNK) {
      const last = Number(db.prepare(`SELECT max("${key}") AS last FROM jobs`).get()?.last);
      db.exec("BEGIN IMMEDIATE");
      copyJob(db, key, template, { varied, first: copied, times: Math.min(CHUNK, jobs - copied) });
      for (const reference of references) {
        copyRows(db, reference, template[reference.to] ?? null, key, last);
      }
      db.exec("COMMIT");
    }
    recount({ run: (sql) => db.exec(sql) });
    db.exec("PRAGMA synchronous = FULL; PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.close();
  }
}

function columnsOf(db: DatabaseSync, table: string): Column[] {
  // The columns of that pragma are SQLite's own.
  return db.prepare(`PRAGMA table_info("${table}")`).all() as unknown as Column[];
}

interface Copies {
  readonly varied: Varied;
  /** Copies that were made before. */
  readonly first: number;
  readonly times: number;
}

/** Copies one job; the keys are the next free ones, the uuids new. */
function copyJob(
  db: DatabaseSync,
  key: string,
  template: Row,
  { varied, first, times }: Copies,
): void {
  const names = columnsOf(db, "jobs").map(({ name }) => name).filter((name) => name !== key);
  const uuid = template.uuid instanceof Uint8Array ? "randomblob(16)" : UUID_TEXT;
  const values = names.map((name) => varied[name] ?? (name === "uuid" ? uuid : `job."${name}"`));
  db.prepare(`
    WITH RECURSIVE copies (number) AS (
      SELECT ?3 + 1 UNION ALL SELECT number + 1 FROM copies WHERE number < ?1)
    INSERT INTO jobs (${list(names)})
      SELECT ${values.join(", ")} FROM copies, jobs AS job WHERE job."${key}" = ?2
  `).run(first + times, template[key] ?? null, first);
}

/** Gives every job after `last` what the template has in a table that refers to jobs. */
function copyRows(
  db: DatabaseSync,
  { table, from, to }: Reference,
  template: Row[string] | null,
  key: string,
  last: number,
): void {
  const columns = columnsOf(db, table);
  // A number that is the whole key of a row is given by SQLite itself.
  const given = columns.filter(({ pk }) => pk > 0).length === 1
    ? columns.find(({ pk, type, name }) => pk === 1 && type === "INTEGER" && name !== from)?.name
    : undefined;
  const names = columns.map(({ name }) => name).filter((name) => name !== given);
  const values = names.map((name) => name === from ? `job."${to}"` : `row."${name}"`);
  db.prepare(`
    INSERT INTO "${table}" (${list(names)})
      SELECT ${values.join(", ")} FROM jobs AS job, "${table}" AS row
       WHERE row."${from}" = ?1 AND job."${key}" > ?2
  `).run(template, last);
}

function referencesToJobs(db: DatabaseSync): Reference[] {
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  return tables.flatMap(({ name: table }) =>
    db.prepare(`PRAGMA foreign_key_list("${table}")`).all()
      .filter((key) => key.table === "jobs")
      .map((key) => ({ table: `${table}`, from: `${key.from}`, to: `${key.to}` }))
  );
}

function list(names: readonly string[]): string {
  return names.map((name) => `"${name}"`).join(", ");
}

if (import.meta.main) {
  const [path, jobs] = Deno.args;
  if (path === undefined || !/^\d+$/.test(jobs ?? "")) {
    console.error("usage: fill.ts FILE JOBS");
    Deno.exit(2);
  }
  fillWithFinishedJobs(path, Number(jobs));
}
