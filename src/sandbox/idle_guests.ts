// The guests without a task: those that belong to a workflow and wait for its next task, and spares,
// which belong to nobody until their first.

import type { GuestOwner } from "./owner.ts";
import type { GuestProcess } from "./process.ts";

/** In the order in which they became idle. There are few: each look goes through all. */
export class IdleGuests {
  readonly #guests: GuestProcess[] = [];

  get size(): number {
    return this.#guests.length;
  }

  /** How many belong to nobody. */
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

  /** Takes out the guest that has served this workflow last, or else a spare. */
  take(owner: GuestOwner): GuestProcess | undefined {
    const guest = this.#guests.findLast((one) => one.owner === owner) ??
      this.#guests.findLast((one) => one.owner === undefined);
    if (guest !== undefined) this.remove(guest);
    return guest;
  }

  /** The guest whose workflow has not needed it for the longest time; never a spare. */
  oldestOwned(): GuestProcess | undefined {
    return this.#guests.find((guest) => guest.owner !== undefined);
  }

  /** One that has run at least so many tasks. */
  used(runsMin: number): GuestProcess | undefined {
    return this.#guests.find((guest) => guest.alive && guest.runs >= runsMin);
  }
}

// Brings the guests back to their resting state when there is nothing to do. A guest that has run
// tasks holds on to what V8 took for them, about twice its first size, and never gives it back by
// itself: a new process does. And guests beyond those that are kept at rest are given up. One goes
// after the other, so that the others are ready meanwhile.

/** Executions that make it worth while: fewer leave little behind. */
const RUNS_MIN = 50;
/** Time without any task after which guests are renewed, and between two of them, milliseconds. */
const QUIET_MS = 5000;

/** Opened with a pool, closed with it. Looks only while there is a guest to renew or to give up. */
export class IdleRenewal {
  readonly #idle: IdleGuests;
  readonly #tooMany: () => boolean;
  readonly #quietMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  /** @param tooMany whether there are more guests than are kept at rest */
  constructor(idle: IdleGuests, tooMany: () => boolean, quietMs = QUIET_MS) {
    this.#idle = idle;
    this.#tooMany = tooMany;
    this.#quietMs = quietMs;
  }

  /** A task begins somewhere: this is no time for it. */
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

  /** Renews no more. */
  close(): void {
    this.#closed = true;
    this.busy();
  }

  #next(): GuestProcess | undefined {
    return (this.#tooMany() ? this.#idle.oldestOwned() : undefined) ?? this.#idle.used(RUNS_MIN);
  }
}
