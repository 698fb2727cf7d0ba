// JSON for files and terminals, mostly as one line. JSON itself leaves characters as they are that some
// terminals obey, some readers take for the end of a line, and that turn the order of what is shown.

const OBEYED = /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** The JSON of a value, in which no character can act; it reads back as the same value. */
export function jsonLine(value: unknown): string {
  return withoutOrders(JSON.stringify(value));
}

/** The same over several lines, for people. */
export function jsonLines(value: unknown): string {
  return withoutOrders(JSON.stringify(value, null, 2));
}

/** What JSON has no word for is shown as JavaScript calls it. */
function withoutOrders(json: string | undefined): string {
  return String(json).replace(
    OBEYED,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
