// Listens for the notices of other agents. Without the session that does, followers look every few seconds.
//
// Few notices ask a host to act. All others are for watchers: requests that wait for a job, and readers of events. While
// an agent has watchers, its session holds a lock in shared mode. A commit tries to get that lock alone, and sends what
// only watchers need if it cannot. If it gets the lock, a new watcher waits for the end of the commit, and then reads
// what the commit has changed.

import { MISSED_NOTICE, noticesIn } from "./notices.ts";
import type { ServerSession } from "./server.ts";

/** Called after commits, with the notices that were sent with them. */
export type Follower = (notices: readonly string[]) => void;

/** Milliseconds between two looks without a notice, and before the listening session is opened or checked again. */
const POLL_MS = 5_000;
/** The channel of the notices for every agent. */
export const CHANNEL = "zonewright";
/** The channel of the notices for watchers. */
export const WATCHERS_CHANNEL = "zonewright_watchers";
/** The advisory lock that the sessions of agents with watchers share. */
export const WATCHERS_LOCK = 8_780_007;
/** How long an agent without watchers goes on listening for them, milliseconds: requests that wait come in series. */
const LINGER_MS = 10_000;

type ListeningSession = Pick<ServerSession, "script" | "destroy" | "broken" | "pid">;
/** Opens a session that receives notices, until a time of performance.now(). */
type Connect = (
  deadlineMs: number,
  noticed: (payload: string) => void,
) => Promise<ListeningSession>;

/** The followers of the commits of all agents, and the session that learns of these commits as they happen. */
export class Listening {
  readonly #deadlineMs: number;
  readonly #connect: Connect;
  readonly #followers = new Set<Follower>();
  #listener: ListeningSession | undefined;
  #watchers = 0;
  #lingering: ReturnType<typeof setTimeout> | undefined;
  /** The session that listens for watchers. */
  #watching: ListeningSession | undefined;
  #poll: ReturnType<typeof setInterval> | undefined;
  #open = true;

  /** @param deadlineMs milliseconds for the server to answer */
  constructor(deadlineMs: number, connect: Connect) {
    this.#deadlineMs = deadlineMs;
    this.#connect = connect;
  }

  /** Calls back after commits, and every few seconds without one. @returns a function that ends it */
  follow(committed: Follower): () => void {
    this.#followers.add(committed);
    this.#poll ??= setInterval(() => this.look(), POLL_MS);
    void this.#listen();
    return () => this.#followers.delete(committed);
  }

  /** Has the followers notified also of what only watchers need. @returns a function that ends it */
  watch(): () => void {
    this.#watchers += 1;
    clearTimeout(this.#lingering);
    this.#lingering = undefined;
    void this.#watchOn(this.#listener);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#watchers -= 1;
      if (this.#watchers > 0 || !this.#open) return;
      this.#lingering = setTimeout(() => void this.#unwatch(), LINGER_MS);
    };
  }

  /** Makes all followers look now. */
  look(): void {
    void this.#listen();
    this.#called([]);
  }

  /** Calls all followers after a commit of this agent. */
  committed(notices: readonly string[]): void {
    this.#called(notices);
  }

  close(): void {
    this.#open = false;
    clearInterval(this.#poll);
    clearTimeout(this.#lingering);
    this.#listener?.destroy();
  }

  #called(notices: readonly string[]): void {
    // Followers read from the store, which refuses that once it is closed.
    if (!this.#open) return;
    for (const call of this.#followers) call(notices);
  }

  /** Opens the session, or checks the one that is open. */
  async #listen(): Promise<void> {
    if (this.#followers.size === 0 || !this.#open) return;
    const standing = this.#listener;
    // Repeating LISTEN shows whether the server still answers.
    if (standing !== undefined && !standing.broken) return await this.#listenOn(standing);
    // A placeholder, so that no second session is opened while this one connects.
    const none = () => new Promise<never>(() => {});
    this.#listener = { broken: false, script: none, destroy: () => {}, pid: null };
    try {
      const client = await this.#connect(
        performance.now() + this.#deadlineMs,
        (payload) => this.#called(noticesIn(payload)),
      );
      this.#listener = client;
      if (!this.#open) return client.destroy();
      await this.#listenOn(client);
      // Something may have been committed before the session listened.
      this.#called([MISSED_NOTICE]);
    } catch {
      // The next look tries again.
      this.#listener = undefined;
    }
  }

  async #listenOn(client: ListeningSession): Promise<void> {
    await this.#run(client, `LISTEN ${CHANNEL}`);
    await this.#watchOn(client);
  }

  /** Has the session listen for watchers, if there are some and it does not yet. */
  async #watchOn(client: ListeningSession | undefined): Promise<void> {
    const wanted = this.#watchers > 0 && client !== undefined && client.pid !== null;
    if (!wanted || client.broken || client === this.#watching) return;
    this.#watching = client;
    // A pooler, which delivers no notices, reports another process id, and would leave the lock to other sessions.
    await this.#run(
      client,
      `LISTEN ${WATCHERS_CHANNEL};
       SELECT pg_advisory_lock_shared(${WATCHERS_LOCK}) WHERE pg_backend_pid() = ${client.pid}`,
    );
    // The watchers may have looked before a commit that did not know of them.
    this.#called([MISSED_NOTICE]);
  }

  async #unwatch(): Promise<void> {
    const client = this.#watching;
    this.#watching = undefined;
    if (client === undefined || client.broken) return;
    await this.#run(client, `UNLISTEN ${WATCHERS_CHANNEL}; SELECT pg_advisory_unlock_all()`);
  }

  /** Runs statements on the session; closes it if they fail, or are not answered in time. */
  async #run(client: ListeningSession, sql: string): Promise<void> {
    const timer = setTimeout(() => client.destroy(), this.#deadlineMs);
    try {
      await client.script(sql);
    } catch {
      client.destroy();
    } finally {
      clearTimeout(timer);
    }
  }
}
