// The tasks that wait for a guest: first come, first served.

import { AgentError } from "../domain/error.ts";
import type { GuestProcess } from "./guest_process.ts";

interface Waiter {
  readonly give: (guest: GuestProcess) => void;
  readonly refuse: (error: AgentError) => void;
}

/** The line in which tasks stand. */
export class GuestQueue {
  readonly #waiters: Waiter[] = [];

  /**
   * Waits for one's turn.
   * @throws {AgentError} `aborted` when the signal ends the wait, or what `refuse` was given
   */
  wait(signal: AbortSignal): Promise<GuestProcess> {
    if (signal.aborted) return Promise.reject(abortedError());
    return new Promise((resolve, reject) => {
      const leave = () => {
        const at = this.#waiters.indexOf(waiter);
        if (at !== -1) this.#waiters.splice(at, 1);
        reject(abortedError());
      };
      const waiter: Waiter = {
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

  /** Gives a guest to the first in line. @returns whether there was one */
  give(guest: GuestProcess): boolean {
    const waiter = this.#waiters.shift();
    waiter?.give(guest);
    return waiter !== undefined;
  }

  /** Sends everybody away. */
  refuse(error: AgentError): void {
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(error);
  }
}

function abortedError(): AgentError {
  return new AgentError("aborted", "Cannot get a guest: the task was given up");
}
