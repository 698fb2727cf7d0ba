// The known name that an unknown one was most likely meant to be. Narrower than domain/near_word.ts,
// which answers somebody who has been refused: here nothing is wrong yet, and a suggestion that is
// none would only be noise.

/** Letters of a name for each difference that it may have. */
const LETTERS_PER_DIFFERENCE = 3;
const DIFFERENCES_MAX = 2;
/** Characters of an unknown name that is looked at. */
const NAME_CHARS_MAX = 32;

/** The known name that differs by spelling, number or a letter or two; undefined when none does. */
export function nearName(name: string, known: readonly string[]): string | undefined {
  if (name.length > NAME_CHARS_MAX) return undefined;
  const typed = folded(name);
  const near = known
    .map((word) => ({ word, differences: differences(typed, folded(word)) }))
    .sort((one, other) => one.differences - other.differences)[0];
  if (near === undefined) return undefined;
  const letters = Math.min(typed.length, folded(near.word).length);
  const allowed = Math.min(Math.floor(letters / LETTERS_PER_DIFFERENCE), DIFFERENCES_MAX);
  return near.differences <= allowed ? near.word : undefined;
}

/** `retryDelay`, `retry-delay` and `retry_delays` are one name. */
function folded(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "").replace(/ies$/, "y").replace(/s$/, "");
}

/** Letters to insert, remove, replace, or swap with their neighbours. */
function differences(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 1; at <= one.length; at++) {
    const row = [at];
    for (let to = 1; to <= other.length; to++) {
      const same = one[at - 1] === other[to - 1];
      const swapped = one[at - 1] === other[to - 2] && one[at - 2] === other[to - 1];
      row[to] = Math.min(
        (last[to] ?? 0) + 1,
        (row[to - 1] ?? 0) + 1,
        (last[to - 1] ?? 0) + (same ? 0 : 1),
        swapped ? (before[to - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
      );
    }
    before = last;
    last = row;
  }
  return last[other.length] ?? 0;
}
