// One open SQLite file: its settings, its prepared statements, and a cache of values derived from rows that seldom or
// never change. Writes go through group_commit.ts.

import { type BindValue, Database, type Row, type Statement } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import type { JOB_CHANGES } from "../../domain/event.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Job } from "../../domain/job/job.ts";
import type { Execution, Phase } from "../../domain/job/state.ts";
import {
  type ConnectionWatch,
  GroupCommit,
  NO_LOG,
  openWriteAheadLog,
  type WriteAheadLog,
} from "./group_commit.ts";
import type { JobNotice } from "../host_store.ts";
import { CACHED_CHARS_MAX, CACHED_MAX, type Pace } from "../limits.ts";
import type { SchemaSteps } from "../sql.ts";
import { CounterChanges } from "./counters.ts";
import { migrate } from "./migrations.ts";

/**
 * Pages in the write-ahead log at which a checkpoint writes them back. A page that many commits change is then written
 * back once; with SQLite's default of 1,000 pages, a new job costs a tenth more.
 */
const WAL_PAGES = 4_000;
/** Bytes to which the log is truncated after a checkpoint. */
const WAL_BYTES_KEPT = 16 * 1024 * 1024;
/** Milliseconds to wait for another process, such as an operator's sqlite3, to release the file. */
const BUSY_MS = 100;
/**
 * A LIMIT that consists of a parameter only: SQLite 3.47 and later compile such a statement again for every bound
 * value, which takes longer than most statements run.
 */
const BARE_LIMIT = /\bLIMIT (\?\d*)/g;
/** The path of a database that has no file. */
export const IN_MEMORY = ":memory:";

/**
 * One open database file. Statements run synchronously; durably() resolves once the writes are on the
 * disk.
 */
export class Connection {
  readonly #db: Database;
  readonly #log: WriteAheadLog;
  readonly #commits: GroupCommit;
  readonly #statements = new Map<string, Statement>();
  readonly #cache = new Map<string, unknown>();
  readonly #followers = new Set<() => void>();
  readonly #noticed = new Set<(notice: JobNotice) => void>();
  /** Whether a job of the current transaction became claimable, now or later. */
  #claimable = false;
  /** What else the current transaction has changed. */
  #notices: JobNotice[] = [];
  /** Changes of the current transaction to the counters. */
  readonly counters = new CounterChanges((sql, ...params) => this.run(sql, ...params));
  /** Job events of the current transaction. */
  readonly events = new GatheredEvents((sql, ...params) => this.run(sql, ...params));
  /** New jobs that may be claimed and have not changed since; most of them start soon. */
  readonly fresh = new Map<JobUuid, Job>();
  /** Readers of rows that are sent in parts. */
  readonly readers = new RowReaders();
  #open = true;

