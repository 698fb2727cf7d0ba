// The sessions of one agent with its PostgreSQL server: one that writes, a few that read, and one that listens for
// notices. Writes that arrive while a transaction runs share the next one (group commit).
//
// Every call of the store may be repeated. So a write whose connection broke is run again on a new connection, even if
// its commit may have succeeded; the second run is given what the first one returned. No call outlasts its deadline:
// when the server does not answer, the socket is destroyed.
//
// Only LISTEN needs a session of its own, so the other sessions may go through a pooler in transaction mode.

import { type AgentError, messageOf } from "../../domain/error.ts";
import type { Instant } from "../../domain/instant.ts";
import { type Pace, PENDING_WRITES_MAX } from "../limits.ts";
import { CachedValues, ReaderPlaces } from "./session_shares.ts";
import { otherSchemaOf, requireUsable } from "./migrations.ts";
import { type Follower, Listening } from "./listening.ts";
import { payloadsOf } from "./notices.ts";
import { type GroupedWrite, groupsOf, WaitingWrites } from "./write_groups.ts";
import {
  callersError,
  ConnectionBroken,
  databaseAway,
  maySucceedAgain,
  overloaded,
  storeClosed,
  wrongSetting,
} from "./errors.ts";
import { ServerProbe } from "./server_probe.ts";
import { type BoundValue, openSession, openWithRetries, type ServerOptions } from "./server.ts";
import { SERVER_NOW } from "./event_tables.ts";
import { openWorkingSession, type WorkingSession } from "./working_session.ts";

/** How often a write is run again after a conflict with another agent's, and the milliseconds between two runs. */
const CONFLICT_RETRIES_MAX = 20;
const CONFLICT_PAUSE_MS = 5;

/** The first statement of each transaction. `database` differs after a restore and after each start of a server. */
const FIRST_STATEMENT = `SELECT ${SERVER_NOW} AS now, version,
  pg_postmaster_start_time()::text || tableoid AS database FROM schema_version`;

/** What the statements of one transaction run on. */
export interface Transaction {
  /** The store's time, the same throughout the transaction. */
  readonly now: Instant;
  /** Returns the first row of a statement. */
  row<T extends object>(sql: string, ...values: readonly BoundValue[]): Promise<T | undefined>;
  rows<T extends object>(sql: string, ...values: readonly BoundValue[]): Promise<T[]>;
  /** Runs a statement that returns no rows. @returns the number of changed rows */
  run(sql: string, ...values: readonly BoundValue[]): Promise<number>;
  /** Notifies every agent after the commit. @param here whether to notify the followers in this agent too */
  notify(notice: string, here?: boolean): void;
  /** Runs several statements, which take no values. */
  script(sql: string): Promise<void>;
  /**
   * Returns a value that is derived from rows that never change; it is cached unless it is large.
   * @param make reads the value, and returns it with its approximate size in characters
   */
  cached<T>(key: string, make: () => Promise<{ value: T; chars: number }>): Promise<T>;
}

/** A transaction whose BEGIN is not answered yet: neither the store's time nor the schema version is known. */
export type Asking = Pick<Transaction, "row" | "rows">;

/** A kind of write whose items share their statements. Each item may run more than once, alone or with others. */
export interface WriteKind<Item, Value, Asked = void> {
  /** Whether the group runs at the place of its earliest write, ahead of writes that were queued later. */
  readonly first?: boolean;
  /** Approximate bytes that an item adds to the statements. */
  readonly bytesOf: (item: Item) => number;
  /** Reads what run() needs; that of the first group is sent together with BEGIN, which saves a round trip. */
  readonly ask?: (tx: Asking, items: readonly Item[]) => Promise<Asked>;
  /** @returns the value of each item, in the order of the items */
  readonly run: (
    tx: Transaction,
    items: readonly Item[],
    asked: Asked,
  ) => Promise<readonly Value[]>;
}

