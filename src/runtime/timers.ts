// Timers, of which most are canceled before they fire: the time of a task, the wait of a loop. They share one timer of the
// platform.

/** Longest timer of the platform, milliseconds: 24 days. A longer wait is cut, and its loop looks again. */
export const TIMER_MS_MAX = 2_147_483_647;

/** A clock and its timers: an argument, so that a test decides what time it is. */
export interface Timers {
  /** Only differences between two readings mean something. */
  nowMs(): number;
  /** Calls back after `ms` milliseconds. @returns cancels the timer */
  start(ms: number, run: () => void): () => void;
}

/** The clock and the timers of the system. */
export const SYSTEM_TIMERS: Timers = {
  nowMs: () => performance.now(),
  start: callAfter,
};

interface DueCall {
  /** Milliseconds, as performance.now() counts them. */
  readonly atMs: number;
  readonly run: () => void;
  /** Its place in the list; -1 once it is off it. */
  place: number;
}

/**
 * In no order. A Set would leave its old tables behind: each holds the next one and what was in it, here whole
 * requests and jobs, until a collection of the whole heap.
 */
const waiting: DueCall[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;
/** When the timer fires: never later than the first deadline. */
let timerAtMs = Number.POSITIVE_INFINITY;

/**
 * Calls back after `ms` milliseconds, which must be less than the longest timer of the platform. It is for deadlines that
 * are mostly canceled: the time of a task, the wait of a loop. They share one timer of the platform, which stays at the
 * nearest of them: to set a timer and to clear it costs about 4 us each time.
 * @returns cancels it
 */
export function callAfter(ms: number, run: () => void): () => void {
  const deadline = { atMs: performance.now() + ms, run, place: waiting.length };
  waiting.push(deadline);
  if (deadline.atMs < timerAtMs) arm(deadline.atMs, ms);
  return () => {
    // With nothing to wait for, the process may end.
    if (leave(deadline) && waiting.length === 0) disarm();
  };
}

/** The last of the list takes its place. @returns whether it was waiting */
function leave(deadline: DueCall): boolean {
  const { place } = deadline;
  if (place < 0) return false;
  deadline.place = -1;
  const last = waiting.pop();
  if (last !== undefined && last !== deadline) {
    waiting[place] = last;
    last.place = place;
  }
  return true;
}

function arm(atMs: number, ms: number): void {
  clearTimeout(timer);
  timerAtMs = atMs;
  timer = setTimeout(callDue, ms);
}

function disarm(): void {
  clearTimeout(timer);
  timer = undefined;
  timerAtMs = Number.POSITIVE_INFINITY;
}

function callDue(): void {
  disarm();
  const nowMs = performance.now();
  const due = waiting.filter(({ atMs }) => atMs <= nowMs).sort((a, b) => a.atMs - b.atMs);
  try {
    // One of them may cancel another.
    for (const deadline of due) if (leave(deadline)) deadline.run();
  } finally {
    const nextMs = Math.min(...waiting.map(({ atMs }) => atMs));
    if (nextMs < timerAtMs) arm(nextMs, Math.max(Math.ceil(nextMs - nowMs), 0));
  }
}
