// Group commit: writes that wait at the same time share one transaction and one sync, and each is answered only after
// the sync. When a write throws, the transaction is rolled back and repeated with a savepoint per write, so that only
// the failed write is missing. A write never awaits, and changes nothing but the database.
//
//     queued ──▶ committed ──▶ synced ──▶ answered
//                (readable, but not returned to any caller before it is synced)
//
// After a disk error other than a full disk, the contents of the file are unknown, and later writes are refused.

import type { Database } from "@db/sqlite";
import { AgentError, messageOf } from "../../domain/error.ts";
import { SYSTEM_TIMERS, type Timers } from "../../runtime/timers.ts";
import { GATHERED_MIN, type Pace, PENDING_WRITES_MAX } from "../limits.ts";

/** How long fewer than GATHERED_MIN patient writes wait, milliseconds. */
export const GATHER_MS = 16;
/**
 * After a commit of at least this many prompt writes, the next one waits until as many are there, and no longer than
 * RETURN_MS milliseconds: many callers write again as soon as they are answered, and the first one back would get a
 * commit of its own, for which all others would wait.
 */
const CROWD_MIN = 8;
const RETURN_MS = 4;

/** Callbacks for observers, and the clock. */
export interface ConnectionWatch {
  /**
   * Called with the names of the writes of a commit: before the commit, and once it is on the disk but no
   * caller has been answered.
   */
  readonly committing?: (when: "before" | "after", names: readonly string[]) => void;
  /** The same for the migration of an older database: its copy, and each step. */
  readonly migrating?: (when: "before" | "after", names: readonly string[]) => void;
  /** The clock of writes that wait for others; the system's unless given. */
  readonly timers?: Timers;
  /** Called once when the disk has failed; the process should end. */
  readonly broken?: (error: unknown) => void;
}

/** `Retry-After` while the database is not in its place, seconds. */
const LOST_SECONDS = 5;

interface PendingWrite {
  readonly name: string;
  readonly pace: Pace;
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Settled = { readonly ok: true; readonly value: unknown } | {
  readonly ok: false;
  readonly error: unknown;
};

interface CommitEvents {
  /** The writes of a transaction, or of a part of it, have run: what they have gathered must be written. */
  written(): void;
  /** A transaction, or a part of it, was rolled back. */
  undone(): void;
  /** A commit is visible to reads, and is being synced. */
  committed(): void;
  /** A commit is durable. */
  synced(): void;
}

/** The queue of writes of one database. */
export class GroupCommit {
  readonly #db: Database;
  readonly #log: WriteAheadLog;
  readonly #watch: ConnectionWatch;
  readonly #timers: Timers;
  readonly #events: CommitEvents;
  #pending: PendingWrite[] = [];
  /** Whether one of the pending writes is prompt. */
  #prompt = false;
  /** Writes that the next commit waits for, and until when, by the clock. */
  #expected = 0;
  #expectedUntilMs = 0;
  /** Ends the wait of patient writes, while they wait. */
  #gathered: (() => void) | undefined;
  /** The commit loop; ends when nothing is queued. */
  #rounds: Promise<void> | undefined;
  /** The running sync of the latest commit. */
  #syncing: Promise<void> | undefined;
  #broken: AgentError | undefined;

  constructor(db: Database, log: WriteAheadLog, watch: ConnectionWatch, events: CommitEvents) {
    this.#db = db;
    this.#log = log;
    this.#watch = watch;
    this.#timers = watch.timers ?? SYSTEM_TIMERS;
    this.#events = events;
  }

