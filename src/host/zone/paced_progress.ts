// Telling of progress, not more often than somebody wants to hear of it.

/** Milliseconds between two tellings. */
const PACE_MS = 100;

/** A function that tells of bytes done at most every 100 ms, and once when all are done. */
export function pacedProgress(
  tell: ((done: number, total: number) => void) | undefined,
  total: number,
): (done: number) => void {
  let toldAt = -Infinity;
  return (done) => {
    const now = performance.now();
    if (done !== total && now - toldAt < PACE_MS) return;
    toldAt = now;
    tell?.(done, total);
  };
}
