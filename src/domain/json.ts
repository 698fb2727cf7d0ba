// JSON values as types, the canonical text by which two of them are compared, and the text that is safe to show. JSON
// text is measured before it is parsed, since a parser only finds out how large a value is by building it, and the
// value of a hostile text is many times its size.

import { AgentError } from "./error.ts";
import { jsonProblem } from "./json_problem.ts";

/** Any JSON value. @see RFC 8259 */
export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
/** Names and their values, in the order of the text; integer names come first. */
export interface JsonObject {
  [key: string]: JsonValue;
}

/** Whether a parsed JSON value is an object, neither null nor an array. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The objects of a list; none where there is no list. */
export function objectsIn(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** What a value is, as errors say it of one that is not taken: `a list`. */
export function kindOf(value: unknown): string {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  switch (typeof value) {
    case "string":
      return "a text";
    case "number":
      return "a number";
    case "boolean":
      return "true or false";
    default:
      return "an object";
  }
}

/**
 * The text of a JSON value with sorted keys at every level: equal values have equal texts, in whatever order
 * their keys were sent.
 */
export function canonicalJson(value: JsonValue): string {
  return JSON.stringify(sorted(value));
}

function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  // Entries, not assignment: a key named __proto__ must stay a key.
  return Object.fromEntries(
    Object.keys(value).sort().map((key) => [key, sorted(value[key] as JsonValue)]),
  );
}

/**
 * Whether two JSON values are equal, whatever the order of their keys. The work grows with the smaller
 * of them; their parser bounds the nesting.
 */
export function equalJson(one: JsonValue, other: JsonValue): boolean {
  if (one === other) return true;
  if (Array.isArray(one)) {
    return Array.isArray(other) && one.length === other.length &&
      one.every((item, index) => equalJson(item, other[index] as JsonValue));
  }
  if (!isJsonObject(one) || !isJsonObject(other)) return false;
  const keys = Object.keys(one);
  return keys.length === Object.keys(other).length &&
    keys.every((key) =>
      Object.hasOwn(other, key) && equalJson(one[key] as JsonValue, other[key] as JsonValue)
    );
}

/** Nesting of a JSON value: 0 for a scalar. Stops counting above `limit`, without recursion. */
export function jsonDepth(value: unknown, limit: number): number {
  let depth = 0;
  let level: unknown[] = [value];
  while (depth <= limit) {
    const next: unknown[] = [];
    for (const item of level) {
      if (typeof item !== "object" || item === null) continue;
      for (const inner of Object.values(item)) next.push(inner);
    }
    const nested = level.some((item) => typeof item === "object" && item !== null);
    if (!nested) return depth;
    depth += 1;
    if (next.length === 0) return depth;
    level = next;
  }
  return depth;
}

/**
 * Characters that JSON leaves unescaped, though a terminal obeys them, a reader takes them for the
 * end of a line, or they reverse the direction of the text.
 */
const OBEYED = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/**
 * The JSON of a value on one line, with such characters escaped; it reads back as the same value.
 */
export function jsonLine(value: unknown): string {
  return withoutOrders(JSON.stringify(value));
}

/** The same over several lines, for people. */
export function jsonLines(value: unknown): string {
  return withoutOrders(JSON.stringify(value, null, 2));
}

/**
 * Escapes such characters in a JSON text. A value that JSON cannot express is shown as JavaScript
 * calls it.
 */
export function withoutOrders(json: string | undefined): string {
  return String(json).replace(
    OBEYED,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** What a text would become when parsed. Meaningless for text that is not JSON. */
interface JsonMeasure {
  /** Deepest nesting of lists and objects. */
  readonly depth: number;
  /** Upper bound of the number of values. */
  readonly values: number;
  /** Names of the members of all objects. */
  readonly names: number;
  /** Lists and objects together. */
  readonly containers: number;
  /** Names of members of any one object, of those that are not nested deeper than 256. */
  readonly namesOfOne: number;
  /** Whether a number may be 2^64 or more, by its digits or by an exponent. */
  readonly wideNumbers: boolean;
}

/** Nesting down to which the names of each object are counted. */
const COUNTED_DEPTH_MAX = 256;
/** Digits of an integer that is certainly below 2^64. */
const DIGITS_MAX = 19;

/** `"`, which begins and ends a string. */
export const QUOTE = 0x22;
const PLUS = 0x2b;
/** `,` between two values or members. */
export const COMMA = 0x2c;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
/** `:` between a name and its value. */
export const COLON = 0x3a;
/** `[`, which begins a list. */
export const OPEN_LIST = 0x5b;
/** `\` before an escaped character. */
export const BACKSLASH = 0x5c;
/** `]`, which ends a list. */
export const CLOSE_LIST = 0x5d;
/** `{`, which begins an object. */
export const OPEN_OBJECT = 0x7b;
/** `}`, which ends an object. */
export const CLOSE_OBJECT = 0x7d;
/** `e` and `E` with this bit set are equal. */
const LOWER_CASE = 0x20;
const LETTER_E = 0x65;

/** Measures JSON text in one pass over its bytes, which are UTF-8. */
export function measureJson(bytes: Uint8Array): JsonMeasure {
  let [open, depth, values, names, namesOfOne, containers, digits] = [0, 0, 1, 0, 0, 0, 0];
  let wideNumbers = false;
  const namesAt = new Uint32Array(COUNTED_DEPTH_MAX + 1);
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
      if (open >= 0 && open <= COUNTED_DEPTH_MAX) {
        const count = (namesAt[open] ?? 0) + 1;
        namesAt[open] = count;
        if (count > namesOfOne) namesOfOne = count;
      }
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      values += 1;
      containers += 1;
      open += 1;
      if (open > depth) depth = open;
      if (open <= COUNTED_DEPTH_MAX) namesAt[open] = 0;
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      open -= 1;
    }
  }
  return { depth, values, names, namesOfOne, containers, wideNumbers };
}

