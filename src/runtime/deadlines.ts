// Deadlines that are mostly called off: the time of a task, the wait of a loop. They share one timer of the
// platform, which stays at the nearest of them: to set a timer and to clear it costs some 4 us each time.

interface DueCall {
  /** Milliseconds, as performance.now() counts them. */
  readonly atMs: number;
  readonly run: () => void;
}

const waiting = new Set<DueCall>();
let timer: ReturnType<typeof setTimeout> | undefined;
/** When the timer fires: never later than the first deadline. */
let timerAtMs = Number.POSITIVE_INFINITY;

/**
 * Calls back after `ms` milliseconds, which must be less than the longest timer of the platform.
 * @returns calls it off
 */
export function callAfter(ms: number, run: () => void): () => void {
  const deadline = { atMs: performance.now() + ms, run };
  waiting.add(deadline);
  if (deadline.atMs < timerAtMs) arm(deadline.atMs, ms);
  return () => {
    // With nothing to wait for, the process may end.
    if (waiting.delete(deadline) && waiting.size === 0) disarm();
  };
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
  const due = [...waiting].filter(({ atMs }) => atMs <= nowMs);
  try {
    // One of them may call off another.
    for (const deadline of due) if (waiting.delete(deadline)) deadline.run();
  } finally {
    const nextMs = Math.min(...Array.from(waiting, ({ atMs }) => atMs));
    if (nextMs < timerAtMs) arm(nextMs, Math.max(Math.ceil(nextMs - nowMs), 0));
  }
}
