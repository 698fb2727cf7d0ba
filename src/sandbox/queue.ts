// Tasks that wait for a guest, in order of arrival, as far as guests of their workflows and spares
// allow.

import { AgentError } from "../domain/error.ts";
import type { GuestOwner } from "./owner.ts";
import type { GuestProcess } from "./process.ts";

interface WaitingTask {
  readonly owner: GuestOwner;
  readonly give: (guest: GuestProcess) => void;
  readonly refuse: (error: AgentError) => void;
}

/** The queue of waiting tasks. */
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
    if (signal.aborted) return Promise.reject(abortedError());
    return new Promise((resolve, reject) => {
      const leave = () => {
        const at = this.#waiters.indexOf(waiter);
        if (at !== -1) this.#waiters.splice(at, 1);
        reject(abortedError());
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
   * Serves waiting tasks with the guests that `take` finds for their workflows. A task without one
   * is overtaken only while a guest is being started for it, so none waits forever.
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

  /** Rejects all waiting tasks. */
  refuse(error: AgentError): void {
    for (const waiter of this.#waiters.splice(0)) waiter.refuse(error);
  }
}

function abortedError(): AgentError {
  return new AgentError("aborted", "Cannot get a guest: the task was given up");
}
