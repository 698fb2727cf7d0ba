// The sessions of one agent with its PostgreSQL server: one that writes, a few that read, and one that
// listens. Writes that gather while a transaction runs share the next one. Every call of the store may be
// repeated, so a write whose connection broke is run again on a new one, also when its commit may have
// happened; it is then given what its first run answered. No call waits beyond its deadline: the socket of a server that
// does not answer is destroyed.
//
// Nothing but LISTEN needs a session of its own, so that a pooler in transaction mode may stand between.

import { type AgentError, messageOf } from "../../domain/error.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Pace } from "../sqlite/group_commit.ts";
import { PENDING_WRITES_MAX } from "../rules.ts";
import { KeptValues, ReaderPlaces } from "./session_shares.ts";
import { otherSchemaOf, requireUsable } from "./migrations.ts";
import { type Follower, Listening, noticesOf } from "./notices.ts";
import { type GroupedWrite, groupsOf, WaitingWrites } from "./write_groups.ts";
import {
  away,
  type BoundValue,
  Broken,
  closed,
  isMeeting,
  named,
  openedBy,
  openSession,
  overloaded,
  type ServerOptions,
  ServerReach,
  wrongSetting,
} from "./server.ts";
import { SERVER_NOW } from "./event_tables.ts";
import { openWorkingSession, type WorkingSession } from "./working_session.ts";

/** How often a write is repeated that met another agent's, and milliseconds between. */
const MEETINGS_MAX = 20;
const MEETING_PAUSE_MS = 5;

/** What a transaction begins with; `database` is another one in restored tables, and after each start of a server. */
const LOOK = `SELECT ${SERVER_NOW} AS now, version,
  pg_postmaster_start_time()::text || tableoid AS database FROM schema_version`;

/** What the statements of one transaction run on. */
export interface Transaction {
  /** The time of the store, the same throughout the transaction. */
  readonly now: Instant;
  /** The first row of a statement. */
  row<T extends object>(sql: string, ...values: readonly BoundValue[]): Promise<T | undefined>;
  rows<T extends object>(sql: string, ...values: readonly BoundValue[]): Promise<T[]>;
  /** Runs a statement without result rows. @returns the number of changed rows */
  run(sql: string, ...values: readonly BoundValue[]): Promise<number>;
  /** Says a word to every agent, once the transaction is committed. @param here whether to this one too */
  tell(word: string, here?: boolean): void;
  /** Runs several statements, which take no values. */
  script(sql: string): Promise<void>;
  /**
   * A value of rows that never change, cached unless it is large.
   * @param make returns the value and its approximate size in characters
   */
  kept<T>(key: string, make: () => Promise<{ value: T; chars: number }>): Promise<T>;
}

/** What can be asked before the start of a transaction is answered: its time and its tables are not known yet. */
export type Asking = Pick<Transaction, "row" | "rows">;

/** Writes of one kind that share their statements. Each may run more than once, alone or with others. */
export interface WriteKind<Item, Value, Asked = void> {
  /** Whether they run where the first of them stands, ahead of what was queued since. */
  readonly first?: boolean;
  /** Approximate bytes that an item adds to the statements. */
  readonly bytesOf: (item: Item) => number;
  /** Reads what they begin with; it is sent with the start of the transaction where nothing runs before them. */
  readonly ask?: (tx: Asking, items: readonly Item[]) => Promise<Asked>;
  /** @returns the value of each item, in their order */
  readonly run: (
    tx: Transaction,
    items: readonly Item[],
    asked: Asked,
  ) => Promise<readonly Value[]>;
}

interface QueuedWrite extends GroupedWrite {
  /** Reads what all of its kind begin with. */
  readonly ask: (tx: Asking, writes: readonly QueuedWrite[]) => Promise<unknown>;
  /** Runs this one, or all of its kind. @returns the value of each */
  readonly run: (
    tx: Transaction,
    writes: readonly QueuedWrite[],
    asked: unknown,
  ) => Promise<readonly unknown[]>;
  readonly item?: unknown;
  readonly quiet?: boolean;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Milliseconds, as performance.now() counts them. */
  readonly deadlineMs: number;
  /** How often it met another agent's. */
  meetings: number;
  /** What it returned in the latest transaction. */
  value?: unknown;
  /** What it returned in a transaction whose commit was not answered. */
  earlier?: unknown;
}

type NewWrite = Omit<QueuedWrite, "resolve" | "reject" | "deadlineMs" | "meetings">;

const NOTHING = () => Promise.resolve();

