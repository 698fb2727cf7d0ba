// Group commit. Every write is a function that is queued; whatever has been queued by the time the
// event loop comes round, and no earlier commit is on its way to the disk, is run in one
// transaction. So concurrent writers share one sync, and each answer is given only after it. A
// function runs in a savepoint of its own: when it throws, only its own part is undone. Functions
// never await, so that no read and no other write can come between their statements.
//
//   queued ──▶ committed ──▶ synced ──▶ answered
//              (readable, but shown to nobody before it is synced)
//
// A write that the disk refused for want of space may succeed later. After any other failure of the
// disk nobody knows what it holds: nothing more is taken then.

import type { Database } from "@db/sqlite";
import { AgentError, messageOf } from "../../domain/error.ts";

/** Writes that wait for one commit at the most; more are refused as overload. */
const PENDING_WRITES_MAX = 10_000;

/** What a caller may watch. */
export interface ConnectionWatch {
  /**
   * Called with the names of the writes of a commit, before it is made and once it is on the disk, when
   * nobody has seen an answer yet.
   */
  readonly committing?: (when: "before" | "after", names: readonly string[]) => void;
  /** The same for what brings an older database up to date: its copy and each step. */
  readonly migrating?: (when: "before" | "after", names: readonly string[]) => void;
  /** Called once when the disk has failed; the process should end. */
  readonly broken?: (error: unknown) => void;
}

interface PendingWrite {
  readonly name: string;
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Settled = { readonly ok: true; readonly value: unknown } | {
  readonly ok: false;
  readonly error: unknown;
};

/** The queue of writes of one database. */
export class GroupCommit {
  readonly #db: Database;
  readonly #log: WriteAheadLog;
  readonly #watch: ConnectionWatch;
  /** Called when a transaction, or a part of it, was undone. */
  readonly #undone: () => void;
  #pending: PendingWrite[] = [];
  /** The rounds under way; ends when nothing is queued. */
  #rounds: Promise<void> | undefined;
  /** The sync of the latest commit, while it is under way. */
  #syncing: Promise<void> | undefined;
  #broken: AgentError | undefined;

  constructor(db: Database, log: WriteAheadLog, watch: ConnectionWatch, undone: () => void) {
    this.#db = db;
    this.#log = log;
    this.#watch = watch;
    this.#undone = undone;
  }

