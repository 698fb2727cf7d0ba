// Lines about requests, by caller. Each request has its own line as long as its caller has few; beyond that
// they are counted, and one line stands for all of them. Without that, anybody who may call at all fills
// the log.

import type { Log } from "../../metrics/log.ts";

/** Lines that one caller may have by themselves within a window. */
export const CALLER_LINES_MAX = 600;
/** Milliseconds of a window. */
const WINDOW_MS = 60_000;
/** Callers that are counted apart; further ones are one. */
const CALLERS_MAX = 256;
/** Statuses that are counted apart; there are few. */
const STATUSES_MAX = 32;

/** Who calls, as the line says it. */
export interface LineCaller {
  readonly who: string;
  readonly peer: string;
}

const OTHERS: LineCaller = { who: "others", peer: "others" };

/** Decides about lines. Each is counted where it does not stand by itself. */
export interface AccessLines {
  /** Whether the line about this answer stands by itself. */
  answered(caller: LineCaller, status: number): boolean;
  /** Whether the line that records this call does. */
  audited(caller: LineCaller): boolean;
  /** Writes the lines that stand for many. */
  flush(): void;
}

interface Window {
  readonly caller: LineCaller;
  readonly sinceMs: number;
  /** That stood by themselves. */
  lines: number;
  audited: number;
  readonly statuses: Map<number, number>;
}

/** @param nowMs a clock that never goes back */
export function openAccessLines(
  log: Log,
  nowMs: () => number = () => performance.now(),
): AccessLines {
  const windows = openWindows(log, nowMs);
  /** The window of a line that does not stand by itself. */
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

/** The windows of callers; each ends with its line, if it has counted any. */
interface Windows {
  of(caller: LineCaller): Window;
  /** Ends those that count in time, even if nobody calls any more. */
  endLater(): void;
  endAll(): void;
}

function openWindows(log: Log, nowMs: () => number): Windows {
  /** In the order in which they began. */
  const windows = new Map<string, Window>();
  let ending: ReturnType<typeof setTimeout> | undefined;
  const end = (ageMs: number) => {
    for (const [key, window] of windows) {
      const passedMs = nowMs() - window.sinceMs;
      if (passedMs < ageMs) return;
      windows.delete(key);
      if (isCounting(window)) tell(log, window, passedMs);
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

/** Writes the line that stands for many. */
function tell(log: Log, { caller, statuses, audited }: Window, passedMs: number): void {
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