  /**
   * Opens the file, or a database in memory, and brings its schema up to date.
   * @param path a file, or `:memory:`
   * @throws {AgentError} as migrate()
   */
  constructor(path: string, watch: ConnectionWatch = {}, schema?: SchemaSteps) {
    this.#db = new Database(path);
    try {
      // FULL would add a sync after each commit, which group_commit.ts does on another thread.
      this.#db.exec(`
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = NORMAL;
        PRAGMA trusted_schema = OFF;
        PRAGMA temp_store = MEMORY;
        PRAGMA busy_timeout = ${BUSY_MS};
        PRAGMA wal_autocheckpoint = ${WAL_PAGES};
        PRAGMA journal_size_limit = ${WAL_BYTES_KEPT};
      `);
      migrate(this.#db, watch.migrating, schema);
    } catch (error) {
      this.#db.close();
      throw error;
    }
    this.#log = path === IN_MEMORY ? NO_LOG : openWriteAheadLog(path);
    this.#commits = new GroupCommit(this.#db, this.#log, watch, {
      written: () => {
        this.counters.write();
        this.events.write();
      },
      undone: () => {
        this.#cache.clear();
        this.fresh.clear();
        this.counters.drop();
        this.events.drop();
        // What the other writes of the transaction have changed may still be committed.
        if (!this.#db.inTransaction) this.#notices = [];
      },
      committed: () => {
        if (this.#claimable) this.#noticed.forEach((call) => call({ kind: "queued" }));
        this.#claimable = false;
      },
      synced: () => {
        for (const notice of this.#notices) this.#noticed.forEach((call) => call(notice));
        this.#notices = [];
        this.#followers.forEach((call) => call());
      },
    });
  }

  /** The first row of a statement, which is prepared once. */
  row<T extends object = Row>(sql: string, ...params: BindValue[]): T | undefined {
    return this.#statement(sql).get<T>(...params);
  }

  rows<T extends object = Row>(sql: string, ...params: BindValue[]): T[] {
    return this.#statement(sql).all<T>(...params);
  }

  /** Runs a statement without result rows. @returns the number of changed rows */
  run(sql: string, ...params: BindValue[]): number {
    return this.#statement(sql).run(...params);
  }

  /** The id of the row that run() last inserted. RETURNING would cost a third of an insert. */
  get insertedId(): number {
    return this.#db.lastInsertRowId;
  }

  /**
   * A value derived from rows, cached unless it is large. A write that changes such a row calls forget()
   * first; values cached by a transaction that is rolled back are dropped.
   * @param kind what the ids identify
   * @param make returns the value and its approximate size in characters
   */
  cached<T>(kind: string, id: number | string, make: () => { value: T; chars: number }): T {
    const key = `${kind} ${id}`;
    const found = this.#cache.get(key);
    // Each kind has its own keys, so the value has the type of its kind.
    if (found !== undefined) return found as T;
    const { value, chars } = make();
    if (chars > CACHED_CHARS_MAX) return value;
    if (this.#cache.size >= CACHED_MAX) this.#cache.clear();
    this.#cache.set(key, value);
    return value;
  }

  /** A cached value, if there is one. */
  keptAlready<T>(kind: string, id: number | string): T | undefined {
    return this.#cache.get(`${kind} ${id}`) as T | undefined;
  }

  /** Call before changing or removing a row whose value may be cached. */
  forget(kind: string, id: number | string): void {
    this.#cache.delete(`${kind} ${id}`);
  }

  /**
   * Queues a write for the next commit.
   * @param name of the write, for observers
   * @param pace whether it may wait briefly to share a commit
   * @returns the result of the function, once it is durable
   * @throws {AgentError} as GroupCommit.write; `aborted` when the store is closed
   */
  write<T>(name: string, run: () => T, pace: Pace = "prompt"): Promise<T> {
    if (this.#open) return this.#commits.write(name, run, pace);
    return Promise.reject(new AgentError("aborted", "Cannot write: the store is closed"));
  }

  hurry(): void {
    this.#commits.hurry();
  }

  /** Calls back after every commit, once it is durable. @returns a function that ends it */
  follow(committed: () => void): () => void {
    this.#followers.add(committed);
    return () => this.#followers.delete(committed);
  }

  /** Call when a job becomes claimable, now or at a later time. */
  becameClaimable(): void {
    this.#claimable = true;
  }

  /** Call when a write has changed something else that others wait for. A notice of a failed write does no harm. */
  notify(notice: JobNotice): void {
    this.#notices.push(notice);
  }

  /**
   * Calls back with the notices of every commit once it is durable, and for jobs that became claimable while it is being
   * synced.
   * @returns a function that ends it
   */
  followJobs(noticed: (notice: JobNotice) => void): () => void {
    this.#noticed.add(noticed);
    return () => this.#noticed.delete(noticed);
  }

  /** Resolves a read once everything it may have seen is durable. */
  durably<T>(read: () => T): Promise<T> {
    return this.#commits.durably(read);
  }

  /** Commits pending writes and closes the file. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#commits.finished();
    this.#log.close();
    this.#statements.clear();
    this.#db.close();
  }

  #statement(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql.replace(BARE_LIMIT, "LIMIT ($1 + 0)"));
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/** Bytes kept in memory for readers whose rows were changed while they were reading. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

/** A text that callers are reading. */
interface OpenText {
  readonly row: string;
  readonly key: string;
  readonly readWhole: () => Uint8Array | undefined;
  readers: number;
  /** The text before the row was changed. */
  kept?: Uint8Array | "removed";
}

/** A caller that reads a text which may change before its end. */
export interface TextReader {
  /** The original text, if it was changed since. @throws {AgentError} `aborted` when it was not kept */
  original(): Uint8Array | undefined;
  close(): void;
}

/**
 * Rows that are sent to callers in parts. A slow caller does not block writes: before a write changes the row, the rest of
 * the row is read once for all of its readers.
 */
class RowReaders {
  readonly #open = new Map<string, OpenText>();
  #keptBytes = 0;

  /**
   * Begins to read.
   * @param row id of the row, as changing() is given it
   * @param key id of the text within the row
   */
  open(row: string, key: string, readWhole: () => Uint8Array | undefined): TextReader {
    const place = `${row} ${key}`;
    const text = this.#open.get(place) ?? { row, key, readWhole, readers: 0 };
    this.#open.set(place, text);
    text.readers += 1;
    let closed = false;
    return {
      original: () => {
        if (text.kept !== "removed") return text.kept;
        throw new AgentError("aborted", "Cannot read the rest of the text: its row has changed");
      },
      close: () => {
        if (closed) return;
        closed = true;
        text.readers -= 1;
        if (text.readers > 0) return;
        if (text.kept instanceof Uint8Array) this.#keptBytes -= text.kept.length;
        if (this.#open.get(place) === text) this.#open.delete(place);
      },
    };
  }

  get idle(): boolean {
    return this.#open.size === 0;
  }

  /** Call before changing or removing a row. */
  changing(row: string): void {
    for (const [place, text] of this.#open) {
      if (text.row !== row) continue;
      // Later readers see the changed row.
      this.#open.delete(place);
      const whole = text.readWhole();
      const fits = whole !== undefined && this.#keptBytes + whole.length <= KEPT_BYTES_MAX;
      text.kept = fits ? whole : "removed";
      if (fits) this.#keptBytes += whole.length;
    }
  }
}

/** An event of a job; its kind is `machine` if it concerns only the machine of the job. */
interface GatheredEvent {
  readonly at: Instant;
  readonly job_id: number;
  readonly change: typeof JOB_CHANGES[number] | null;
  readonly state: Execution;
  /** For events about tasks: the phase before the change, its number of ended tasks, and the phase after the change. */
  readonly phase?: Phase;
  readonly ended?: number;
  readonly next_phase?: Phase;
}

const COLUMNS = "kind, at, job_id, change, state, phase, ended, next_phase";
/** Rows per statement, the largest first. */
const SIZES = [16, 4, 1];
const INSERTS = SIZES.map((size) => {
  const row = `(${COLUMNS.split(",").map(() => "?").join(", ")})`;
  return {
    size,
    sql: `INSERT INTO events (${COLUMNS}) VALUES ${Array(size).fill(row).join(", ")}`,
  };
});

/**
 * The events of a transaction, in order. Several are inserted by one statement, because one statement per event takes three
 * times as long.
 */
class GatheredEvents {
  readonly #run: (sql: string, ...values: BindValue[]) => void;
  #rows: BindValue[][] = [];

  /** @param run runs a statement */
  constructor(run: (sql: string, ...values: BindValue[]) => void) {
    this.#run = run;
  }

  add({ at, job_id, change, state, phase, ended, next_phase }: GatheredEvent): void {
    const kind = change === null ? "machine" : "job";
    const tasks = [phase ?? null, ended ?? null, next_phase ?? null];
    this.#rows.push([kind, at, job_id, change, state, ...tasks]);
  }

  /** Inserts the gathered events, at the end of a transaction and before any event that must follow them. */
  write(): void {
    const rows = this.#rows;
    if (rows.length === 0) return;
    this.#rows = [];
    let at = 0;
    for (const { size, sql } of INSERTS) {
      for (; rows.length - at >= size; at += size) {
        this.#run(sql, ...rows.slice(at, at + size).flat());
      }
    }
  }

  /** Drops the events of a transaction that was rolled back. */
  drop(): void {
    this.#rows = [];
  }
}
