// One open SQLite file: its settings, its prepared statements, and group commit.
//
// Every write is a function that is queued; whatever has been queued by the time the event loop
// comes round is run in one transaction, so that concurrent writers share one fsync, and each
// answer is given only after that commit (promise P1). A function runs in a savepoint of its own:
// when it throws, only its own part is undone. Functions never await, so that no read and no other
// write can come between their statements.

import { type BindValue, Database, type Row, type Statement } from "@db/sqlite";
import { AgentError, messageOf } from "../../domain/error.ts";
import { migrate } from "./migrations.ts";

/** Writes that wait for one commit at the most; more are refused as overload. */
const PENDING_WRITES_MAX = 10_000;
/** Bytes that the write-ahead log is cut back to after a checkpoint. */
const WAL_BYTES_KEPT = 16 * 1024 * 1024;

interface PendingWrite {
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Settled = { readonly ok: true; readonly value: unknown } | {
  readonly ok: false;
  readonly error: unknown;
};

export class Connection {
  readonly #db: Database;
  readonly #statements = new Map<string, Statement>();
  #pending: PendingWrite[] = [];
  #flush: Promise<void> | undefined;
  #open = true;

  /**
   * Opens the file, or a database in memory, and brings its schema up to date.
   * @param path a file, or `:memory:`
   * @throws {AgentError} `internal` when the file holds a newer schema than this program knows
   */
  constructor(path: string) {
    this.#db = new Database(path);
    try {
      this.#db.exec(`
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = FULL;
        PRAGMA foreign_keys = ON;
        PRAGMA trusted_schema = OFF;
        PRAGMA temp_store = MEMORY;
        PRAGMA journal_size_limit = ${WAL_BYTES_KEPT};
      `);
      migrate(this.#db);
    } catch (error) {
      this.#db.close();
      throw error;
    }
  }

  /** The first row of a statement, which is prepared once. */
  row<T extends object = Row>(sql: string, ...params: BindValue[]): T | undefined {
    return this.#statement(sql).get<T>(...params);
  }

  rows<T extends object = Row>(sql: string, ...params: BindValue[]): T[] {
    return this.#statement(sql).all<T>(...params);
  }

  /** Runs a statement that answers no rows. @returns the number of rows that it changed */
  run(sql: string, ...params: BindValue[]): number {
    return this.#statement(sql).run(...params);
  }

  /**
   * Queues a write for the next commit.
   * @returns what the function returned, once it is durable
   * @throws {AgentError} `overloaded` when too many writes wait; `storage_full` when the disk is
   */
  write<T>(run: () => T): Promise<T> {
    if (!this.#open) {
      return Promise.reject(new AgentError("aborted", "Cannot write: the store is closed"));
    }
    if (this.#pending.length >= PENDING_WRITES_MAX) {
      const message = `Cannot write: ${PENDING_WRITES_MAX} writes are waiting`;
      return Promise.reject(new AgentError("overloaded", message, { retryAfterSeconds: 1 }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.push({ run, resolve, reject });
    this.#flush ??= new Promise((done) =>
      setImmediate(() => {
        this.#flush = undefined;
        this.#commit();
        done();
      })
    );
    // The promise is settled with what `run` returned, so its type is T.
    return promise as Promise<T>;
  }

  /** Commits what waits and closes the file. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#flush;
    this.#statements.clear();
    this.#db.close();
  }

  #statement(sql: string): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #commit(): void {
    const batch = this.#pending;
    this.#pending = [];
    const settled: Settled[] = [];
    try {
      this.#db.transaction(() => {
        // Alone, a write that throws undoes itself with the transaction: no savepoint is needed.
        const [only, ...more] = batch;
        if (only !== undefined && more.length === 0) settled.push({ ok: true, value: only.run() });
        else for (const { run } of batch) settled.push(this.#attempt(run));
      })();
    } catch (error) {
      const failure = storageError(error);
      for (const { reject } of batch) reject(failure);
      return;
    }
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = settled[index];
      if (outcome?.ok) resolve(outcome.value);
      else reject(outcome?.error);
    }
  }

  /** Runs one write of a batch; what it throws is its own, unless the whole transaction is gone. */
  #attempt(run: () => unknown): Settled {
    try {
      return { ok: true, value: this.#db.transaction(run)() };
    } catch (error) {
      if (isStorageFailure(error)) throw error;
      return { ok: false, error };
    }
  }
}

/** SQLite's primary result codes (sqlite.org/rescode.html) after which nothing may be acknowledged. */
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
/** SQLite's words for the two. Deno's exec(), by which a transaction commits, tells no code. */
const STORAGE_WORDS = ["disk I/O error", "database or disk is full"];

function primaryCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode & 0xff : undefined;
}

function isStorageFailure(error: unknown): boolean {
  const code = primaryCode(error);
  return code === SQLITE_IOERR || code === SQLITE_FULL ||
    (code === undefined && error instanceof Error && STORAGE_WORDS.includes(error.message));
}

function storageError(error: unknown): unknown {
  if (!isStorageFailure(error)) return error;
  const message = `Cannot write to the store: ${messageOf(error)}`;
  return new AgentError("storage_full", message, { cause: error, retryAfterSeconds: 5 });
}
