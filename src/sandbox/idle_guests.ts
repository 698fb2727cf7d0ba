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