/**
 * Bytes that a value takes in the heap at most, by what its text holds: measured on V8 14 with
 * pointers of eight bytes, over lists of empty objects, of objects with one name, which each have
 * another, of short texts, of numbers, and an object of as many names as fit. A member's name costs
 * most where no other object has it.
 */
const HEAP_BYTES = { value: 24, name: 96, container: 64 } as const;

/** Bytes in the heap for one byte of JSON text at most: a list of empty objects takes 22. */
export const HEAP_BYTES_MAX = 24;

/** Bytes that the value of a JSON text takes in the heap at most, its texts included. */
export function jsonWeight(
  bytes: Uint8Array,
  { values, names, containers }: JsonMeasure = measureJson(bytes),
): number {
  return 2 * bytes.length + HEAP_BYTES.value * values + HEAP_BYTES.name * names +
    HEAP_BYTES.container * containers;
}

/** The same of a value that was parsed, and is nested no deeper than recursion bears. */
export function valueWeight(value: JsonValue | undefined): number {
  let weight: number = HEAP_BYTES.value;
  if (typeof value === "string") return weight + 2 * value.length;
  if (typeof value !== "object" || value === null) return weight;
  weight += HEAP_BYTES.container;
  if (Array.isArray(value)) {
    for (const inner of value) weight += valueWeight(inner);
    return weight;
  }
  // No list of the names is made: most values are small, and each is weighed before each task.
  for (const name in value) {
    weight += HEAP_BYTES.name + 2 * name.length + valueWeight(value[name]);
  }
  return weight;
}

/**
 * The numbers of a JSON text that have an exponent or over 19 digits, in their order: where each begins,
 * and where it ends.
 */
export function* wideNumbers(bytes: Uint8Array): Generator<readonly [start: number, end: number]> {
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) at = endOfString(bytes, at);
    if (byte < ZERO || byte > NINE) continue;
    const start = at;
    let [digits, exponent] = [0, false];
    for (; at < bytes.length && isOfNumber(bytes[at] as number); at++) {
      if (((bytes[at] as number) | LOWER_CASE) === LETTER_E) exponent = true;
      else if (!exponent) digits += 1;
    }
    if (exponent || digits > DIGITS_MAX) yield [start, at];
    at -= 1;
  }
}

/** Digits, a sign, a point, and the letter before an exponent. */
function isOfNumber(byte: number): boolean {
  return byte >= ZERO && byte <= NINE || byte === PLUS || byte === MINUS || byte === POINT ||
    (byte | LOWER_CASE) === LETTER_E;
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

/** Number of member names in a parsed value: fewer than in its text if one was repeated. */
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

/**
 * Whether every number of a parsed JSON value is finite. JSON.parse reads 1e999 as Infinity, which
 * would be written back as null: other data than the sender's.
 */
export function isFiniteJson(value: unknown): boolean {
  const rest: unknown[] = [value];
  while (rest.length > 0) {
    const item = rest.pop();
    if (typeof item === "number" && !Number.isFinite(item)) return false;
    if (typeof item !== "object" || item === null) continue;
    for (const inner of Object.values(item)) rest.push(inner);
  }
  return true;
}

const UTF8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The value of a JSON text that was measured; undefined for one of blanks.
 * @param what the text, as errors name it
 * @param distinct whether a member may be named only once in its object; otherwise the last one counts
 * @throws {AgentError} `malformed` when it is not UTF-8 or not JSON, or holds a number that no double can be
 */
export function parseJson(
  bytes: Uint8Array,
  measure: JsonMeasure,
  { what, distinct }: { readonly what: string; readonly distinct: boolean },
): JsonValue | undefined {
  let [text, value]: [string, JsonValue | undefined] = ["", undefined];
  try {
    text = UTF8.decode(bytes);
    if (text.trim() === "") return undefined;
    value = JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof SyntaxError
      ? ` as JSON: ${jsonProblem(text)}`
      : ": it is not UTF-8, expected JSON in UTF-8";
    throw new AgentError("malformed", `Cannot read ${what}${reason}`, { cause });
  }
  if (distinct && countNames(value) !== measure.names) {
    const message = `Cannot read ${what}: it names a member of an object twice, expected each once`;
    throw new AgentError("malformed", message);
  }
  if (measure.wideNumbers && !isFiniteJson(value)) {
    const message = `Cannot read ${what}: it holds a number beyond the range of a double, ` +
      "expected at most about 1.8e308";
    throw new AgentError("malformed", message);
  }
  return value;
}
