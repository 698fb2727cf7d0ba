// What waits in the pool: tasks for a guest, which are served in order of arrival as far as guests of their workflows
// and spares allow, and idle guests for their next task.

import { AgentError } from "../domain/error.ts";
import type { Timers } from "../runtime/timers.ts";
import type { GuestOwner, GuestProcess } from "./process.ts";

interface WaitingTask {
  readonly owner: GuestOwner;
  readonly give: (guest: GuestProcess) => void;
  readonly refuse: (error: AgentError) => void;
}

/** Tasks that wait for a guest, first come, first served. */
export class GuestQueue {
  readonly #waiters: WaitingTask[] = [];

  get size(): number {
    return this.#waiters.length;
  }

  /**
   * Waits for a guest.
   * @throws {AgentError} `aborted` when the signal fires, or the error passed to `refuse`
   */
  wait(owner: GuestOwner, signal: AbortSignal): Promise<GuestProcess> {
    if (signal.aborted) return Promise.reject(taskAborted());
    return new Promise((resolve, reject) => {
      const leave = () => {
        const at = this.#waiters.indexOf(waiter);
        if (at !== -1) this.#waiters.splice(at, 1);
        reject(taskAborted());
      };
      const waiter: WaitingTask = {
        owner,
        give: (guest) => {
          signal.removeEventListener("abort", leave);
          resolve(guest);
        },
        refuse: (error) => {
          signal.removeEventListener("abort", leave);
          reject(error);
        },
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiters.push(waiter);
    });
  }

  /**
   * Serves waiting tasks with the guests that `take` finds for their workflows. A task without a guest is overtaken
   * only while a guest is being started for it, so no task waits forever.
   * @param passedMax how many tasks may be overtaken
   */
  serve(take: (owner: GuestOwner) => GuestProcess | undefined, passedMax: number): void {
    let passed = 0;
    while (passed <= passedMax) {
      const waiter = this.#waiters[passed];
      if (waiter === undefined) return;
      const guest = take(waiter.owner);
      if (guest === undefined) passed += 1;
      else {
        this.#waiters.splice(passed, 1);
        waiter.give(guest);
      }
    }
  }

  refuse(error: AgentError): void {
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(error);
  }
}

function taskAborted(): AgentError {
  return new AgentError("aborted", "Cannot get a guest: the task was aborted");
}

/**
 * Idle guests in the order in which they became idle: warm ones that wait for the next task of their workflow, and spares
 * without a workflow. There are few, so each lookup scans them all.
 */
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

  /** A guest that has run at least this many tasks. */
  used(runsMin: number): GuestProcess | undefined {
    return this.#guests.find((guest) => guest.alive && guest.runs >= runsMin);
  }
}

/** Executions after which a guest is worth ending. */
const RUNS_MIN = 50;
/** Quiet time before a renewal, and between two of them, milliseconds. */
const QUIET_MS = 5000;

/**
 * Restores the idle state of the pool. A used guest keeps the memory that V8 took for its tasks, about twice its first
 * size, until it ends. Guests beyond the idle number are ended too. One guest is handled at a time, so that the others
 * stay ready. Opened and closed with its pool; runs only while there is a guest to renew or to end.
 */
export class IdleRenewal {
  readonly #idle: IdleGuests;
  readonly #tooMany: () => boolean;
  readonly #timers: Timers;
  #cancelTimer: (() => void) | undefined;
  #closed = false;

  /** @param tooMany whether there are more guests than the idle number */
  constructor(idle: IdleGuests, tooMany: () => boolean, timers: Timers) {
    this.#idle = idle;
    this.#tooMany = tooMany;
    this.#timers = timers;
  }

  /** Notes that a task starts; renewals wait until it has. */
  busy(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /** Notes that a guest has become idle. */
  rest(): void {
    if (this.#closed || this.#cancelTimer !== undefined || this.#next() === undefined) return;
    this.#cancelTimer = this.#timers.start(QUIET_MS, () => {
      this.#cancelTimer = undefined;
      this.#next()?.kill("was ended while it had nothing to do");
      this.rest();
    });
  }

  close(): void {
    this.#closed = true;
    this.busy();
  }

  #next(): GuestProcess | undefined {
    return (this.#tooMany() ? this.#idle.oldestOwned() : undefined) ?? this.#idle.used(RUNS_MIN);
  }
}
