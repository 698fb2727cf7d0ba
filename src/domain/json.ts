// JSON values as types, the canonical text by which two of them are compared, and the text that is safe to show.

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

/** Whether a text can be a column of its own: no NUL, and nothing that UTF-8 cannot hold. */
export function isWholeText(text: string): boolean {
  return text.isWellFormed() && !text.includes("\0");
}

// JSON for files and terminals, mostly as one line. JSON leaves some characters unescaped that a terminal
// obeys, that a reader takes for the end of a line, or that reverse the direction of the text.

const OBEYED = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** The JSON of a value with those characters escaped; it reads back as the same value. */
export function jsonLine(value: unknown): string {
  return withoutOrders(JSON.stringify(value));
}

/** The same over several lines, for people. */
export function jsonLines(value: unknown): string {
  return withoutOrders(JSON.stringify(value, null, 2));
}

/** Escapes those characters in a JSON text. A value that JSON cannot express is shown as JavaScript calls it. */
export function withoutOrders(json: string | undefined): string {
  return String(json).replace(
    OBEYED,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
