// The times of a runner's lease: when it is renewed, when the store has been silent for too long, and whether the
// process stood still, stopped by a signal or suspended with its host. More time has then passed between two looks at
// the clocks than any work takes, and another runner may have its jobs.

import type { Now } from "../domain/instant.ts";

/**
 * Share of a lease after which it is renewed: two more renewals may fail. An idle runner looks for expired leases of
 * others at the same interval.
 */
const RENEW_SHARE = 1 / 3;
/** Share of a lease after which guests end if it was not renewed in a shared store: before others take the jobs. */
const UNHEARD_SHARE = 2 / 3;
/** Milliseconds between two looks. */
const CLOCK_LOOK_MS = 1_000;
/**
 * Share of a lease between two looks that counts as a standstill: a lease renewed just before the first look would
 * soon be over.
 */
const STOOD_SHARE = 1 / 2;

interface LeaseOptions {
  /** Milliseconds that never go backwards; they may not count while the host is suspended. */
  readonly monotonicMs: () => number;
  /** The calendar, which counts on while the host is suspended. */
  readonly now: Now;
  /** How long the store keeps the runner's jobs without a sign of life, milliseconds. */
  readonly leaseMs: number;
  /** Whether other hosts share the store. Otherwise nobody takes the jobs: no silence is too long. */
  readonly shared: boolean;
  /** Once aborted, no renewal starts the time of silence again: the jobs that still run are ending. */
  readonly stopping: AbortSignal;
  /** Called after a standstill, when the lease counts as not renewed. */
  readonly stood: () => void;
  /** Called when the store has been silent for too long. */
  readonly unheard: () => void;
}

/** Watches the clocks from start() to stop(). */
export class Lease {
  readonly #options: LeaseOptions;
  /** Milliseconds after which a renewal is due. */
  readonly renewMs: number;
  /** Monotonic milliseconds at which the latest successful renewal was sent. */
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #unheard: ReturnType<typeof setTimeout> | undefined;
  #looked: { readonly ms: number; readonly calendarMs: number } | undefined;
  #looks: ReturnType<typeof setInterval> | undefined;
  #waking: PromiseWithResolvers<void> | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.renewMs = options.leaseMs * RENEW_SHARE;
  }

  start(): void {
    if (!this.#options.shared) return;
    this.look();
    this.#looks = setInterval(() => this.look(), CLOCK_LOOK_MS);
  }

  stop(): void {
    clearTimeout(this.#unheard);
    clearInterval(this.#looks);
    this.#waking?.resolve();
  }

  get isRenewalDue(): boolean {
    return this.#options.monotonicMs() >= this.#renewedAtMs + this.renewMs;
  }

  /** Whether the store has been silent for too long: other hosts may take free jobs. */
  get isUnheard(): boolean {
    return this.#options.shared && this.#unheardInMs() <= 0;
  }

  /** @param atMs when the renewal was sent: the lease cannot end sooner than that plus its length */
  renewed(atMs: number): void {
    this.#renewedAtMs = atMs;
    clearTimeout(this.#unheard);
    const { shared, stopping, unheard } = this.#options;
    if (!shared || stopping.aborted) return;
    this.#unheard = setTimeout(unheard, Math.max(this.#unheardInMs(), 0));
  }

  #unheardInMs(): number {
    const { leaseMs, monotonicMs } = this.#options;
    return this.#renewedAtMs + leaseMs * UNHEARD_SHARE - monotonicMs();
  }

  look(): void {
    const { monotonicMs, now, leaseMs, stood } = this.#options;
    const [before, ms, calendarMs] = [this.#looked, monotonicMs(), Date.parse(now())];
    this.#looked = { ms, calendarMs };
    if (before === undefined) return;
    const stoodMs = Math.max(ms - before.ms, calendarMs - before.calendarMs);
    if (stoodMs < leaseMs * STOOD_SHARE) return;
    this.#waking ??= Promise.withResolvers();
    this.#renewedAtMs = Number.NEGATIVE_INFINITY;
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
