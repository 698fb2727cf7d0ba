// The session that listens: it hears at once what any agent has committed. Without it, followers look every few
// seconds.

import { wordsOf } from "./notices.ts";
import type { ServerSession } from "./server.ts";

/** Called after commits, with the words that were said with them. */
export type Follower = (words: readonly string[]) => void;

/** Milliseconds between two looks without a notice of the server, and before it is asked again. */
const POLL_MS = 5_000;
/** The channel on which agents learn that something was committed. */
export const CHANNEL = "zonewright";

/** Opens a session that hears notices, by a deadline of performance.now(). */
type Connect = (deadlineMs: number, noticed: (notice: string) => void) => Promise<ServerSession>;

/** Who follows the commits of all agents. */
export class Listening {
  readonly #deadlineMs: number;
  readonly #connect: Connect;
  readonly #followers = new Set<Follower>();
  #listener: ServerSession | undefined;
  #poll: ReturnType<typeof setInterval> | undefined;
  #open = true;

  /** @param deadlineMs of each question */
  constructor(deadlineMs: number, connect: Connect) {
    this.#deadlineMs = deadlineMs;
    this.#connect = connect;
  }

  /** Calls back after commits, and every few seconds without one. @returns ends that */
  follow(committed: Follower): () => void {
    this.#followers.add(committed);
    this.#poll ??= setInterval(() => this.look(), POLL_MS);
    void this.#listen();
    return () => this.#followers.delete(committed);
  }

  /** Has everyone look now. */
  look(): void {
    void this.#listen();
    this.#called([]);
  }

  close(): void {
    this.#open = false;
    clearInterval(this.#poll);
    this.#listener?.destroy();
  }

  #called(words: readonly string[]): void {
    // Followers read, and a closed store refuses that.
    if (!this.#open) return;
    for (const call of this.#followers) call(words);
  }

  /** Opens the session, unless there is one. */
  async #listen(): Promise<void> {
    if (this.#followers.size === 0 || !this.#open) return;
    const standing = this.#listener;
    // Said again, it shows whether the server still answers.
    if (standing !== undefined && !standing.broken) return await this.#listenOn(standing);
    // Holds the place while it connects.
    const none = () => new Promise<never>(() => {});
    this.#listener = { broken: false, query: none, script: none, destroy: () => {} };
    try {
      const client = await this.#connect(
        performance.now() + this.#deadlineMs,
        (notice) => this.#called(wordsOf(notice)),
      );
      this.#listener = client;
      if (!this.#open) return client.destroy();
      await this.#listenOn(client);
      // What was committed before it listened.
      this.#called([]);
    } catch {
      // It is tried again with the next look.
      this.#listener = undefined;
    }
  }

  async #listenOn(client: ServerSession): Promise<void> {
    const timer = setTimeout(() => client.destroy(), this.#deadlineMs);
    try {
      await client.script(`LISTEN ${CHANNEL}`);
    } catch {
      client.destroy();
    } finally {
      clearTimeout(timer);
    }
  }
}
