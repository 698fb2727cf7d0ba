// A runner's lease of its jobs in the store: it begins with the life of the runner and is renewed in time. It also notices
// when the store has been silent for too long, and whether the process was suspended, by a signal or with its host. In a
// standstill more time passes between two readings of the clocks than any work takes, and another runner may have claimed
// the jobs.

import { unreachable } from "../domain/error.ts";
import type { Admission } from "../domain/host.ts";
import type { Incarnation } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";
import { LOOK_MS_MAX } from "./next_jobs.ts";
import type { Hold, RenewOutcome, RunnerLife } from "../store/run_store.ts";
import type { Store } from "../store/store.ts";

/**
 * Share of a lease after which it is renewed, so that two more renewals may fail. An idle runner looks for expired
 * leases of other runners at the same interval.
 */
const RENEW_SHARE = 1 / 3;
/**
 * Share of a lease after which, in a shared store, guests are ended if it was not renewed: before others take the jobs.
 */
const SILENT_SHARE = 2 / 3;
/** Milliseconds between two readings of the clocks. */
const CLOCK_LOOK_MS = 1_000;
/** A standstill is at least this share of a lease: a lease that was renewed just before would soon expire. */
const SUSPENDED_SHARE = 1 / 2;

interface LeaseOptions {
  /** Where other hosts share it, they take the jobs after a silence; otherwise no silence is too long. */
  readonly store: Store;
  readonly life: RunnerLife;
  /** Earlier lives of the runner, which have ended. */
  readonly earlier: readonly Incarnation[];
  /** What the host may claim at the start; everything unless given. */
  readonly admission?: Admission;
  /** Milliseconds of a clock that never goes backwards; it may stand still while the host is suspended. */
  readonly monotonicMs: () => number;
  /** The calendar clock, which continues while the host is suspended. */
  readonly now: Now;
  /** Milliseconds for which the store keeps the runner's jobs without a heartbeat. */
  readonly leaseMs: number;
  /** Once it is aborted, renewals no longer restart the timer of silence, because the remaining jobs are ending. */
  readonly stopping: AbortSignal;
  /** Called after a standstill; the lease then counts as not renewed. */
  readonly suspended: () => void;
  /** Called when the store has been silent for too long. */
  readonly silent: () => void;
  readonly log: Log;
}

/** Watches the clocks between start() and stop(). */
export class Lease {
  readonly #options: LeaseOptions;
  /** Milliseconds after which a renewal is due. */
  readonly renewMs: number;
  /** Monotonic milliseconds at which the latest successful renewal was sent. */
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #begun = false;
  #inDoubt = false;
  #admission: Admission;
  /** Monotonic milliseconds at which expired leases of other runners were last looked for. */
  #rescuedAtMs = Number.NEGATIVE_INFINITY;
  #silent: ReturnType<typeof setTimeout> | undefined;
  #looked: { readonly ms: number; readonly calendarMs: number } | undefined;
  #looks: ReturnType<typeof setInterval> | undefined;
  #waking: PromiseWithResolvers<void> | undefined;

  constructor(options: LeaseOptions) {
    this.#options = options;
    this.renewMs = options.leaseMs * RENEW_SHARE;
    this.#admission = options.admission ?? "open";
  }

