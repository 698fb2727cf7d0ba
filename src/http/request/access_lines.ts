// Log lines about requests, by caller. Each request has its own line while its caller has few; beyond that
// they are counted in one line. Otherwise any caller could fill the log.

import type { Log } from "../../metrics/log.ts";

/** Single lines of one caller within a window. */
export const CALLER_LINES_MAX = 600;
/** Milliseconds of a window. */
const WINDOW_MS = 60_000;
/** Callers that are counted separately; all others count as one. */
const CALLERS_MAX = 256;
/** Statuses that are counted separately. */
const STATUSES_MAX = 32;

/** The caller as log lines name it. */
export interface LineCaller {
  readonly who: string;
  readonly peer: string;
}

const OTHERS: LineCaller = { who: "others", peer: "others" };

/** Decides which requests get their own line; others are counted. */
export interface AccessLines {
  /** Whether this answer gets its own line. */
  answered(caller: LineCaller, status: number): boolean;
  /** Whether this audited call gets its own line. */
  audited(caller: LineCaller): boolean;
  /** Writes the lines of counted requests. */
  flush(): void;
}

interface Window {
  readonly caller: LineCaller;
  readonly sinceMs: number;
  /** Single lines so far. */
  lines: number;
  audited: number;
  readonly statuses: Map<number, number>;
}

/** @param nowMs a monotonic clock */
export function openAccessLines(
  log: Log,
  nowMs: () => number = () => performance.now(),
): AccessLines {
  const windows = openWindows(log, nowMs);
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
      const { statuses } = window;
      const key = statuses.has(status) || statuses.size < STATUSES_MAX ? status : 0;
      statuses.set(key, (statuses.get(key) ?? 0) + 1);
      return false;
    },
    audited(caller) {
      const window = countingFor(caller);
      if (window === undefined) return true;
      window.audited += 1;
      return false;
    },
    flush: windows.endAll,
  };
}

/** The windows of callers; each ends with a line if it has counted any. */
interface Windows {
  of(caller: LineCaller): Window;
  /** Ends counting windows in time, even without further calls. */
  endLater(): void;
  endAll(): void;
}

function openWindows(log: Log, nowMs: () => number): Windows {
  /** Oldest first. */
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
    const window = { caller, sinceMs: nowMs(), lines: 0, audited: 0, statuses: new Map() };
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

/** Writes the line of a window. */
function logWindow(log: Log, { caller, statuses, audited }: Window, passedMs: number): void {
  log.info("requests counted together", {
    ...caller,
    requests: [...statuses.values()].reduce((sum, count) => sum + count, 0),
    statuses: [...statuses].map(([status, count]) => `${status}: ${count}`).join(", "),
    calls_audited: audited,
    seconds: Math.ceil(passedMs / 1000),
  });
}

function isCounting({ statuses, audited }: Window): boolean {
  return statuses.size > 0 || audited > 0;
}
