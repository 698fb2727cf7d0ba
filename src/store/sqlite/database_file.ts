// The database as a file: backups while the agent runs, inspection, and checks before a restore. None of this
// needs a running agent.

import { backup, Database } from "@db/sqlite";
import { dirname, join } from "@std/path";
import { AgentError, isNoSpace, messageOf, systemCode, systemReason } from "../../domain/error.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Execution } from "../../domain/job/state.ts";
import type { Leftover } from "../claim_store.ts";
import type { IndexSync } from "../store.ts";
import { LEFT_CLAIMS } from "./job/machine_claims.ts";
import { versionProblem } from "./migrations.ts";

/** Result of inspecting a database. */
export interface DatabaseReport {
  readonly path: string;
  /** Bytes of the file itself, without its write-ahead log. */
  readonly bytes: number;
  readonly schema: number;
  readonly jobs: number;
  readonly workflows: number;
  /** Findings of SQLite's integrity check; empty for a sound file. */
  readonly problems: readonly string[];
}

const PROBLEMS_MAX = 20;
/** Pages that are copied in one step. */
const PAGES_PER_STEP = 1000;
/** Milliseconds to wait for a lock that the agent holds during a commit. */
const BUSY_MS = 10_000;
/** SQLite's codes for the index of a log that it cannot make: CANTOPEN, IOERR_SHMOPEN, IOERR_SHMSIZE. */
const NO_INDEX = [14, 4618, 4874];

/**
 * Checks a database: every page, index and reference.
 * @throws {AgentError} `not_found`; `conflict` when it is not a database of this program; `other_schema` when a newer
 *   or an unreleased one wrote it
 */
export async function inspectDatabase(path: string): Promise<DatabaseReport> {
  const { size } = await statOf(path);
  return reading(path, (db) => {
    const schema = schemaOf(db, path);
    const count = (table: "jobs" | "workflows") =>
      Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0);
    const problems = [...integrityProblems(db), ...referenceProblems(db)].slice(0, PROBLEMS_MAX);
    return {
      path,
      bytes: size,
      schema,
      jobs: count("jobs"),
      workflows: count("workflows"),
      problems,
    };
  });
}

/**
 * Copies a consistent snapshot of a database with SQLite's backup interface, safe while an agent writes.
 * The copy is checked and synced before it gets its name.
 * @param to must not exist
 * @param users to read the source and to write the copy as; this process's own unless given
 * @throws {AgentError} `not_found`, `already_exists` for `to`, `conflict` when the copy is not sound,
 *   `storage_full`
 * @see sqlite.org/backup.html
 */
export async function copyDatabase(
  from: string,
  to: string,
  { reading = asSelf, writing = asSelf }: { reading?: RunAs; writing?: RunAs } = {},
): Promise<DatabaseReport> {
  await reading(() => statOf(from));
  const source = await reading(() => openedForCopy(from));
  try {
    return await writing(() => copyInto(source, from, to));
  } finally {
    await reading(() => source.close());
  }
}

/** Runs a function as one user or another. */
type RunAs = <T>(run: () => T | Promise<T>) => Promise<T>;

const asSelf: RunAs = async (run) => await run();

async function copyInto(source: Database, from: string, to: string): Promise<DatabaseReport> {
  if (await exists(to)) {
    throw new AgentError(
      "already_exists",
      `Cannot write ${to}: it already exists, expected a new file`,
    );
  }
  const partial = `${to}.partial`;
  await removeDatabase(partial);
  try {
    // Created first, because the backup interface cannot set a mode.
    await Deno.writeFile(partial, new Uint8Array(), { mode: 0o600, createNew: true });
    await copyPagesOf(source, partial);
    const report = await inspectDatabase(partial);
    if (report.problems.length > 0) {
      const message = `Cannot use the copy of ${from}: ${report.problems[0]}`;
      throw new AgentError("conflict", message);
    }
    await syncFile(partial);
    await Deno.link(partial, to);
    await syncFile(dirname(to));
    return { ...report, path: to };
  } catch (error) {
    throw copyFailure(error, to);
  } finally {
    await removeDatabase(partial);
  }
}

