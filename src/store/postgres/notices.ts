// What agents learn of each other's jobs, with the commit that changed them: single words, in notices of the server.

import type { JobUuid } from "../../domain/id.ts";
import type { JobNotice } from "../host_store.ts";

/** Characters of words in one notice; the server takes 8,000 bytes. */
const NOTICE_CHARS_MAX = 4_000;

/** The first letter of each word. */
const LETTERS = { queued: "q", canceled: "c", changed: "e", host: "h" } as const;

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
export function noticesOf(words: ReadonlySet<string>): string[] {
  const notices: string[] = [];
  for (const word of words) {
    const last = notices.at(-1);
    if (last === undefined || last.length + word.length >= NOTICE_CHARS_MAX) notices.push(word);
    else notices[notices.length - 1] = `${last} ${word}`;
  }
  return notices;
}

/** The words of a notice. */
export function wordsOf(notice: string): string[] {
  return notice.split(" ").filter((word) => word !== "");
}
