// Notices: what agents learn of each other's jobs, such as "job X was canceled". The server delivers them with the commit
// that made the change, by NOTIFY; the payload of one notification has several notices, separated by blanks.

import type { JobUuid } from "../../domain/id.ts";
import type { JobNotice } from "../host_store.ts";
import type { ServerSession } from "./server.ts";

/** Characters of one payload; the server accepts 8,000 bytes. */
const PAYLOAD_CHARS_MAX = 4_000;

/** The first letter of a notice is its kind; an id follows. */
const LETTERS = { queued: "q", canceled: "c", changed: "e", host: "h" } as const;

/** Reports only that an event was committed. */
export const EVENT_NOTICE = "";

/** A job became ready. @param host the only one that may run it */
export function queuedNotice(host: string): string {
  return `${LETTERS.queued}${host}`;
}

/** A job that a runner holds was canceled. */
export function canceledNotice(job: JobUuid): string {
  return `${LETTERS.canceled}${job}`;
}

/** A job has ended, or is waiting. */
export function changedNotice(job: JobUuid): string {
  return `${LETTERS.changed}${job}`;
}

/** A host was cordoned, admitted or forgotten. */
export function hostNotice(host: string): string {
  return `${LETTERS.host}${host}`;
}

/** Translates a notice for an agent. @param hosts the hosts whose jobs the agent runs */
export function jobNoticesOf(notice: string, hosts: readonly string[]): JobNotice[] {
  // Only agents send notices, so the rest is the uuid of a row.
  const rest = notice.slice(1) as JobUuid;
  switch (notice[0]) {
    case LETTERS.queued:
      return hosts.includes(rest) ? [{ kind: "queued" }] : [];
    case LETTERS.canceled:
      return [{ kind: "canceled", job_uuid: rest }];
    case LETTERS.changed:
      return [{ kind: "changed", job_uuid: rest }];
    case LETTERS.host:
      return hosts.includes(rest) ? [{ kind: "host" }] : [];
    default:
      // A newer agent may send notices that this one does not know.
      return [];
  }
}

/** Packs notices into payloads that the server accepts. */
export function payloadsOf(notices: Iterable<string>): string[] {
  const payloads: string[] = [];
  for (const notice of notices) {
    const last = payloads.at(-1);
    if (last === undefined || last.length + notice.length >= PAYLOAD_CHARS_MAX) {
      payloads.push(notice);
    } else payloads[payloads.length - 1] = `${last} ${notice}`;
  }
  return payloads;
}

function noticesIn(payload: string): string[] {
  return payload.split(" ").filter((notice) => notice !== "");
}

/** Called after commits, with the notices that were sent with them. */
export type Follower = (notices: readonly string[]) => void;

/** Milliseconds between two looks without a notice, and before the listening session is opened or checked again. */
const POLL_MS = 5_000;
/** The channel of the notices. */
export const CHANNEL = "zonewright";

type ListeningSession = Pick<ServerSession, "script" | "destroy" | "broken">;
/** Opens a session that receives notices, until a time of performance.now(). */
type Connect = (
  deadlineMs: number,
  noticed: (payload: string) => void,
) => Promise<ListeningSession>;

/**
 * The followers of the commits of all agents, and the session that listens, which learns of commits as they happen.
 * Without it, followers look every few seconds.
 */
export class Listening {
  readonly #deadlineMs: number;
  readonly #connect: Connect;
  readonly #followers = new Set<Follower>();
  #listener: ListeningSession | undefined;
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
    this.#listener = { broken: false, script: none, destroy: () => {} };
    try {
      const client = await this.#connect(
        performance.now() + this.#deadlineMs,
        (payload) => this.#called(noticesIn(payload)),
      );
      this.#listener = client;
      if (!this.#open) return client.destroy();
      await this.#listenOn(client);
      // Something may have been committed before the session listened.
      this.#called([]);
    } catch {
      // The next look tries again.
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