  /**
   * Queues a write for the next commit.
   * @param pace whether it may wait briefly to share a commit
   * @returns the result of the function, once it is durable
   * @throws {AgentError} `overloaded` when too many writes are pending, another process locks the file, or its name is
   * gone; `storage_full`; `aborted` after a disk error
   */
  write<T>(name: string, run: () => T, pace: Pace = "prompt"): Promise<T> {
    if (this.#broken !== undefined) return Promise.reject(this.#broken);
    if (this.#pending.length >= PENDING_WRITES_MAX) {
      const message =
        `Cannot write to the store: ${PENDING_WRITES_MAX} writes are pending, the maximum`;
      return Promise.reject(new AgentError("overloaded", message, { retryAfterSeconds: 1 }));
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#pending.push({ name, pace, run, resolve, reject });
    if (pace === "prompt" || this.#pending.length >= GATHERED_MIN) this.#begin();
    this.#rounds ??= this.#runRounds();
    // The promise is settled with what `run` returned, so its type is T.
    return promise as Promise<T>;
  }

  /** Resolves a read once everything it may have seen is durable. */
  async durably<T>(read: () => T): Promise<T> {
    if (this.#broken !== undefined) throw this.#broken;
    const value = read();
    if (this.#syncing !== undefined) await this.#syncing;
    if (this.#broken !== undefined) throw this.#broken;
    return value;
  }

  hurry(): void {
    this.#expected = 0;
    this.#begin();
  }

  /** The pending writes need a commit now, or once the expected ones are there. */
  #begin(): void {
    const begins = !this.#prompt;
    this.#prompt = this.#pending.length > 0;
    if (begins || this.#pending.length >= this.#expected) this.#gathered?.();
  }

  /** Settles when no write is queued or running. */
  async finished(): Promise<void> {
    this.hurry();
    while (this.#rounds !== undefined) await this.#rounds;
  }

  async #runRounds(): Promise<void> {
    try {
      while (this.#pending.length > 0) {
        if (!this.#prompt) await this.#gather(GATHER_MS);
        const leftMs = this.#expectedUntilMs - this.#timers.nowMs();
        if (this.#pending.length < this.#expected && leftMs > 0) await this.#gather(leftMs);
        // Callers answered by the last commit may queue further writes, which join this one.
        await new Promise((resolve) => setImmediate(resolve));
        const batch = this.#pending;
        this.#pending = [];
        this.#prompt = false;
        const settled = this.#commit(batch);
        if (settled !== undefined) await this.#sync(batch, settled);
      }
    } finally {
      this.#rounds = undefined;
    }
  }

  /** Waits until a prompt write or enough patient ones are queued; once one is, for those that are expected. */
  async #gather(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancelTimer = this.#timers.start(ms, resolve);
      this.#gathered = () => {
        cancelTimer();
        resolve();
      };
    });
    this.#gathered = undefined;
  }

  /** @returns the outcome of each write, or undefined when the whole transaction failed */
  #commit(batch: readonly PendingWrite[]): Settled[] | undefined {
    try {
      this.#log.requireInPlace();
      return this.#commitTogether(batch) ?? this.#transact(batch, (run) => this.#attempt(run));
    } catch (error) {
      this.#events.undone();
      const failure = this.#failureOf(error);
      for (const { reject } of batch) reject(failure);
      return undefined;
    }
  }

  /** Runs a batch without savepoints. @returns undefined when one of several writes threw: all are undone */
  #commitTogether(batch: readonly PendingWrite[]): Settled[] | undefined {
    let ran = 0;
    try {
      return this.#transact(batch, (run) => {
        const value = run();
        ran += 1;
        return { ok: true, value };
      });
    } catch (error) {
      // A single write was rolled back with its transaction.
      const byWrite = ran < batch.length && storageFailure(error) === undefined;
      if (!byWrite || batch.length === 1) throw error;
      this.#events.undone();
      return undefined;
    }
  }

