// What agents learn of each other's jobs, with the commit that changed them: single words, in notices of the server.

import type { JobUuid } from "../../domain/id.ts";
import type { JobNotice } from "../host_store.ts";
import type { ServerSession } from "./server.ts";

/** Characters of words in one notice; the server takes 8,000 bytes. */
const NOTICE_CHARS_MAX = 4_000;

/** The first letter of each word. */
const LETTERS = { queued: "q", canceled: "c", changed: "e", host: "h" } as const;

/** Nothing but that there is an event. */
export const EVENT_WORD = "";

/** A job became ready. @param host the one that may run it */
export function queuedWord(host: string): string {
  return `${LETTERS.queued}${host}`;
}

/** A job that a runner holds was canceled. */
export function canceledWord(job: JobUuid): string {
  return `${LETTERS.canceled}${job}`;
}

/** A job has ended, or waits. */
export function changedWord(job: JobUuid): string {
  return `${LETTERS.changed}${job}`;
}

/** A host was cordoned, admitted or forgotten. */
export function hostWord(host: string): string {
  return `${LETTERS.host}${host}`;
}

/** What a word says to an agent. @param hosts whose jobs it runs */
export function noticeOf(word: string, hosts: readonly string[]): JobNotice[] {
  // Words come from agents alone: the uuid is that of a row.
  const rest = word.slice(1) as JobUuid;
  switch (word[0]) {
    case LETTERS.queued:
      return hosts.includes(rest) ? [{ kind: "queued" }] : [];
    case LETTERS.canceled:
      return [{ kind: "canceled", job_uuid: rest }];
    case LETTERS.changed:
      return [{ kind: "changed", job_uuid: rest }];
    case LETTERS.host:
      return hosts.includes(rest) ? [{ kind: "host" }] : [];
    default:
      // That of a newer agent.
      return [];
  }
}

/** Words as notices that the server takes. */
export function noticesOf(words: Iterable<string>): string[] {
  const notices: string[] = [];
  for (const word of words) {
    const last = notices.at(-1);
    if (last === undefined || last.length + word.length >= NOTICE_CHARS_MAX) notices.push(word);
    else notices[notices.length - 1] = `${last} ${word}`;
  }
  return notices;
}

/** The words of a notice. */
function wordsOf(notice: string): string[] {
  return notice.split(" ").filter((word) => word !== "");
}

// The session that listens: it hears at once what any agent has committed. Without it, followers look every few
// seconds.

/** Called after commits, with the words that were said with them. */
export type Follower = (words: readonly string[]) => void;

/** Milliseconds between two looks without a notice of the server, and before it is asked again. */
const POLL_MS = 5_000;
/** The channel on which agents learn that something was committed. */
export const CHANNEL = "zonewright";

type ListeningSession = Pick<ServerSession, "script" | "destroy" | "broken">;
/** Opens a session that hears notices, by a deadline of performance.now(). */
type Connect = (deadlineMs: number, noticed: (notice: string) => void) => Promise<ListeningSession>;

/** Who follows the commits of all agents. */
export class Listening {
  readonly #deadlineMs: number;
  readonly #connect: Connect;
  readonly #followers = new Set<Follower>();
  #listener: ListeningSession | undefined;
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

  /** Calls everyone for a commit of this agent. */
  committed(words: readonly string[]): void {
    this.#called(words);
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
    this.#listener = { broken: false, script: none, destroy: () => {} };
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

  async #listenOn(client: ListeningSession): Promise<void> {
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