  start(): void {
    if (!this.#options.store.shared) return;
    this.look();
    this.#looks = setInterval(() => this.look(), CLOCK_LOOK_MS);
  }

  stop(): void {
    clearTimeout(this.#silent);
    clearInterval(this.#looks);
    this.#waking?.resolve();
  }

  get isRenewalDue(): boolean {
    return this.#options.monotonicMs() >= this.#renewedAtMs + this.renewMs;
  }

  /** Whether the store has been silent for so long that other hosts may take free jobs. */
  get isSilent(): boolean {
    return this.#options.store.shared && this.#silentInMs() <= 0;
  }

  /** What the host may claim, by the latest answer of the store. */
  get admission(): Admission {
    return this.#admission;
  }

  /** Whether the store knows this life of the runner; nothing is claimed before. */
  get isBegun(): boolean {
    return this.#begun;
  }

  /** Whether a claim may have succeeded although its answer was lost. */
  get isInDoubt(): boolean {
    return this.#inDoubt;
  }

  /** Has the lease renewed even if that is not due, to learn which claims hold. */
  doubt(): void {
    this.#inDoubt = true;
  }

  /** Begins the life of the runner. @returns milliseconds to wait while another life has the lease */
  async begin(): Promise<number> {
    const { store, life, earlier, leaseMs, monotonicMs, log } = this.#options;
    const atMs = monotonicMs();
    const outcome = await store.jobs.begin(life, earlier, leaseMs);
    if (outcome.kind === "held") {
      const { left_ms } = outcome;
      log.warn("jobs left to another agent of this runner id", { ...life, left_ms });
      return Math.min(left_ms, LOOK_MS_MAX);
    }
    this.#begun = true;
    this.#renewed(atMs);
    if (outcome.rescued > 0) log.warn("jobs rescued", { jobs: outcome.rescued });
    return 0;
  }

  /**
   * Renews the lease when that is due or a claim is in doubt.
   * @param held reads the claims that the runner knows
   * @returns what the store reports; undefined when it was not asked
   */
  async renew(held: () => readonly Hold[]): Promise<RenewOutcome | undefined> {
    if (!this.isRenewalDue && !this.#inDoubt) return undefined;
    const { store, life, leaseMs, monotonicMs, log } = this.#options;
    const atMs = monotonicMs();
    const outcome = await store.jobs.renew(life, held(), leaseMs);
    if (outcome.kind === "superseded") {
      log.error("jobs lost to another agent of this runner id", { ...life });
      this.#begun = false;
      return outcome;
    }
    this.#renewed(atMs);
    this.#inDoubt = false;
    if (outcome.admission !== this.#admission) logAdmission(outcome.admission, log);
    this.#admission = outcome.admission;
    return outcome;
  }

  /** Looks for jobs of runners whose leases have expired, when that is due. */
  async rescue(): Promise<void> {
    const { store, life, monotonicMs, log } = this.#options;
    if (monotonicMs() < this.#rescuedAtMs + this.renewMs) return;
    const rescued = await store.jobs.rescue(life.runner_id);
    this.#rescuedAtMs = monotonicMs();
    if (rescued > 0) log.warn("jobs rescued", { jobs: rescued });
  }

  /** Notes a renewal. @param atMs when it was sent, since the lease runs from then at the earliest */
  #renewed(atMs: number): void {
    this.#renewedAtMs = atMs;
    clearTimeout(this.#silent);
    const { store: { shared }, stopping, silent } = this.#options;
    if (!shared || stopping.aborted) return;
    this.#silent = setTimeout(silent, Math.max(this.#silentInMs(), 0));
  }

  #silentInMs(): number {
    const { leaseMs, monotonicMs } = this.#options;
    return this.#renewedAtMs + leaseMs * SILENT_SHARE - monotonicMs();
  }

  look(): void {
    const { monotonicMs, now, leaseMs, suspended } = this.#options;
    const [before, ms, calendarMs] = [this.#looked, monotonicMs(), Date.parse(now())];
    this.#looked = { ms, calendarMs };
    if (before === undefined) return;
    const suspendedMs = Math.max(ms - before.ms, calendarMs - before.calendarMs);
    if (suspendedMs < leaseMs * SUSPENDED_SHARE) return;
    this.#waking ??= Promise.withResolvers();
    this.#renewedAtMs = Number.NEGATIVE_INFINITY;
    suspended();
  }

  /** After a standstill, waits until the store has been asked who holds the jobs. */
  async asked(): Promise<void> {
    await this.#waking?.promise;
  }

  /** Call before asking the store. @returns a function to call once it has answered or failed */
  asking(): () => void {
    const waking = this.#waking;
    return () => {
      if (waking === undefined) return;
      if (this.#waking === waking) this.#waking = undefined;
      waking.resolve();
    };
  }
}

function logAdmission(admission: Admission, log: Log): void {
  switch (admission) {
    case "open":
      return log.info("host admitted");
    case "cordoned":
      return log.warn("host cordoned: it claims nothing new");
    case "forgotten":
      return log.error("host forgotten: it acts on nothing until it is uncordoned");
    default:
      return unreachable(admission);
  }
}