  #transact(batch: readonly PendingWrite[], attempt: (run: () => unknown) => Settled): Settled[] {
    return this.#db.transaction(() => {
      const settled = batch.map(({ run }) => attempt(run));
      this.#events.written();
      this.#notify("before", batch);
      return settled;
    })();
  }

  /** Runs one write of a batch in a savepoint; its error is its own unless it ended the transaction. */
  #attempt(run: () => unknown): Settled {
    try {
      const value = this.#db.transaction(() => {
        const value = run();
        this.#events.written();
        return value;
      })();
      return { ok: true, value };
    } catch (error) {
      // The error rolled back the whole transaction, so it concerns every write.
      if (storageFailure(error) !== undefined || !this.#db.inTransaction) throw error;
      this.#events.undone();
      return { ok: false, error };
    }
  }

  async #sync(batch: readonly PendingWrite[], settled: readonly Settled[]): Promise<void> {
    this.#syncing = this.#log.sync().catch((error: unknown) => void this.#break(error));
    this.#events.committed();
    await this.#syncing;
    this.#syncing = undefined;
    for (const [index, { resolve, reject }] of batch.entries()) {
      const outcome = settled[index];
      if (this.#broken !== undefined) reject(this.#broken);
      else if (outcome?.ok) resolve(outcome.value);
      else reject(outcome?.error);
    }
    this.#expectAgain(batch);
    if (this.#broken !== undefined) return;
    this.#notify("after", batch);
    this.#events.synced();
  }

  #expectAgain(batch: readonly PendingWrite[]): void {
    let prompt = 0;
    for (const { pace } of batch) if (pace === "prompt") prompt += 1;
    this.#expected = prompt < CROWD_MIN ? 0 : prompt + this.#pending.length;
    this.#expectedUntilMs = this.#timers.nowMs() + RETURN_MS;
  }

  #notify(when: "before" | "after", batch: readonly PendingWrite[]): void {
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

  /** Refuses every later write: only a restart reads what is really on the disk. */
  #break(error: unknown): AgentError {
    const message = `Cannot write to the store: its disk failed: ${messageOf(error)}`;
    const failure = new AgentError("aborted", message, { cause: error });
    this.#broken = failure;
    this.#watch.broken?.(error);
    return failure;
  }
}

/** SQLite's result codes (sqlite.org/rescode.html) of a disk that cannot take a write. */
const SQLITE_IOERR = 10;
const SQLITE_FULL = 13;
/**
 * Extended codes of SQLITE_IOERR that mean a full disk: no room for the shared-memory file, the rollback
 * journal or a temporary table.
 */
const NO_ROOM = new Set([
  4618, // SQLITE_IOERR_SHMOPEN
  4874, // SQLITE_IOERR_SHMSIZE
  6410, // SQLITE_IOERR_GETTEMPPATH
]);

/** Another process, such as an operator's sqlite3, locks the file. */
const SQLITE_BUSY = 5;
const SQLITE_LOCKED = 6;

/** Classifies an error of the disk or of another process that uses the file. */
function storageFailure(error: unknown): "busy" | "full" | "failed" | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  const { errcode } = error;
  if (typeof errcode !== "number") return undefined;
  const primary = errcode & 0xff;
  if (primary === SQLITE_BUSY || primary === SQLITE_LOCKED) return "busy";
  if (primary === SQLITE_FULL || NO_ROOM.has(errcode)) return "full";
  return primary === SQLITE_IOERR ? "failed" : undefined;
}

/**
 * Puts on the disk what was committed. A commit appends to SQLite's write-ahead log and survives a loss of power only after
 * an fsync. With synchronous=FULL SQLite would call it and block the whole process. Called here, on another thread, it
 * leaves the event loop free, and all writes made meanwhile share the next one.
 */
export interface WriteAheadLog {
  /**
   * Checks that the next agent will find the database: a file that was removed or replaced still takes writes.
   * @throws {AgentError} `overloaded`; it may be put back
   */
  requireInPlace(): void;
  /** Settles when everything committed before the call is on the disk. */
  sync(): Promise<void>;
  close(): void;
}

/** The log of an open database file. Opened by the first sync, since the first commit creates it. */
export function openWriteAheadLog(databasePath: string): WriteAheadLog {
  let file: Deno.FsFile | undefined;
  const opened = Deno.statSync(databasePath);
  return {
    requireInPlace: () => {
      const named = statIfThere(databasePath);
      if (named?.ino === opened.ino && named.dev === opened.dev) return;
      const found = named === undefined ? "removed" : "replaced";
      const message =
        `Cannot write to the store: ${databasePath} was ${found} while the agent runs, ` +
        "expected it back in its place";
      throw new AgentError("overloaded", message, { retryAfterSeconds: LOST_SECONDS });
    },
    sync: async () => {
      file ??= await Deno.open(`${databasePath}-wal`, { read: true, write: true });
      await file.syncData();
    },
    close: () => file?.close(),
  };
}

/** A database in memory has nothing that could outlive the process. */
export const NO_LOG: WriteAheadLog = {
  requireInPlace: () => {},
  sync: () => Promise.resolve(),
  close: () => {},
};

function statIfThere(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