  /**
   * Queues a write for the next commit.
   * @returns what the function returned, once it is durable
   * @throws {AgentError} `overloaded` when too many writes wait; `storage_full` when the disk is;
   * `overloaded` too when another process holds the file; `aborted` when the disk has failed
   */
  write<T>(name: string, run: () => T): Promise<T> {
    if (this.#broken !== undefined) return Promise.reject(this.#broken);
    if (this.#pending.length >= PENDING_WRITES_MAX) {
      const message = `Cannot write: ${PENDING_WRITES_MAX} writes are waiting`;
      return Promise.reject(new AgentError("overloaded", message, { retryAfterSeconds: 1 }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.push({ name, run, resolve, reject });
    this.#rounds ??= this.#runRounds();
    // The promise is settled with what `run` returned, so its type is T.
    return promise as Promise<T>;
  }

  /** What was read becomes an answer once all that it may tell of is durable. */
  async durably<T>(read: () => T): Promise<T> {
    if (this.#broken !== undefined) throw this.#broken;
    const value = read();
    if (this.#syncing !== undefined) await this.#syncing;
    if (this.#broken !== undefined) throw this.#broken;
    return value;
  }

  /** Settles when nothing is queued or under way any more. */
  async finished(): Promise<void> {
    while (this.#rounds !== undefined) await this.#rounds;
  }

  async #runRounds(): Promise<void> {
    try {
      while (this.#pending.length > 0) {
        // Those who were answered in the last round may have more to write: it comes along.
        await new Promise((resolve) => setImmediate(resolve));
        const batch = this.#pending;
        this.#pending = [];
        const settled = this.#commit(batch);
        if (settled !== undefined) await this.#sync(batch, settled);
      }
    } finally {
      this.#rounds = undefined;
    }
  }

  /** @returns what became of each write, or undefined when the transaction is gone */
  #commit(batch: readonly PendingWrite[]): Settled[] | undefined {
    const settled: Settled[] = [];
    try {
      this.#db.transaction(() => {
        // Alone, a write that throws undoes itself with the transaction: no savepoint is needed.
        const [only, ...more] = batch;
        if (only !== undefined && more.length === 0) settled.push({ ok: true, value: only.run() });
        else for (const { run } of batch) settled.push(this.#attempt(run));
        this.#tell("before", batch);
      })();
      return settled;
    } catch (error) {
      this.#undone();
      const failure = this.#failureOf(error);
      for (const { reject } of batch) reject(failure);
      return undefined;
    }
  }

  /** Runs one write of a batch; what it throws is its own, unless the whole transaction is gone. */
  #attempt(run: () => unknown): Settled {
    try {
      return { ok: true, value: this.#db.transaction(run)() };
    } catch (error) {
      // What undid the whole transaction is no matter of this write alone.
      if (storageFailure(error) !== undefined || !this.#db.inTransaction) throw error;
      this.#undone();
      return { ok: false, error };
    }
  }

  async #sync(batch: readonly PendingWrite[], settled: readonly Settled[]): Promise<void> {
    this.#syncing = this.#log.sync().catch((error: unknown) => void this.#break(error));
    await this.#syncing;
    this.#syncing = undefined;
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = settled[index];
      if (this.#broken !== undefined) reject(this.#broken);
      else if (outcome?.ok) resolve(outcome.value);
      else reject(outcome?.error);
    }
    if (this.#broken === undefined) this.#tell("after", batch);
  }

  #tell(when: "before" | "after", batch: readonly PendingWrite[]): void {
    this.#watch.committing?.(when, batch.map(({ name }) => name));
  }

  #failureOf(error: unknown): unknown {
    const kind = storageFailure(error);
    if (kind === undefined) return error;
    if (kind === "failed") return this.#break(error);
    const message = `Cannot write to the store: ${messageOf(error)}`;
    return kind === "full"
      ? new AgentError("storage_full", message, { cause: error, retryAfterSeconds: 5 })
      : new AgentError("overloaded", message, { cause: error, retryAfterSeconds: 1 });
  }

  /** Refuses every later write: only a new process reads what the disk holds. */
  #break(error: unknown): AgentError {
    const message = `Cannot write to the store: its disk failed: ${messageOf(error)}`;
    const failure = new AgentError("aborted", message, { cause: error });
    this.#broken = failure;
    this.#watch.broken?.(error);
    return failure;
  }
}

// Which errors of SQLite are not those of a statement, but of its file.

/** SQLite's result codes (sqlite.org/rescode.html) of a disk that cannot take a write. */
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
/**
 * Kinds of SQLITE_IOERR that only say that there is no room: for the file of the shared index, of
 * the rollback journal or of a temporary table.
 */
const NO_ROOM = new Set([
  4618, // SQLITE_IOERR_SHMOPEN
  4874, // SQLITE_IOERR_SHMSIZE
  6410, // SQLITE_IOERR_GETTEMPPATH
]);

/** Another process holds the file, as an operator's own look into it may. */
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** Whether an error is the disk's or of its other users, and what may be done about it. */
function storageFailure(error: unknown): "busy" | "full" | "failed" | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  const { errcode } = error;
  if (typeof errcode !== "number") return undefined;
  const primary = errcode & 0xff;
  if (primary === SQLITE_BUSY || primary === SQLITE_LOCKED) return "busy";
  if (primary === SQLITE_FULL || NO_ROOM.has(errcode)) return "full";
  return primary === SQLITE_IOERR ? "failed" : undefined;
}

// SQLite's write-ahead log as a file of its own. A commit appends to it; that the commit survives a
// loss of power takes one more call, which SQLite would make itself with synchronous=FULL, while the
// whole process waits. Made here, on another thread, it leaves the event loop free, and everything
// that is written meanwhile shares the next one.

/** What makes commits durable. */
export interface WriteAheadLog {
  /** Settles when everything that was committed before the call is on the disk. */
  sync(): Promise<void>;
  close(): void;
}

/** The log of a database file. It is opened with the first sync: only a commit makes it. */
export function openWriteAheadLog(databasePath: string): WriteAheadLog {
  let file: Deno.FsFile | undefined;
  return {
    sync: async () => {
      file ??= await Deno.open(`${databasePath}-wal`, { read: true, write: true });
      await file.syncData();
    },
    close: () => file?.close(),
  };
}

/** A database in memory has nothing that could outlive the process. */
export const NO_LOG: WriteAheadLog = { sync: () => Promise.resolve(), close: () => {} };
