// One open SQLite file: its settings, its prepared statements, and what is kept of rows that never
// change. Writes go through group_commit.ts.

import { type BindValue, Database, type Row, type Statement } from "@db/sqlite";
import { AgentError } from "../../domain/error.ts";
import {
  type ConnectionWatch,
  GroupCommit,
  NO_LOG,
  openWriteAheadLog,
  type WriteAheadLog,
} from "./group_commit.ts";
import { migrate, type SchemaSteps } from "./migrations.ts";

/** Bytes that the write-ahead log is cut back to after a checkpoint. */
const WAL_BYTES_KEPT = 16 * 1024 * 1024;
/** Values of unchanging rows that are kept, and characters of one: 16 Mi in all. */
const KEPT_MAX = 128;
const KEPT_CHARS_MAX = 128 * 1024;
/** Milliseconds for another process, such as an operator's own look, to let go of the file. */
const BUSY_MS = 100;
/** The path of a database that has no file. */
export const IN_MEMORY = ":memory:";

/**
 * One open database file. Statements run at once on the calling thread; durably() resolves when
 * what was written is on the disk.
 */
export class Connection {
  readonly #db: Database;
  readonly #log: WriteAheadLog;
  readonly #commits: GroupCommit;
  readonly #statements = new Map<string, Statement>();
  readonly #kept = new Map<string, unknown>();
  /** Who is reading rows that are sent in parts. */
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
      // What FULL adds to NORMAL, the sync after each commit, group_commit.ts does by itself.
      this.#db.exec(`
        PRAGMA journal_mode = WAL;
        PRAGMA synchronous = NORMAL;
        PRAGMA trusted_schema = OFF;
        PRAGMA temp_store = MEMORY;
        PRAGMA busy_timeout = ${BUSY_MS};
        PRAGMA journal_size_limit = ${WAL_BYTES_KEPT};
      `);
      migrate(this.#db, watch.migrating, schema);
    } catch (error) {
      this.#db.close();
      throw error;
    }
    this.#log = path === IN_MEMORY ? NO_LOG : openWriteAheadLog(path);
    this.#commits = new GroupCommit(this.#db, this.#log, watch, () => this.#kept.clear());
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
   * A value that is made of rows which never change: made once, and kept unless it is large.
   * @param kind what ids stand for
   * @param make the value, and about how many characters it holds
   */
  kept<T>(kind: string, id: number, make: () => { value: T; chars: number }): T {
    const key = `${kind} ${id}`;
    const found = this.#kept.get(key);
    // Whatever stands under a key was made for its kind.
    if (found !== undefined) return found as T;
    const { value, chars } = make();
    if (chars > KEPT_CHARS_MAX) return value;
    if (this.#kept.size >= KEPT_MAX) this.#kept.clear();
    this.#kept.set(key, value);
    return value;
  }

  /**
   * Queues a write for the next commit.
   * @param name what is written, for those who watch
   * @returns what the function returned, once it is durable
   * @throws {AgentError} as GroupCommit.write; `aborted` when the store is closed
   */
  write<T>(name: string, run: () => T): Promise<T> {
    if (this.#open) return this.#commits.write(name, run);
    return Promise.reject(new AgentError("aborted", "Cannot write: the store is closed"));
  }

  /** Answers a read once all that it may tell of is durable. */
  durably<T>(read: () => T): Promise<T> {
    return this.#commits.durably(read);
  }

  /** Commits what waits and closes the file. */
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
      statement = this.#db.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

// Rows that are being sent to callers, a part at a time. A row is not held for a caller who takes it
// slowly; what still has to be sent of it is read before a write changes it, once for all who are at it.

/** Bytes that are kept for those who have not read a row to its end when it was changed. */
const KEPT_BYTES_MAX = 32 * 1024 * 1024;

/** A text that callers are at. */
interface OpenText {
  readonly row: string;
  readonly key: string;
  readonly readWhole: () => Uint8Array | undefined;
  readers: number;
  /** The text as it was before the row was changed. */
  kept?: Uint8Array | "removed";
}

/** A caller's place at a text. */
export interface TextReader {
  /** The text as it was, if it was changed since. @throws {AgentError} `aborted` when it is gone */
  kept(): Uint8Array | undefined;
  close(): void;
}

/** Who is reading what. */
class RowReaders {
  readonly #open = new Map<string, OpenText>();
  #keptBytes = 0;

  /**
   * Begins to read.
   * @param row names the row, for changing()
   * @param key names the text in it
   */
  open(row: string, key: string, readWhole: () => Uint8Array | undefined): TextReader {
    const place = `${row} ${key}`;
    const text = this.#open.get(place) ?? { row, key, readWhole, readers: 0 };
    this.#open.set(place, text);
    text.readers += 1;
    let closed = false;
    return {
      kept: () => {
        if (text.kept !== "removed") return text.kept;
        throw new AgentError("aborted", "Cannot read on: what was being read has changed");
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

  /** Whether nobody reads anything. */
  get idle(): boolean {
    return this.#open.size === 0;
  }

  /** A row is about to be changed or removed. */
  changing(row: string): void {
    for (const [place, text] of this.#open) {
      if (text.row !== row) continue;
      // Who comes later reads the row as it is then.
      this.#open.delete(place);
      const whole = text.readWhole();
      const fits = whole !== undefined && this.#keptBytes + whole.length <= KEPT_BYTES_MAX;
      text.kept = fits ? whole : "removed";
      if (fits) this.#keptBytes += whole.length;
    }
  }
}

// What takes long is done in parts, with other work of the process let through in between.

/** One turn of the event loop. */
export function otherWork(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
