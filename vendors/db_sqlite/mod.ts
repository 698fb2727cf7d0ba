// The interface of @db/sqlite (class Database and its statements) over Deno's built-in node:sqlite,
// so that the binary needs no shared library and no FFI permission. Only what zonewright calls is
// here, under the names and with the meaning that package gives it: moving to the package itself is
// an edit of deno.json.

import { backup as copyPages, DatabaseSync, type StatementSync } from "node:sqlite";

/** A value that can be bound to a statement. Numbers beyond 2^53 need a bigint. */
export type BindValue = string | number | bigint | null | Uint8Array;
/** The columns of a row by name. */
export type Row = Record<string, BindValue>;

export interface DatabaseOpenOptions {
  /** Refuse every write. */
  readonly?: boolean;
  /** Make the file when it is not there. Default true. */
  create?: boolean;
}

/** One prepared statement. It lives as long as its database is open. */
export class Statement {
  readonly #statement: StatementSync;
  readonly #ran: (lastInsertRowId: number) => void;
  #names: readonly string[] | undefined;

  constructor(statement: StatementSync, ran: (lastInsertRowId: number) => void) {
    this.#statement = statement;
    this.#ran = ran;
    // The object that node:sqlite makes of a row is a dictionary, with its names made again for each row.
    statement.setReturnArrays(true);
  }

  /** Runs the statement and returns the number of rows that it changed. */
  run(...params: BindValue[]): number {
    const { changes, lastInsertRowid } = this.#statement.run(...params);
    this.#ran(Number(lastInsertRowid));
    return Number(changes);
  }

  /** The first row, or undefined when there is none. */
  get<T extends object = Row>(...params: BindValue[]): T | undefined {
    const values: unknown = this.#statement.get(...params);
    return values === undefined ? undefined : this.#rowOf(values) as T;
  }

  all<T extends object = Row>(...params: BindValue[]): T[] {
    const rows: unknown[] = this.#statement.all(...params);
    return rows.map((values) => this.#rowOf(values)) as T[];
  }

  /** @param values an array, which the types of node:sqlite do not know */
  #rowOf(values: unknown): Row {
    const names = this.#names ??= this.#statement.columns().map(({ name }) => name);
    const row: Row = {};
    for (let at = 0; at < names.length; at++) {
      row[names[at] as string] = (values as BindValue[])[at] as BindValue;
    }
    return row;
  }
}

/** An open database. */
export class Database {
  readonly #db: DatabaseSync;
  /** Statements of transactions, prepared: unlike exec(), they tell the code of a failure. */
  readonly #steps = new Map<string, StatementSync>();
  #depth = 0;
  #open = true;
  #lastInsertRowId = 0;

  /** @throws {Error} when the file cannot be opened or is not a database. */
  constructor(path: string | URL, options: DatabaseOpenOptions = {}) {
    const file = path instanceof URL ? decodeURIComponent(path.pathname) : path;
    // SQLite itself would make a missing file; the option is honoured here.
    if (options.create === false && file !== ":memory:") Deno.statSync(file);
    this.#db = new DatabaseSync(file, { readOnly: options.readonly ?? false });
  }

  get open(): boolean {
    return this.#open;
  }

  /** Whether a transaction is under way on this connection. */
  get inTransaction(): boolean {
    return this.#db.isTransaction;
  }

  /** The id of the row that run() has inserted last. */
  get lastInsertRowId(): number {
    return this.#lastInsertRowId;
  }

  /** Prepares one statement; anything after its semicolon would be ignored by SQLite. */
  prepare(sql: string): Statement {
    return new Statement(this.#db.prepare(sql), (id) => this.#lastInsertRowId = id);
  }

  /** Runs SQL text of any number of statements, without parameters. */
  exec(sql: string): void {
    this.#db.exec(sql);
  }

  /**
   * Wraps a function into a transaction: committed when it returns, rolled back when it throws.
   * Inside another transaction it becomes a savepoint, so that its failure undoes only its own part.
   * The function must not await: everything on this connection would join its transaction.
   */
  transaction<A extends unknown[], R>(fn: (...args: A) => R): (...args: A) => R {
    return (...args: A): R => {
      const level = this.#depth;
      const savepoint = `nested_${level}`;
      this.#step(level > 0 ? `SAVEPOINT ${savepoint}` : "BEGIN IMMEDIATE");
      this.#depth = level + 1;
      try {
        const result = fn(...args);
        this.#step(level > 0 ? `RELEASE ${savepoint}` : "COMMIT");
        return result;
      } catch (error) {
        // A full disk makes SQLite roll back by itself; a second ROLLBACK would hide the cause.
        if (this.#db.isTransaction) {
          this.#step(level > 0 ? `ROLLBACK TO ${savepoint}` : "ROLLBACK");
          if (level > 0) this.#step(`RELEASE ${savepoint}`);
        }
        throw error;
      } finally {
        this.#depth = level;
      }
    };
  }

  #step(sql: string): void {
    let statement = this.#steps.get(sql);
    if (statement === undefined) {
      statement = this.#db.prepare(sql);
      this.#steps.set(sql, statement);
    }
    statement.run();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#db.close();
  }

  /** The connection itself, for backup(). */
  static handleOf(database: Database): DatabaseSync {
    return database.#db;
  }
}

/**
 * Copies a database into a file by SQLite's backup interface. The package copies into an open
 * database, without a promise; Deno's `node:sqlite` knows only files.
 */
export async function backup(from: Database, path: string, pagesPerStep: number): Promise<void> {
  await copyPages(Database.handleOf(from), path, { rate: pagesPerStep });
}
