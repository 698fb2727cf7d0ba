// The word that somebody probably meant.

import { closestString } from "@std/text/closest-string";

/** Share of a known word's letters that a suggestion must have in common with what was typed. */
const LETTERS_SHARE_MIN = 0.5;
/** Characters by which the two may differ in length, or half of the known word. */
const LENGTH_DIFFERENCE_MAX = 2;

/** `: did you mean "x"?` when one of the known words is near, else the empty text. */
export function nearest(word: string, known: readonly string[]): string {
  const near = nearWord(word, known);
  return near === undefined ? "" : `: did you mean ${JSON.stringify(near)}?`;
}

/** The known word that was probably meant; undefined when all are far away. */
export function nearWord(word: string, known: readonly string[]): string | undefined {
  if (known.length === 0 || word.length === 0) return undefined;
  const near = closestString(word, known);
  // The nearest of words that are all far away would be a guess, not a suggestion.
  const typed = word.toLowerCase();
  const shared = [...near.toLowerCase()].filter((letter) => typed.includes(letter)).length;
  const difference = Math.abs(near.length - word.length);
  const likely = shared >= near.length * LETTERS_SHARE_MIN &&
    difference <= Math.max(LENGTH_DIFFERENCE_MAX, near.length * LETTERS_SHARE_MIN);
  return likely ? near : undefined;
}
