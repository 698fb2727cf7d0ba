// Idle guests: warm ones that wait for the next task of their workflow, and spares without a
// workflow.

import type { GuestOwner } from "./owner.ts";
import type { GuestProcess } from "./process.ts";

/** In the order in which they became idle. There are few, so each lookup scans them all. */
export class IdleGuests {
  readonly #guests: GuestProcess[] = [];

  get size(): number {
    return this.#guests.length;
  }

  /** Number of guests without a workflow. */
  get spares(): number {
    let count = 0;
    for (const guest of this.#guests) if (guest.owner === undefined) count += 1;
    return count;
  }

  put(guest: GuestProcess): void {
    this.#guests.push(guest);
  }

  remove(guest: GuestProcess): void {
    const at = this.#guests.indexOf(guest);
    if (at !== -1) this.#guests.splice(at, 1);
  }

  /** Takes the guest that served this workflow last, or else a spare. */
  take(owner: GuestOwner): GuestProcess | undefined {
    const guest = this.#guests.findLast((one) => one.owner === owner) ??
      this.#guests.findLast((one) => one.owner === undefined);
    if (guest !== undefined) this.remove(guest);
    return guest;
  }

  /** The warm guest that has been idle longest; never a spare. */
  oldestOwned(): GuestProcess | undefined {
    return this.#guests.find((guest) => guest.owner !== undefined);
  }

  /** One that has run at least this many tasks. */
  used(runsMin: number): GuestProcess | undefined {
    return this.#guests.find((guest) => guest.alive && guest.runs >= runsMin);
  }
}

// Restores the idle state of the pool. A used guest keeps the memory that V8 took for its tasks,
// about twice its first size; only a new process frees it. Guests beyond the idle number are ended.
// One at a time, so that the others stay ready.

/** Executions that make a renewal worthwhile. */
const RUNS_MIN = 50;
/** Quiet time before a renewal, and between two of them, milliseconds. */
const QUIET_MS = 5000;

/** Opened and closed with its pool. Runs only while there is a guest to renew or to end. */
export class IdleRenewal {
  readonly #idle: IdleGuests;
  readonly #tooMany: () => boolean;
  readonly #quietMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  /** @param tooMany whether there are more guests than the idle number */
  constructor(idle: IdleGuests, tooMany: () => boolean, quietMs = QUIET_MS) {
    this.#idle = idle;
    this.#tooMany = tooMany;
    this.#quietMs = quietMs;
  }

  /** A task starts: renewals wait. */
  busy(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** A guest has become idle. */
  rest(): void {
    if (this.#closed || this.#timer !== undefined || this.#next() === undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#next()?.kill("was ended while it had nothing to do");
      this.rest();
    }, this.#quietMs);
  }

  close(): void {
    this.#closed = true;
    this.busy();
  }

  #next(): GuestProcess | undefined {
    return (this.#tooMany() ? this.#idle.oldestOwned() : undefined) ?? this.#idle.used(RUNS_MIN);
  }
}
