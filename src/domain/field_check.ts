// The known word that was probably meant. Descriptions name it for an unknown field and an unknown word,
// the command line for an unknown command, flag or setting.
//
// A suggestion has to share most of its letters with the word, since the nearest of words that are all far
// away is no help.

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
  const head = commonHead(known);
  const start = word.startsWith(head) ? head.length : 0;
  // The nearest of words that are all far away would be a guess, not a suggestion.
  const typed = word.slice(start).toLowerCase();
  const meant = near.slice(start).toLowerCase();
  const shared = [...meant].filter((letter) => typed.includes(letter)).length;
  const difference = Math.abs(meant.length - typed.length);
  const likely = shared >= meant.length * LETTERS_SHARE_MIN &&
    difference <= Math.max(LENGTH_DIFFERENCE_MAX, meant.length * LETTERS_SHARE_MIN);
  return likely ? near : undefined;
}

/** `job `, `--` or `ZONEWRIGHT_`: what all of the words begin with says nothing about which is meant. */
function commonHead([first = "", ...others]: readonly string[]): string {
  let length = first.length;
  while (!others.every((other) => other.startsWith(first.slice(0, length)))) length -= 1;
  return /^.*[^A-Za-z0-9]/.exec(first.slice(0, length))?.[0] ?? "";
}
