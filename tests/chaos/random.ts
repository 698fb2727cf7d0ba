// Random numbers that a seed repeats, so that a failing run can be made again.

/** A source of random choices. */
export interface Random {
  /** At least 0, less than 1. */
  next(): number;
  /** An integer of a range, limits included. */
  integer(min: number, max: number): number;
  /** Whether an event of this probability happens. */
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
  /** All of them, in another order. */
  shuffled<T>(from: readonly T[]): T[];
  /** One of the words, each as often as its weight says. */
  weighted<Word extends string>(weights: Readonly<Record<Word, number>>): Word;
}

/** The same seed gives the same numbers (mulberry32). */
export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const integer = (min: number, max: number) => min + Math.floor(next() * (max - min + 1));
  return {
    next,
    integer,
    chance: (probability) => next() < probability,
    pick: (from) => from[integer(0, from.length - 1)] as typeof from[number],
    shuffled: (from) => {
      const keyed = from.map((item) => ({ item, key: next() }));
      return keyed.sort((one, other) => one.key - other.key).map(({ item }) => item);
    },
    weighted: <Word extends string>(weights: Readonly<Record<Word, number>>) => {
      const words = Object.entries(weights) as [Word, number][];
      let left = next() * words.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [word, weight] of words) {
        left -= weight;
        if (left < 0) return word;
      }
      return (words.at(-1) as [Word, number])[0];
    },
  };
}
