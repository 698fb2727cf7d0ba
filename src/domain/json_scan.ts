// A look at JSON text before it is parsed: how deep and how large its value would be. A parser only
// finds out by building the value, and the value of a hostile text is many times its size.

/** What a text would make of itself. Of text that is no JSON this says nothing of use. */
export interface JsonMeasure {
  /** Deepest nesting of lists and objects. */
  readonly depth: number;
  /** Upper bound of the number of values. */
  readonly values: number;
  /** Names of members. */
  readonly names: number;
  /** Whether a number may be 2^64 or more, by its digits or by an exponent. */
  readonly wideNumbers: boolean;
}

/** Digits of an integer that is below 2^64 for sure. */
const DIGITS_MAX = 19;

const QUOTE = 0x22;
const COMMA = 0x2c;
const ZERO = 0x30;
const NINE = 0x39;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
/** `e` and `E` with this bit set are equal. */
const LOWER_CASE = 0x20;
const LETTER_E = 0x65;

/** Measures JSON text in one pass over its bytes, which are UTF-8. */
export function measureJson(bytes: Uint8Array): JsonMeasure {
  let [open, depth, values, names, digits, wideNumbers] = [0, 0, 1, 0, 0, false];
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte >= ZERO && byte <= NINE) {
      if (++digits > DIGITS_MAX) wideNumbers = true;
      continue;
    }
    if (digits > 0 && (byte | LOWER_CASE) === LETTER_E) wideNumbers = true;
    digits = 0;
    if (byte === QUOTE) {
      at = endOfString(bytes, at);
    } else if (byte === COMMA) {
      values += 1;
    } else if (byte === COLON) {
      names += 1;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      values += 1;
      open += 1;
      if (open > depth) depth = open;
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      open -= 1;
    }
  }
  return { depth, values, names, wideNumbers };
}

/** Place of the quote that ends a string, or the end of a text that breaks off. */
function endOfString(bytes: Uint8Array, start: number): number {
  for (let at = bytes.indexOf(QUOTE, start + 1); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let escapes = 0;
    while (bytes[at - 1 - escapes] === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at;
  }
  return bytes.length;
}

/** Names of members in a parsed value: fewer than its text had when one of them stood twice. */
export function countNames(value: unknown): number {
  let names = 0;
  const rest: unknown[] = [value];
  while (rest.length > 0) {
    const item = rest.pop();
    if (typeof item !== "object" || item === null) continue;
    if (!Array.isArray(item)) names += Object.keys(item).length;
    for (const inner of Object.values(item)) rest.push(inner);
  }
  return names;
}
