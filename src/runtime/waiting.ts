// The flow of asynchronous work: waits of loops, until something happens, a time has passed, or the loop is to end;
// deadlines; and functions that run a limited number at a time, or with something open.

/** Longest wait without a check, so that a changed clock is noticed, milliseconds. */
export const LOOK_MS_MAX = 10_000;

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
  start(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Wakes a waiting loop. A notification without a waiter is kept for the next wait. */
export class Notifier {
  #notified = false;
  #answer: (() => void) | undefined;

  notify(): void {
    this.#notified = true;
    this.#answer?.();
  }

  /** Waits for a notification, until the time is over or the signal fires. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#notified && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const callOff = callAfter(Math.min(Math.max(ms, 0), TIMER_MS_MAX), () => done());
        const done = () => {
          callOff();
          signal.removeEventListener("abort", done);
          resolve();
        };
        this.#answer = done;
        signal.addEventListener("abort", done, { once: true });
      });
      this.#answer = undefined;
    }
    this.#notified = false;
  }
}

interface Listener extends Disposable {
  /** Like Notifier.wait; notifications since the listener was made are kept. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

/** Notifiers by key: a notification reaches every current listener of its key. */
export class Notifiers<Key> {
  readonly #listening = new Map<Key, Set<Notifier>>();

  notify(key: Key): void {
    for (const notifier of this.#listening.get(key) ?? []) notifier.notify();
  }

  notifyAll(): void {
    for (const key of this.#listening.keys()) this.notify(key);
  }

  listen(key: Key): Listener {
    const notifier = new Notifier();
    const notifiers = this.#listening.get(key) ?? new Set();
    this.#listening.set(key, notifiers.add(notifier));
    return {
      wait: (ms, signal) => notifier.wait(ms, signal),
      [Symbol.dispose]: () => {
        notifiers.delete(notifier);
        if (notifiers.size === 0 && this.#listening.get(key) === notifiers) {
          this.#listening.delete(key);
        }
      },
    };
  }
}

/** Waits for `ms` milliseconds, or until the signal ends the wait. Never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Notifier().wait(ms, signal);
}

/** The pauses between attempts, and what is called after each failure. */
interface BackoffOptions {
  /** Milliseconds before the second attempt; doubled before each further one. */
  readonly firstMs: number;
  readonly longestMs: number;
  readonly signal: AbortSignal;
  /** Called after each failure, before the wait. */
  readonly onFailure: (error: unknown, attempt: number) => void;
}

/**
 * Runs a function until it returns: once in any case, and again as long as the signal allows.
 * @returns what it returned, or undefined when the signal ended the attempts
 */
export async function untilDone<T>(
  run: () => Promise<T>,
  options: BackoffOptions,
): Promise<T | undefined> {
  for (let attempt = 1; attempt === 1 || !options.signal.aborted; attempt++) {
    try {
      return await run();
    } catch (error) {
      options.onFailure(error, attempt);
      await pause(
        Math.min(options.firstMs * 2 ** (attempt - 1), options.longestMs),
        options.signal,
      );
    }
  }
  return undefined;
}

/**
 * Runs a function with something open, and closes it whatever happens. `using` would say the same,
 * but `deno bundle` drops the closing from it: a file lock would be held to the end of the process.
 */
export async function closing<T extends Disposable, R>(
  opened: T,
  run: (opened: T) => R | Promise<R>,
): Promise<R> {
  try {
    return await run(opened);
  } finally {
    opened[Symbol.dispose]();
  }
}

/**
 * Calls `run` for every item, at most `limit` of them at once. After a failure no further item is
 * begun, those under way are waited for, and the first failure is thrown.
 * @throws what the first `run` that failed threw
 */
export async function mapLimited<T>(
  items: readonly T[],
  limit: number,
  run: (item: T) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  let next = 0;
  const worker = async () => {
    while (next < items.length && failures.length === 0) {
      const item = items[next++] as T;
      try {
        await run(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failures.length > 0) throw failures[0];
}

/** Milliseconds between two looks at whether operations of the runtime end. */
const LOOK_MS = 10_000;
/** Looks in a row at which the same operation has not ended. */
const LOOKS_MAX = 6;

/**
 * Sees that operations of the runtime still end. Timers may go on when no read, write or end of a process arrives
 * any more; then nothing the process waits for comes, a signal included. A process that is only busy, or stopped for
 * a while, does not count as stalled: checks do not add up meanwhile.
 * @param operate an operation that ends at once, and needs neither disk nor network
 * @param stalled called once, after a minute in which it has not ended, with the seconds
 * @returns ends the watch
 */
export function watchOperations(
  { operate, stalled, timers = SYSTEM_TIMERS }: {
    readonly operate: () => Promise<unknown>;
    readonly stalled: (seconds: number) => void;
    readonly timers?: Timers;
  },
): () => void {
  let looks = 0;
  let pending = false;
  const look = () => {
    looks = pending ? looks + 1 : 0;
    if (looks >= LOOKS_MAX) return stalled(looks * LOOK_MS / 1000);
    if (!pending) {
      pending = true;
      const ended = () => void (pending = false);
      operate().then(ended, ended);
    }
    cancel = timers.start(LOOK_MS, look);
  };
  // Not at once: the first operation of its kind may load much of the runtime.
  let cancel = timers.start(LOOK_MS, look);
  return () => cancel();
}

/** Waits for a promise, but no longer than `ms`. */
export async function within(ms: number, waiting: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  try {
    await Promise.race([waiting, late]);
  } finally {
    clearTimeout(timer);
  }
}

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
 * are mostly called off: the time of a task, the wait of a loop. They share one timer of the platform, which stays at the
 * nearest of them: to set a timer and to clear it costs about 4 us each time.
 * @returns calls it off
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
    // One of them may call off another.
    for (const deadline of due) if (leave(deadline)) deadline.run();
  } finally {
    const nextMs = Math.min(...waiting.map(({ atMs }) => atMs));
    if (nextMs < timerAtMs) arm(nextMs, Math.max(Math.ceil(nextMs - nowMs), 0));
  }
}
