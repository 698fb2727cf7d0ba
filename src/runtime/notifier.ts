// What wakes a loop that waits: a notifier, or one for each key and listener.

import { callAfter, TIMER_MS_MAX } from "./timers.ts";

/** Wakes a waiting loop. A notification without a waiter is kept for the next wait. */
export class Notifier {
  #notified = false;
  #answer: (() => void) | undefined;

  notify(): void {
    this.#notified = true;
    this.#answer?.();
  }

  /** Waits for a notification, until the time is over or the signal fires. */
  async wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (!this.#notified && !signal?.aborted) {
      await new Promise<void>((resolve) => {
        const cancelTimer = callAfter(Math.min(Math.max(ms, 0), TIMER_MS_MAX), () => done());
        const done = () => {
          cancelTimer();
          signal?.removeEventListener("abort", done);
          resolve();
        };
        this.#answer = done;
        signal?.addEventListener("abort", done, { once: true });
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
