// The time of one piece of work: it runs while the agent waits for nothing but the decoder, and
// stands while the decoder's input is not there yet or its output is not taken.

import type { WorkLimits } from "./work_limits.ts";

/** Opened with a piece of work, closed with it. */
export class WorkClock {
  readonly #limits: Pick<WorkLimits, "deadline" | "deadlineMs">;
  readonly #late: () => void;
  #leftMs: number;
  #beganMs = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #standing = 0;

  /** It runs at once. @param late called when the time is up */
  constructor(limits: Pick<WorkLimits, "deadline" | "deadlineMs">, late: () => void) {
    this.#limits = limits;
    this.#late = late;
    this.#leftMs = limits.deadlineMs;
    this.#run();
  }

  /** Stands while the wait lasts. Waits may overlap. */
  async standing<T>(wait: () => Promise<T>): Promise<T> {
    this.stand();
    try {
      return await wait();
    } finally {
      this.goOn();
    }
  }

  stand(): void {
    this.#standing += 1;
    if (this.#standing > 1) return;
    clearTimeout(this.#timer);
    this.#leftMs -= performance.now() - this.#beganMs;
  }

  goOn(): void {
    this.#standing -= 1;
    if (this.#standing === 0) this.#run();
  }

  /** Bytes have moved: where that counts, the time begins again. */
  moved(): void {
    if (this.#limits.deadline !== "progress") return;
    clearTimeout(this.#timer);
    this.#leftMs = this.#limits.deadlineMs;
    if (this.#standing === 0) this.#run();
  }

  close(): void {
    this.#standing = Number.POSITIVE_INFINITY;
    clearTimeout(this.#timer);
  }

  #run(): void {
    this.#beganMs = performance.now();
    this.#timer = setTimeout(this.#late, Math.max(this.#leftMs, 0));
  }
}