function copyFailure(error: unknown, to: string): AgentError {
  if (error instanceof Deno.errors.AlreadyExists) {
    return new AgentError(
      "already_exists",
      `Cannot write ${to}: it already exists, expected a new file`,
    );
  }
  if (error instanceof AgentError) return error;
  const code = isNoSpace(error) ? "storage_full" : systemCode(error) ?? "internal";
  const why = code === "not_found"
    ? `the folder ${dirname(to)} does not exist`
    : code === "forbidden"
    ? systemReason(error)
    : messageOf(error);
  return new AgentError(code, `Cannot write ${to}: ${why}`, { cause: error });
}

interface LatestRecords {
  /** When its latest job or sync was recorded; null for a database without either. */
  readonly recorded_at: Instant | null;
  readonly sync: IndexSync | null;
}

/** Reads the latest records. @throws {AgentError} `conflict`, `other_schema` as inspectDatabase() */
export function readLatest(path: string): LatestRecords {
  return reading(path, (db) => {
    schemaOf(db, path);
    const sync = selectLatestSync(db);
    const instants = [selectLatestJob(db), sync?.finished_at ?? null].filter((at) => at !== null);
    return { recorded_at: instants.sort().at(-1) ?? null, sync };
  });
}

function selectLatestJob(db: Database): Instant | null {
  const sql = "SELECT max(created_at) AS at FROM jobs";
  return db.prepare(sql).get<{ at: Instant | null }>()?.at ?? null;
}

function selectLatestSync(db: Database): IndexSync | null {
  const sql = "SELECT report FROM index_syncs ORDER BY id DESC LIMIT 1";
  const last = db.prepare(sql).get<{ report: string }>();
  // The text was made by the store from a report.
  return last === undefined ? null : JSON.parse(last.report) as IndexSync;
}

/** The executions of the given jobs, if the database has them. @throws {AgentError} as readLatest() */
export function readExecutions(
  path: string,
  uuids: readonly string[],
): ReadonlyMap<string, Execution> {
  return reading(path, (db) => {
    schemaOf(db, path);
    const statement = db.prepare("SELECT execution FROM jobs WHERE uuid = ?");
    const known = new Map<string, Execution>();
    for (const uuid of uuids) {
      const row = statement.get<{ execution: Execution }>(uuid);
      if (row !== undefined) known.set(uuid, row.execution);
    }
    return known;
  });
}

/** Leftovers of jobs, as MachineClaimStore.left(). @throws {AgentError} as readLatest() */
export function readLeft(path: string): Pick<Leftover, "uuid" | "job_uuid" | "execution">[] {
  return reading(path, (db) => {
    schemaOf(db, path);
    return db.prepare(`SELECT c.uuid, c.job_uuid, coalesce(j.execution, c.execution) AS execution
       ${LEFT_CLAIMS}`).all();
  });
}

/** Copies a database page by page, into one file without a log. */
export async function copyPages(from: string, to: string): Promise<void> {
  const db = openedForCopy(from);
  try {
    await copyPagesOf(db, to);
  } finally {
    db.close();
  }
}

/** Opens a database with all of its files; the process may drop its rights afterwards. */
function openedForCopy(from: string): Database {
  try {
    return openedForReading(from);
  } catch (error) {
    throw unreadable(from, error);
  }
}

/** Opens a database with all of its files. @throws {Error} of SQLite */
function openedForReading(path: string): Database {
  try {
    return withFilesOpen(new Database(path, { readonly: true }));
  } catch (error) {
    const code = error instanceof Error && "errcode" in error ? error.errcode : undefined;
    if (!NO_INDEX.some((one) => one === code) || hasLog(path)) throw error;
    return openedCopy(path);
  }
}

/**
 * Opens a copy of a database without a log. SQLite makes the index of a log beside the file, even for reading, which
 * fails on a full disk and on a read-only file system. An agent that writes a log has made the index. That nothing
 * changes the file can be said to SQLite by a URI alone, which the runtime takes for a name.
 */
function openedCopy(path: string): Database {
  const folder = Deno.makeTempDirSync({ prefix: "zonewright-db-" });
  const copy = join(folder, "copy.db");
  try {
    Deno.copyFileSync(path, copy);
    return withFilesOpen(new Database(copy, { readonly: true }));
  } catch (cause) {
    if (!isNoSpace(cause)) throw cause;
    const words = `its disk is full or read-only, and ${dirname(folder)} has no room for a copy, ` +
      "expected TMPDIR on another disk";
    throw new Error(words, { cause });
  } finally {
    // What is open can still be read.
    Deno.removeSync(folder, { recursive: true });
  }
}

