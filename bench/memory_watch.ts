// The most memory that a process and those below it had, as far as looks now and then can tell.

import { treeMiB } from "./process_use.ts";

const LOOK_MS = 500;

export class MemoryWatch {
  readonly #pid: number;
  readonly #timer: ReturnType<typeof setInterval>;
  #mib = 0;

  constructor(pid: number) {
    this.#pid = pid;
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
  }

  /** @returns the largest sum that was seen, shared pages counted once, MiB */
  stop(): number {
    clearInterval(this.#timer);
    this.#look();
    return this.#mib;
  }

  #look(): void {
    this.#mib = Math.max(this.#mib, treeMiB(this.#pid));
  }
}
