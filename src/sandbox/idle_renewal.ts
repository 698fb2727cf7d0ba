// Replaces guests that have nothing to do. A guest that has run tasks holds on to what V8 took for
// them, about twice its first size, and never gives it back by itself: a new process does. Guests
// are renewed one after the other, so that the others are ready meanwhile.

import type { GuestProcess } from "./guest_process.ts";

/** Executions that make it worth while: fewer leave little behind. */
const RUNS_MIN = 50;
/** Time without any task after which guests are renewed, and between two of them, milliseconds. */
const QUIET_MS = 5000;

/** Opened with a pool, closed with it. Looks only while there is a guest to renew. */
export class IdleRenewal {
  readonly #idle: readonly GuestProcess[];
  readonly #quietMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  /** @param idle the pool's list of guests without a task, which changes */
  constructor(idle: readonly GuestProcess[], quietMs = QUIET_MS) {
    this.#idle = idle;
    this.#quietMs = quietMs;
  }

  /** A task begins somewhere: this is no time for it. */
  busy(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** A guest has become idle. */
  rest(): void {
    if (this.#closed || this.#timer !== undefined || this.#used() === undefined) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#used()?.kill("was renewed while it had nothing to do");
      this.rest();
    }, this.#quietMs);
  }

  /** Renews no more. */
  close(): void {
    this.#closed = true;
    this.busy();
  }

  #used(): GuestProcess | undefined {
    return this.#idle.find((guest) => guest.alive && guest.runs >= RUNS_MIN);
  }
}