function withFilesOpen(db: Database): Database {
  try {
    db.exec(`PRAGMA busy_timeout = ${BUSY_MS}`);
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/**
 * Refuses to make a database beside the log of one that was removed or renamed: SQLite would drop the log, and with it
 * acknowledged commits.
 * @throws {AgentError} `conflict`
 */
export async function requireOwnLog(path: string): Promise<void> {
  if (await exists(path) || !hasLog(path)) return;
  const message = `Cannot open the store ${JSON.stringify(path)}: it was removed, but its log ` +
    `${path}-wal was not, expected it back in its place, or its log moved beside it`;
  throw new AgentError("conflict", message);
}

/** Whether a database has writes that are not in its own file. */
function hasLog(path: string): boolean {
  try {
    return Deno.statSync(`${path}-wal`).size > 0;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Adds what was expected, which SQLite's message for another kind of file does not say. */
function unreadable(path: string, error: unknown): AgentError {
  const words = messageOf(error);
  const why = words === "file is not a database" ? "it is not an SQLite database" : words;
  return new AgentError("conflict", `Cannot read ${path}: ${why}`, { cause: error });
}

async function copyPagesOf(db: Database, to: string): Promise<void> {
  await backup(db, to, PAGES_PER_STEP);
  const copy = new Database(to, { create: false });
  try {
    // A single file, without the log of a database that is in use.
    copy.exec("PRAGMA journal_mode = DELETE");
  } finally {
    copy.close();
  }
}

/** @throws {AgentError} `conflict` for what SQLite cannot read */
function reading<T>(path: string, read: (db: Database) => T): T {
  let db: Database | undefined;
  try {
    // Opening a pipe would wait for a writer.
    if (!Deno.statSync(path).isFile) throw new Error("it is not a regular file");
    db = openedForReading(path);
    return read(db);
  } catch (error) {
    if (error instanceof AgentError) throw error;
    throw unreadable(path, error);
  } finally {
    db?.close();
  }
}

function schemaOf(db: Database, path: string): number {
  const schema = Number(db.prepare("PRAGMA user_version").get()?.user_version ?? 0);
  const ours = db.prepare(
    "SELECT count(*) AS n FROM sqlite_schema WHERE type = 'table' AND name IN ('jobs', 'workflows')",
  ).get();
  if (schema === 0 || ours?.n !== 2) {
    const found = `schema ${schema} and ${
      Number(ours?.n ?? 0)
    } of the tables "jobs" and "workflows"`;
    const message =
      `Cannot use ${path}: it has ${found}, expected schema 1 or later and both tables`;
    throw new AgentError("conflict", message);
  }
  const problem = versionProblem(schema);
  if (problem !== undefined) throw new AgentError("other_schema", `Cannot use ${path}: ${problem}`);
  return schema;
}

function integrityProblems(db: Database): string[] {
  const rows = db.prepare(`PRAGMA integrity_check(${PROBLEMS_MAX})`).all<
    { integrity_check: string }
  >();
  return rows.map((row) => row.integrity_check).filter((text) => text !== "ok");
}

function referenceProblems(db: Database): string[] {
  return db.prepare("PRAGMA foreign_key_check").all<{ table: string; parent: string }>()
    .slice(0, PROBLEMS_MAX)
    .map(({ table, parent }) => `a row of ${table} refers to a row of ${parent} that is not there`);
}

async function statOf(path: string): Promise<Deno.FileInfo> {
  try {
    return await Deno.stat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      throw new AgentError(
        "not_found",
        `Cannot read ${path}: it does not exist, expected a database`,
      );
    }
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    const message =
      `Cannot read ${path}: permission denied, expected root, or the user of the agent`;
    throw new AgentError("forbidden", message, { cause: error });
  }
}

async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}

/** Syncs a file, or the entries of a folder, to the disk. */
export async function syncFile(path: string): Promise<void> {
  const file = await Deno.open(path, { read: true });
  try {
    await file.sync();
  } finally {
    file.close();
  }
}

/** Removes a database with its log and shared-memory files. @throws {Error} of the system, unless they are missing */
export async function removeDatabase(path: string): Promise<void> {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) {
    await Deno.remove(`${path}${suffix}`).catch((error: unknown) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
}
