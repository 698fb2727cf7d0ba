// Whether the process stood still: stopped by a signal, or with its whole host. It notices that
// more time has passed between two looks than any work takes. What it believes to hold may be another's by then.

import type { Now } from "../domain/instant.ts";

/** Milliseconds between two looks. */
const CLOCK_LOOK_MS = 1_000;
/** The part of a lease between two looks that counts: what was renewed just before the first one is over soon. */
const STOOD_SHARE = 1 / 2;

/** What a standstill is measured by. */
interface StandstillOptions {
  /** Milliseconds that never go backwards; they may not count while the host is suspended. */
  readonly monotonicMs: () => number;
  /** The calendar, which counts on while the host is suspended. */
  readonly now: Now;
  /** How long the store leaves the runner its jobs unheard, milliseconds. */
  readonly leaseMs: number;
  /** Called when the process has stood still. */
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

  /** Waits until what was held before the standstill has been asked for, if there was one. */
  async asked(): Promise<void> {
    await this.#waking?.promise;
  }

  /** What was held is being asked for. @returns to be called with the answer, or when none came */
  asking(): () => void {
    const waking = this.#waking;
    return () => {
      if (waking === undefined) return;
      if (this.#waking === waking) this.#waking = undefined;
      waking.resolve();
    };
  }
}