interface QueuedWrite extends GroupedWrite {
  readonly ask: (tx: Asking, writes: readonly QueuedWrite[]) => Promise<unknown>;
  readonly run: (
    tx: Transaction,
    writes: readonly QueuedWrite[],
    asked: unknown,
  ) => Promise<readonly unknown[]>;
  readonly item?: unknown;
  readonly quiet?: boolean;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Time of performance.now() at which the write fails. */
  readonly deadlineMs: number;
  /** How often it was run again after a conflict with another agent's write. */
  conflicts: number;
  /** What run() returned in the latest transaction. */
  value?: unknown;
  /** What run() returned in a transaction whose commit got no answer. */
  earlier?: unknown;
}

type NewWrite = Omit<QueuedWrite, "resolve" | "reject" | "deadlineMs" | "conflicts">;

const NOTHING = () => Promise.resolve();

/** All sessions of one agent with its server. */
export class SharedDatabase {
  readonly #options: ServerOptions & { readonly host?: string };
  readonly #cache = new CachedValues();
  readonly #listening: Listening;
  readonly #idle: WorkingSession[] = [];
  readonly #places = new ReaderPlaces();
  readonly reach: ServerProbe;
  #writer: WorkingSession | undefined;
  readonly #pending = new WaitingWrites<QueuedWrite>();
  #rounds: Promise<void> | undefined;
  #open = true;

