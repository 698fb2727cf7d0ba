// How long things took: numbers of durations by upper bounds. A look and two additions for each.

import { type Labels, type Sample, valueText } from "./exposition.ts";

/** Durations of one kind. */
export class Histogram {
  readonly #bounds: readonly number[];
  /** One more than there are bounds: the last is of what lies above all. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds upper bounds in seconds, rising; each holds what equals it */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** Notes one duration, in seconds. */
  observe(seconds: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && seconds > (bounds[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += seconds;
  }

  /** Buckets, which count everything below their bound, then sum and count. */
  samples(labels: Labels = {}): Sample[] {
    let count = 0;
    const buckets = Array.from(this.#counts, (here, at) => {
      count += here;
      const le = valueText(this.#bounds[at] ?? Number.POSITIVE_INFINITY);
      return { suffix: "_bucket", labels: { ...labels, le }, value: count };
    });
    return [
      ...buckets,
      { suffix: "_sum", labels, value: this.#sum },
      { suffix: "_count", labels, value: count },
    ];
  }
}
