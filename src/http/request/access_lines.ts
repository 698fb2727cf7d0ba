// Log lines about requests, by caller. Each request gets its own line while its caller has few; further ones are
// counted in a single line, so that no caller can fill the log.

import type { Context } from "hono";
import { routePath } from "hono/route";
import type { Instant, Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import { methodName, NO_ROUTE } from "../../metrics/meters.ts";
import type { HttpEnv } from "../served_agent.ts";

/** Requests of one caller in a window that get their own line. */
export const CALLER_LINES_MAX = 600;
const WINDOW_MS = 60_000;
/** Callers that are counted separately; all others count as one. */
const CALLERS_MAX = 256;
/** Statuses that are counted separately. */
const STATUSES_MAX = 32;
/** Kinds of audited calls that are counted separately; all others count as one. */
const KINDS_MAX = 32;
const OTHER_KINDS = "others";

/** The caller as log lines name it. */
interface LineCaller {
  readonly who: string;
  readonly peer: string;
}

const OTHERS: LineCaller = { who: "others", peer: "others" };

/** Decides which requests get their own line; others are counted. */
export interface AccessLines {
  /** Whether this answer gets its own line. */
  answered(caller: LineCaller, status: number): boolean;
  /**
   * Whether this audited call gets its own line.
   * @param kind method and route; see {@linkcode callKind}
   */
  audited(caller: LineCaller, kind: string): boolean;
  /** Writes the lines of counted requests. */
  flush(): void;
}

interface Window {
  readonly caller: LineCaller;
  readonly since: Instant;
  readonly sinceMs: number;
  /** Lines of this caller that were written singly in this window. */
  lines: number;
  /** Calls that were only counted, by kind. */
  readonly audited: Map<string, number>;
  readonly statuses: Map<number, number>;
}

/** The route that answered: its pattern, never a path, so that there are only as many as routes. */
export function answeredRoute(c: Context<HttpEnv>): string {
  // The path of the last handler; middleware is registered for every path.
  const path = routePath(c).replaceAll(/\{[^{}]*\}/g, "");
  return path === "*" || path === "/*" || path === "" ? NO_ROUTE : path;
}

/** The method and the route of an answered call. */
export function callKind(c: Context<HttpEnv>): string {
  return `${methodName(c.req.method)} ${answeredRoute(c)}`;
}

/** @param nowMs a monotonic clock */
export function openAccessLines(
  log: Log,
  now: Now,
  nowMs: () => number = () => performance.now(),
): AccessLines {
  const windows = openWindows(log, now, nowMs);
  /** The window that counts a request; undefined for a single line. */
  const countingFor = (caller: LineCaller): Window | undefined => {
    const window = windows.of(caller);
    if (window.lines < CALLER_LINES_MAX) {
      window.lines += 1;
      return undefined;
    }
    if (log.leftOut !== undefined) log.leftOut.caller += 1;
    windows.endLater();
    return window;
  };
  return {
    answered(caller, status) {
      const window = countingFor(caller);
      if (window === undefined) return true;
      count(window.statuses, status, STATUSES_MAX, 0);
      return false;
    },
    audited(caller, kind) {
      const window = countingFor(caller);
      if (window === undefined) return true;
      count(window.audited, kind, KINDS_MAX, OTHER_KINDS);
      return false;
    },
    flush: windows.endAll,
  };
}

/** The windows of callers; each ends with a line if it has counted any. */
interface Windows {
  of(caller: LineCaller): Window;
  /** Ends windows on time, even without further calls. */
  endLater(): void;
  endAll(): void;
}

function openWindows(log: Log, now: Now, nowMs: () => number): Windows {
  /** By caller, in order of their start: the oldest ends first. */
  const windows = new Map<string, Window>();
  let ending: ReturnType<typeof setTimeout> | undefined;
  const end = (ageMs: number) => {
    for (const [key, window] of windows) {
      const passedMs = nowMs() - window.sinceMs;
      if (passedMs < ageMs) return;
      windows.delete(key);
      if (isCounting(window)) logWindow(log, window, passedMs);
    }
  };
  const endLater = () => {
    if (ending !== undefined) return;
    ending = setTimeout(() => {
      ending = undefined;
      end(WINDOW_MS);
      if ([...windows.values()].some(isCounting)) endLater();
    }, WINDOW_MS);
    Deno.unrefTimer(ending);
  };
  const of = (caller: LineCaller): Window => {
    end(WINDOW_MS);
    const key = `${caller.who} ${caller.peer}`;
    const known = windows.get(key);
    if (known !== undefined) return known;
    if (windows.size >= CALLERS_MAX && caller !== OTHERS) return of(OTHERS);
    const window: Window = {
      caller,
      since: now(),
      sinceMs: nowMs(),
      lines: 0,
      audited: new Map(),
      statuses: new Map(),
    };
    windows.set(key, window);
    return window;
  };
  const endAll = () => {
    clearTimeout(ending);
    ending = undefined;
    end(0);
  };
  return { of, endLater, endAll };
}

/** Counts one for a key; keys beyond `max` count as `other`. */
function count<Key>(counts: Map<Key, number>, key: Key, max: number, other: Key): void {
  const counted = counts.has(key) || counts.size < max ? key : other;
  counts.set(counted, (counts.get(counted) ?? 0) + 1);
}

function total(counts: ReadonlyMap<unknown, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function countsText(counts: ReadonlyMap<unknown, number>): string {
  return [...counts].map(([key, count]) => `${key}: ${count}`).join(", ");
}

/** Writes the line of a window. */
function logWindow(log: Log, { caller, since, statuses, audited }: Window, passedMs: number): void {
  log.info("requests counted together", {
    ...caller,
    requests: total(statuses),
    statuses: countsText(statuses),
    calls_audited: total(audited),
    calls: countsText(audited),
    since,
    seconds: Math.ceil(passedMs / 1000),
  });
}

function isCounting({ statuses, audited }: Window): boolean {
  return statuses.size > 0 || audited.size > 0;
}
