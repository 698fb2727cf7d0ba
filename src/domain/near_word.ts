// Suggests the known word that was probably meant, for errors about unknown fields, words, commands, flags and
// settings.
//
// A suggestion has to share most of its letters with the word, since the nearest of words that are all far away is no
// help.

import { closestString } from "@std/text/closest-string";

/** Share of letters that the typed text must have in common with a known word to suggest it. */
const LETTERS_SHARE_MIN = 0.5;
/** Share of a known word's letters that may be wrong, and one in any case; any number may be missing or too many. */
const EDITS_SHARE_MAX = 0.4;
/** Characters by which the two may differ in length, or half of the known word. */
const LENGTH_DIFFERENCE_MAX = 2;

/** `: did you mean "x"?` when one of the known words is near, else the empty text. */
export function nearest(word: string, known: readonly string[]): string {
  const near = nearWord(word, known);
  return near === undefined ? "" : `: did you mean ${JSON.stringify(near)}?`;
}

/** The same, with the known words when none is near: `, expected one of a, b`. */
export function nearestOrAll(word: string, known: readonly string[]): string {
  return nearest(word, known) || `, expected one of ${wordList(known)}`;
}

/** Words that an error lists; further ones are counted. */
const LISTED_MAX = 24;

/** Known words as an error lists them: `a, b and 7 more`. */
export function wordList(known: readonly string[]): string {
  const more = known.length - LISTED_MAX;
  return `${known.slice(0, LISTED_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** The known word that was probably meant; undefined when none is similar. */
export function nearWord(word: string, known: readonly string[]): string | undefined {
  if (known.length === 0 || word.length === 0) return undefined;
  const near = closestString(word, known, { compareFn: differences });
  const head = commonHead(known);
  const start = word.startsWith(head) ? head.length : 0;
  const typed = word.slice(start).toLowerCase();
  const meant = near.slice(start).toLowerCase();
  const shared = [...meant].filter((letter) => typed.includes(letter)).length;
  const difference = Math.abs(meant.length - typed.length);
  const edits = differences(typed, meant);
  const likely = shared >= meant.length * LETTERS_SHARE_MIN &&
    difference <= Math.max(LENGTH_DIFFERENCE_MAX, meant.length * LETTERS_SHARE_MIN) &&
    (edits === difference || edits <= Math.max(1, meant.length * EDITS_SHARE_MAX));
  return likely ? near : undefined;
}

/** The prefix common to all words, such as `--` or `ZONEWRIGHT_`, which does not help to choose one. */
function commonHead([first = "", ...others]: readonly string[]): string {
  let length = first.length;
  while (!others.every((other) => other.startsWith(first.slice(0, length)))) length -= 1;
  return /^.*[^A-Za-z0-9]/.exec(first.slice(0, length))?.[0] ?? "";
}

/** Letters of a name for each difference that it may have. */
const LETTERS_PER_DIFFERENCE = 3;
const DIFFERENCES_MAX = 2;
/** Longest unknown name that is checked, characters. */
const NAME_CHARS_MAX = 32;

/**
 * The known name that differs only in spelling, plural or a letter or two; undefined when none
 * does. Stricter than {@linkcode nearWord}, which only adds a hint to a refusal: this one decides
 * whether to refuse, where unknown names are allowed.
 */
export function nearName(name: string, known: readonly string[]): string | undefined {
  if (name.length > NAME_CHARS_MAX) return undefined;
  const typed = folded(name);
  const near = known.flatMap((word) => {
    const meant = folded(word);
    const letters = Math.min(typed.length, meant.length);
    const allowed = Math.min(Math.floor(letters / LETTERS_PER_DIFFERENCE), DIFFERENCES_MAX);
    if (Math.abs(typed.length - meant.length) > allowed) return [];
    const found = differences(typed, meant);
    return found <= allowed ? [{ word, found }] : [];
  });
  return near.sort((one, other) => one.found - other.found)[0]?.word;
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
