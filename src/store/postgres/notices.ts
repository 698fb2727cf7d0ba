// Notices: what agents learn of each other's jobs, such as "job X was canceled". The server delivers them with the commit
// that made the change, by NOTIFY; the payload of one notification has several notices, separated by blanks.

import type { JobUuid } from "../../domain/id.ts";
import type { JobNotice } from "../host_store.ts";

/** Characters of one payload; the server accepts 8,000 bytes. */
const PAYLOAD_CHARS_MAX = 4_000;

/** The first letter of a notice is its kind; an id follows. */
const LETTERS = {
  queued: "q",
  canceled: "c",
  changed: "e",
  host: "h",
  callback: "b",
  missed: "m",
} as const;

/** Reports only that an event was committed. */
export const EVENT_NOTICE = "";
/** Notices for watchers may have been missed. Only an agent itself says so, to its own followers. */
export const MISSED_NOTICE: string = LETTERS.missed;

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

/** A job with a callback has ended. @param owner the host that calls back */
export function callbackNotice(owner: string): string {
  return `${LETTERS.callback}${owner}`;
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
    case LETTERS.callback:
      return hosts.includes(rest) ? [{ kind: "callback" }] : [];
    case LETTERS.missed:
      return [{ kind: "changed" }];
    default:
      // A newer agent may send notices that this one does not know.
      return [];
  }
}

/** The payloads that a commit sends. */
export interface Payloads {
  /** For every agent. */
  readonly hosts: readonly string[];
  /** For agents with watchers, see listening.ts; empty if these have nothing to look for. */
  readonly watchers: readonly string[];
}

/**
 * Packs the notices of a commit into payloads.
 * @param own the host of this agent, which needs no notice about itself from the server
 * @param quiet whether the commit changes nothing that watchers look for, unless it has a notice for them
 */
export function payloadsOf(
  notices: readonly string[],
  own: string | undefined,
  quiet: boolean,
): Payloads {
  const isForWatchers = (notice: string) =>
    notice === EVENT_NOTICE || notice.startsWith(LETTERS.changed);
  const others = notices.filter((notice) => notice.slice(1) !== own);
  const watched = others.filter(isForWatchers);
  return {
    hosts: packed(others.filter((notice) => !isForWatchers(notice))),
    watchers: watched.length > 0 || quiet ? packed(watched) : [EVENT_NOTICE],
  };
}

/** Packs notices into payloads that the server accepts. */
function packed(notices: readonly string[]): string[] {
  const payloads: string[] = [];
  for (const notice of notices) {
    const last = payloads.at(-1);
    if (last === undefined || last.length + notice.length >= PAYLOAD_CHARS_MAX) {
      payloads.push(notice);
    } else payloads[payloads.length - 1] = `${last} ${notice}`;
  }
  return payloads;
}

/** The notices of a payload. */
export function noticesIn(payload: string): string[] {
  return payload.split(" ").filter((notice) => notice !== "");
}