/** All sessions of one agent. */
export class SharedDatabase {
  readonly #options: ServerOptions;
  readonly #kept = new KeptValues();
  readonly #listening: Listening;
  readonly #idle: WorkingSession[] = [];
  readonly #places = new ReaderPlaces();
  readonly reach: ServerReach;
  #writer: WorkingSession | undefined;
  readonly #pending = new WaitingWrites<QueuedWrite>();
  #rounds: Promise<void> | undefined;
  #open = true;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.#listening = new Listening(
      options.deadlineMs,
      (deadlineMs, noticed) => {
        const listening = { ...options, url: options.noticesUrl ?? options.url };
        // Of what this agent has written it knows.
        const heard = (word: string, pid: number) => pid === this.#writer?.ownPid || noticed(word);
        return this.#opened(deadlineMs, (leftMs) => openSession(listening, leftMs, heard));
      },
    );
    const returned = () => this.#listening.look();
    this.reach = new ServerReach(options, { returned, open: () => this.#open });
  }

  /**
   * Queues a write for the next transaction; it may run more than once.
   * @param run is given what it returned before in a transaction that may have been committed
   * @param quiet whether no other agent needs to hear of it unless it says a word
   * @returns its result, once it is durable
   * @throws {AgentError} `overloaded` when the server does not answer in time or too many writes are pending;
   * `storage_full`; `aborted` when the store is closed
   */
  async write<T>(run: (tx: Transaction, earlier?: T) => Promise<T>, quiet = false): Promise<T> {
    return await this.#queue<T>({
      ask: NOTHING,
      // It is given what it has returned itself: the type is T.
      run: async (tx, [write]) => [await run(tx, write?.earlier as T | undefined)],
      quiet,
      bytes: () => 0,
    });
  }

  /** The same for one of a kind, all of which share statements. @param pace whether it may wait for more */
  async writeTogether<Item, Value, Asked>(
    kind: WriteKind<Item, Value, Asked>,
    item: Item,
    pace?: Pace,
  ) {
    // All of a kind have items of one type, and are given what they have asked.
    const itemsOf = (all: readonly QueuedWrite[]) => all.map((one) => one.item as Item);
    const run: QueuedWrite["run"] = (tx, all, asked) => kind.run(tx, itemsOf(all), asked as Asked);
    const ask: QueuedWrite["ask"] = async (tx, all) => await kind.ask?.(tx, itemsOf(all));
    const bytes = () => kind.bytesOf(item);
    return await this.#queue<Value>({ ask, run, kind, item, bytes, ...(pace && { pace }) });
  }

  /** Commits what waits for others. */
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
        if (!this.#open) throw closed();
        const client = this.#idle.pop() ?? await this.#connect(deadlineMs, "reading");
        const timer = setTimeout(() => client.destroy(), deadlineMs - performance.now());
        try {
          const { tx } = await this.#begin(client, "ISOLATION LEVEL REPEATABLE READ READ ONLY");
          const value = await run(tx);
          // Nothing waits for the end of what wrote nothing.
          client.script("END").catch(() => client.destroy());
          this.reach.heard();
          return value;
        } catch (error) {
          if (!client.broken) await client.query("ROLLBACK").catch(() => client.destroy());
          // One that an outage broke while it was idle says nothing about the server now.
          if (!client.broken) throw named(error);
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

  /**
   * Calls back after commits of any agent; a call stands for one commit or many, and comes every few seconds
   * without one. @returns ends that
   */
  follow(committed: Follower): () => void {
    return this.#listening.follow(committed);
  }

  /** Ends the pending writes and the sessions. */
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
    if (!this.#open) throw closed();
    this.reach.require();
    if (this.#pending.length >= PENDING_WRITES_MAX) {
      const words = `${PENDING_WRITES_MAX} writes are pending, the maximum`;
      throw overloaded(`Cannot write to the store: ${words}`);
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const deadlineMs = performance.now() + this.#options.deadlineMs;
    this.#pending.add({ ...write, meetings: 0, resolve, reject, deadlineMs });
    this.#rounds ??= this.#runRounds();
    // The promise is settled with what `run` returned, and that is what it is given: the type is T.
    return await (promise as Promise<T>);
  }

  async #runRounds(): Promise<void> {
    // Writes of the same turn of the event loop share a transaction.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const batch = await this.#pending.next();
      // One that fails takes the others with it: then each runs by itself.
      if (batch.length > 1 && await this.#commit(batch)) continue;
      for (const [at, write] of batch.entries()) {
        await this.#commitOne(write, at < batch.length - 1);
      }
    }
    this.#rounds = undefined;
  }

  /** @returns whether they are committed, and answered */
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

  /** @param leads whether others of its batch come after it */
  async #commitOne(write: QueuedWrite, leads: boolean): Promise<void> {
    // Ends with an answer, at the deadline, or in the queue.
    for (;;) {
      try {
        if (performance.now() >= write.deadlineMs) throw new Broken("it was not sent in time");
        const beganMs = performance.now();
        await this.#transaction(write.deadlineMs, [write]);
        this.#pending.committed(1, performance.now() - beganMs);
        return write.resolve(write.value);
      } catch (error) {
        const late = performance.now() >= write.deadlineMs;
        if (isMeeting(error) && write.meetings < MEETINGS_MAX && !late) {
          write.meetings += 1;
          // Others go first: this one may wait for a lock again.
          if (leads || this.#pending.length > 0) return this.#pending.add(write);
          await new Promise((resolve) => setTimeout(resolve, MEETING_PAUSE_MS));
          continue;
        }
        if (!(error instanceof Broken)) return write.reject(named(error));
        if (late) return write.reject(this.#missed(error));
      }
    }
  }

  /** Runs writes in one transaction. @throws {Broken} when its connection broke; its commit may have happened */
  async #transaction(deadlineMs: number, batch: readonly QueuedWrite[]): Promise<void> {
    if (this.#writer === undefined || this.#writer.broken) {
      this.#writer = await this.#connect(deadlineMs, "writing");
    }
    const client = this.#writer;
    const timer = setTimeout(() => client.destroy(), deadlineMs - performance.now());
    let committing = false;
    try {
      const words = new Map<string, boolean>();
      const mode = "ISOLATION LEVEL READ COMMITTED READ WRITE";
      const [first = [], ...others] = groupsOf(batch);
      const ask = (tx: Asking) => first[0]?.ask(tx, first);
      const { tx, asked } = await this.#begin(client, mode, ask, words);
      for (const writes of [first, ...others]) {
        const found = writes === first ? asked : writes[0]?.ask(tx, writes);
        const values = await writes[0]?.run(tx, writes, await found) ?? [];
        writes.forEach((write, at) => write.value = values[at]);
      }
      committing = true;
      const quiet = words.size === 0 && batch.every((write) => write.quiet === true);
      await client.commit(noticesOf(words.keys()), quiet);
      this.reach.heard();
      const here = [...words.keys()].filter((word) => words.get(word));
      if (!quiet) queueMicrotask(() => this.#listening.committed(here));
    } catch (error) {
      this.#kept.clear();
      // What broke may have been the answer to the commit.
      if (committing && client.broken) { for (const write of batch) write.earlier = write.value; }
      if (!client.broken) await client.query("ROLLBACK").catch(() => client.destroy());
      throw client.broken ? new Broken(messageOf(error)) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #begin(
    client: WorkingSession,
    mode: string,
    ask: (tx: Asking) => Promise<unknown> | undefined = () => undefined,
    words = new Map<string, boolean>(),
  ): Promise<{ readonly tx: Transaction; readonly asked: Promise<unknown> | undefined }> {
    const rows = async <T extends object>(sql: string, ...values: readonly BoundValue[]) =>
      (await client.query(sql, values)).rows as T[];
    const row = async <T extends object>(sql: string, ...values: readonly BoundValue[]) =>
      (await rows<T>(sql, ...values))[0];
    const starting = this.#start(client, mode);
    const asked = ask({ row, rows });
    // Where the start failed, that is the reason.
    asked?.catch(() => {});
    const started = await starting;
    const now = this.#options.now?.() ?? started;
    const tx: Transaction = {
      now,
      rows,
      row,
      run: async (sql, ...values) => (await client.query(sql, values)).rowCount ?? 0,
      tell: (word, here = true) => void words.set(word, here || words.get(word) === true),
      script: async (sql) => void await client.script(sql),
      kept: (key, make) => this.#kept.keep(key, make),
    };
    return { tx, asked };
  }

  /** Runs the start of a transaction on tables that this program can use. @returns the server's time */
  async #start(client: WorkingSession, mode: string): Promise<Instant> {
    try {
      const row = (await client.begin(mode, LOOK)).rows[0];
      requireUsable(row?.version ?? 0);
      this.#kept.of(row?.database);
      return row?.now;
    } catch (error) {
      const other = otherSchemaOf(error);
      if (other !== undefined) this.#options.unusable?.(other);
      throw other ?? error;
    }
  }

  #missed(error: unknown): AgentError {
    if (this.#open) this.reach.missed();
    return away(error);
  }

  async #connect(deadlineMs: number, use: "reading" | "writing"): Promise<WorkingSession> {
    const open = (leftMs: number) => openWorkingSession(this.#options, leftMs, use);
    const session = await this.#opened(deadlineMs, open);
    // It may be one of another database, which took the name of the lost one.
    this.#kept.clear();
    return session;
  }

  async #opened<Session>(
    deadlineMs: number,
    open: (leftMs: number) => Promise<Session>,
  ): Promise<Session> {
    // One that has never let the agent in is not about to.
    const isRefused = (error: unknown) => !this.#kept.known && wrongSetting(error) !== undefined;
    try {
      return await openedBy(deadlineMs, open, (error) => this.#open && !isRefused(error));
    } catch (error) {
      throw isRefused(error) ? away(error) : this.#missed(error);
    }
  }
}
