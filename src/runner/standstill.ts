// Detects that the process stood still: stopped by a signal, or suspended with its host. More time has then passed
// between two looks at the clocks than any work takes, and another runner may have its jobs.

import type { Now } from "../domain/instant.ts";

/** Milliseconds between two looks. */
const CLOCK_LOOK_MS = 1_000;
/**
 * Share of a lease between two looks that counts as a standstill: a lease renewed just before the first look would
 * soon be over.
 */
const STOOD_SHARE = 1 / 2;

interface StandstillOptions {
  /** Milliseconds that never go backwards; they may not count while the host is suspended. */
  readonly monotonicMs: () => number;
  /** The calendar, which counts on while the host is suspended. */
  readonly now: Now;
  /** How long the store keeps the runner's jobs without a sign of life, milliseconds. */
  readonly leaseMs: number;
  readonly stood: () => void;
}

/** Watches the clocks from start() to stop(). */
export class Standstill {
  readonly #options: StandstillOptions;
  #looked: { readonly ms: number; readonly calendarMs: number } | undefined;
  #looks: ReturnType<typeof setInterval> | undefined;
  #waking: PromiseWithResolvers<void> | undefined;

  constructor(options: StandstillOptions) {
    this.#options = options;
  }

  start(): void {
    this.look();
    this.#looks = setInterval(() => this.look(), CLOCK_LOOK_MS);
  }

  stop(): void {
    clearInterval(this.#looks);
    this.#waking?.resolve();
  }

  look(): void {
    const { monotonicMs, now, leaseMs, stood } = this.#options;
    const [before, ms, calendarMs] = [this.#looked, monotonicMs(), Date.parse(now())];
    this.#looked = { ms, calendarMs };
    if (before === undefined) return;
    const stoodMs = Math.max(ms - before.ms, calendarMs - before.calendarMs);
    if (stoodMs < leaseMs * STOOD_SHARE) return;
    this.#waking ??= Promise.withResolvers();
    stood();
  }

  /** Waits until the store has been asked about the jobs held before a standstill, if there was one. */
  async asked(): Promise<void> {
    await this.#waking?.promise;
  }

  /** Call when asking the store. @returns to be called when it has answered, or failed to */
  asking(): () => void {
    const waking = this.#waking;
    return () => {
      if (waking === undefined) return;
      if (this.#waking === waking) this.#waking = undefined;
      waking.resolve();
    };
  }
}