  /** @param options `host` is the host of this agent, if it has one */
  constructor(options: ServerOptions & { readonly host?: string }) {
    this.#options = options;
    this.#listening = new Listening(
      options.deadlineMs,
      (deadlineMs, noticed) => {
        const listening = { ...options, url: options.noticesUrl ?? options.url };
        // This agent's own commits call its followers directly, so their notices are ignored.
        const heard = (payload: string, pid: number) =>
          pid === this.#writer?.ownPid || noticed(payload);
        return this.#opened(deadlineMs, (leftMs) => openSession(listening, leftMs, heard));
      },
    );
    const returned = () => this.#listening.look();
    this.reach = new ServerProbe(options, { returned, open: () => this.#open });
  }

  /**
   * Queues a write for the next transaction; `run` may be called more than once.
   * @param run receives the value of its earlier run, if that one's transaction may have been committed
   * @param quiet skips the notice of the commit, unless run() sends one: no other agent needs to look
   * @returns the value of `run`, once it is durable
   * @throws {AgentError} `overloaded` when the server does not answer in time or too many writes are pending;
   * `storage_full`; `aborted` when the store is closed
   */
  async write<T>(run: (tx: Transaction, earlier?: T) => Promise<T>, quiet = false): Promise<T> {
    return await this.#queue<T>({
      ask: NOTHING,
      // `earlier` is what this very function returned, so it is a T.
      run: async (tx, [write]) => [await run(tx, write?.earlier as T | undefined)],
      quiet,
      bytes: () => 0,
    });
  }

  /** As write(), for an item whose kind shares statements. @param pace whether it may wait for others */
  async writeTogether<Item, Value, Asked>(
    kind: WriteKind<Item, Value, Asked>,
    item: Item,
    pace?: Pace,
  ) {
    // All items of one kind have the same type, and run() receives what ask() of the same kind returned.
    const itemsOf = (all: readonly QueuedWrite[]) => all.map((one) => one.item as Item);
    const run: QueuedWrite["run"] = (tx, all, asked) => kind.run(tx, itemsOf(all), asked as Asked);
    const ask: QueuedWrite["ask"] = async (tx, all) => await kind.ask?.(tx, itemsOf(all));
    const bytes = () => kind.bytesOf(item);
    return await this.#queue<Value>({ ask, run, kind, item, bytes, ...(pace && { pace }) });
  }

  /** Commits the waiting writes without waiting for more. */
  hurry(): void {
    this.#pending.hurry();
  }

  /**
   * Reads from one snapshot of committed rows.
   * @throws {AgentError} `overloaded` when the server does not answer in time; `aborted` when the store is closed
   */
  async read<T>(run: (tx: Transaction) => Promise<T>): Promise<T> {
    if (this.#open) this.reach.require();
    const deadlineMs = performance.now() + this.#options.deadlineMs;
    await this.#places.take(deadlineMs);
    try {
      for (;;) {
        if (!this.#open) throw storeClosed();
        const client = this.#idle.pop() ?? await this.#connect(deadlineMs, "reading");
        const timer = setTimeout(() => client.destroy(), deadlineMs - performance.now());
        try {
          const { tx } = await this.#begin(client, "ISOLATION LEVEL REPEATABLE READ READ ONLY");
          const value = await run(tx);
          // A read-only transaction has nothing to lose, so its END is not awaited.
          client.script("END").catch(() => client.destroy());
          this.reach.heard();
          return value;
        } catch (error) {
          if (!client.broken) await client.query("ROLLBACK").catch(() => client.destroy());
          // A session that broke while it was idle does not show that the server is away: read again on another.
          if (!client.broken) throw callersError(error);
          if (performance.now() >= deadlineMs) throw this.#missed(error);
        } finally {
          clearTimeout(timer);
          if (!this.#open) client.destroy();
          if (!client.broken) this.#idle.push(client);
        }
      }
    } finally {
      this.#places.give();
    }
  }

  /** Calls back after commits of this agent and with notices of others, and every few seconds. @returns ends that */
  follow(committed: Follower): () => void {
    return this.#listening.follow(committed);
  }

  /** Has followers notified of all commits of any agent. @returns ends that */
  readonly watch = () => this.#listening.watch();

  /** Finishes the pending writes and closes the sessions. */
  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    this.hurry();
    this.#listening.close();
    await this.#rounds;
    await this.reach.ended();
    for (const client of [this.#writer, ...this.#idle]) client?.destroy();
  }

  async #queue<T>(write: NewWrite): Promise<T> {
    if (!this.#open) throw storeClosed();
    this.reach.require();
    if (this.#pending.length >= PENDING_WRITES_MAX) {
      const words = `${PENDING_WRITES_MAX} writes are pending, the maximum`;
      throw overloaded(`Cannot write to the store: ${words}`);
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const deadlineMs = performance.now() + this.#options.deadlineMs;
    this.#pending.add({ ...write, conflicts: 0, resolve, reject, deadlineMs });
    this.#rounds ??= this.#runRounds();
    // The promise is resolved with what `run` returned, so it is a T.
    return await (promise as Promise<T>);
  }

  async #runRounds(): Promise<void> {
    // Lets the other writes of this turn of the event loop join the transaction.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const batch = await this.#pending.next();
      // A write that fails rolls back the others too. Then each of them is committed alone.
      if (batch.length > 1 && await this.#commit(batch)) continue;
      for (const [at, write] of batch.entries()) {
        await this.#commitOne(write, at < batch.length - 1);
      }
    }
    this.#rounds = undefined;
  }

  /** @returns whether the writes are committed, and their callers answered */
  async #commit(batch: readonly QueuedWrite[]): Promise<boolean> {
    try {
      const beganMs = performance.now();
      await this.#transaction(Math.min(...batch.map((one) => one.deadlineMs)), batch);
      this.#pending.committed(batch.length, performance.now() - beganMs);
      for (const { resolve, value } of batch) resolve(value);
      return true;
    } catch {
      return false;
    }
  }

  /** @param leads whether other writes of its batch come after it */
  async #commitOne(write: QueuedWrite, leads: boolean): Promise<void> {
    // Returns once the write is answered or queued again; its deadline bounds the number of runs.
    for (;;) {
      try {
        if (performance.now() >= write.deadlineMs) {
          throw new ConnectionBroken("it was not sent in time");
        }
        const beganMs = performance.now();
        await this.#transaction(write.deadlineMs, [write]);
        this.#pending.committed(1, performance.now() - beganMs);
        return write.resolve(write.value);
      } catch (error) {
        const late = performance.now() >= write.deadlineMs;
        if (maySucceedAgain(error) && write.conflicts < CONFLICT_RETRIES_MAX && !late) {
          write.conflicts += 1;
          // Other writes go first, because this one may have to wait for the same lock again.
          if (leads || this.#pending.length > 0) return this.#pending.add(write);
          await new Promise((resolve) => setTimeout(resolve, CONFLICT_PAUSE_MS));
          continue;
        }
        if (!(error instanceof ConnectionBroken)) return write.reject(callersError(error));
        if (late) return write.reject(this.#missed(error));
      }
    }
  }

  /** Runs writes in one transaction. @throws {ConnectionBroken} when it may or may not have been committed */
  async #transaction(deadlineMs: number, batch: readonly QueuedWrite[]): Promise<void> {
    if (this.#writer === undefined || this.#writer.broken) {
      this.#writer = await this.#connect(deadlineMs, "writing");
    }
    const client = this.#writer;
    const timer = setTimeout(() => client.destroy(), deadlineMs - performance.now());
    let committing = false;
    try {
      const notices = new Map<string, boolean>();
      const mode = "ISOLATION LEVEL READ COMMITTED READ WRITE";
      const [first = [], ...others] = groupsOf(batch);
      const ask = (tx: Asking) => first[0]?.ask(tx, first);
      const { tx, asked } = await this.#begin(client, mode, ask, notices);
      for (const writes of [first, ...others]) {
        const found = writes === first ? asked : writes[0]?.ask(tx, writes);
        const values = await writes[0]?.run(tx, writes, await found) ?? [];
        writes.forEach((write, at) => write.value = values[at]);
      }
      committing = true;
      const quiet = notices.size === 0 && batch.every((write) => write.quiet === true);
      await client.commit(payloadsOf([...notices.keys()], this.#options.host, quiet));
      this.reach.heard();
      const here = [...notices.keys()].filter((notice) => notices.get(notice));
      if (!quiet) queueMicrotask(() => this.#listening.committed(here));
    } catch (error) {
      this.#cache.clear();
      // The answer to the commit may be what was lost.
      if (committing && client.broken) { for (const write of batch) write.earlier = write.value; }
      if (!client.broken) await client.query("ROLLBACK").catch(() => client.destroy());
      throw client.broken ? new ConnectionBroken(messageOf(error)) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #begin(
    client: WorkingSession,
    mode: string,
    ask: (tx: Asking) => Promise<unknown> | undefined = () => undefined,
    notices = new Map<string, boolean>(),
  ): Promise<{ readonly tx: Transaction; readonly asked: Promise<unknown> | undefined }> {
    const rows = async <T extends object>(sql: string, ...values: readonly BoundValue[]) =>
      (await client.query(sql, values)).rows as T[];
    const row = async <T extends object>(sql: string, ...values: readonly BoundValue[]) =>
      (await rows<T>(sql, ...values))[0];
    const starting = this.#start(client, mode);
    const asked = ask({ row, rows });
    // If BEGIN fails, its error is the one to report, and it is thrown below.
    asked?.catch(() => {});
    const started = await starting;
    const now = this.#options.now?.() ?? started;
    const tx: Transaction = {
      now,
      rows,
      row,
      run: async (sql, ...values) => (await client.query(sql, values)).rowCount ?? 0,
      notify: (notice, here = true) =>
        void notices.set(notice, here || notices.get(notice) === true),
      script: async (sql) => void await client.script(sql),
      cached: (key, make) => this.#cache.keep(key, make),
    };
    return { tx, asked };
  }

  /** Begins a transaction after checking the schema version. @returns the server's time */
  async #start(client: WorkingSession, mode: string): Promise<Instant> {
    try {
      const row = (await client.begin(mode, FIRST_STATEMENT)).rows[0];
      requireUsable(row?.version ?? 0);
      this.#cache.of(row?.database);
      return row?.now;
    } catch (error) {
      const other = otherSchemaOf(error);
      if (other !== undefined) this.#options.unusable?.(other);
      throw other ?? error;
    }
  }

  #missed(error: unknown): AgentError {
    if (this.#open) this.reach.missed();
    return databaseAway(error);
  }

  async #connect(deadlineMs: number, use: "reading" | "writing"): Promise<WorkingSession> {
    const open = (leftMs: number) => openWorkingSession(this.#options, leftMs, use);
    const session = await this.#opened(deadlineMs, open);
    // The new session may belong to another database that took over the address: a restored one, or a standby.
    this.#cache.clear();
    return session;
  }

  async #opened<Session>(
    deadlineMs: number,
    open: (leftMs: number) => Promise<Session>,
  ): Promise<Session> {
    // A server that has never accepted this agent's login will not accept a retry either.
    const isRefused = (error: unknown) => !this.#cache.known && wrongSetting(error) !== undefined;
    try {
      return await openWithRetries(deadlineMs, open, (error) => this.#open && !isRefused(error));
    } catch (error) {
      throw isRefused(error) ? databaseAway(error) : this.#missed(error);
    }
  }
}
