// The clock of the system with fractions of a millisecond.

const TICKS = 20;

/**
 * What has to be added to performance.now() to have what Date.now() counts in whole milliseconds.
 * A look at either clock can only be late, which makes the difference too small: the largest of
 * several is right.
 */
export function wallClockOffsetMs(): number {
  let largest = -Infinity;
  for (let number = 0; number < TICKS; number++) {
    const tick = Date.now();
    let now = tick;
    while (now === tick) now = Date.now();
    largest = Math.max(largest, now - performance.now());
  }
  return largest;
}
