// What the query of GET /jobs and the `filter` of calls on many jobs have in common.

import { invalidArgument } from "../../../domain/error.ts";
import { type Instant, parseInstant } from "../../../domain/instant.ts";
import { isWholeText } from "../../../domain/json.ts";

/** Params in one filter: each is looked up in every job that the others leave. */
export const PARAM_KEYS_MAX = 8;
/** Names of params without characters that are syntax in a JSON path. */
const PARAM_KEY = /^[\w.:@-]{1,64}$/;

/** Epoch milliseconds, as clients of node-workflow send them; no ISO 8601 date has digits alone. */
const EPOCH_MS = /^\d{1,15}$/;
/** The last millisecond with a four-digit year: later ones would not sort as text. */
const EPOCH_MS_MAX = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** Whether jobs can be filtered by a param of this name. */
export function isParamKey(name: string): boolean {
  return PARAM_KEY.test(name);
}

/** @throws {AgentError} `invalid_argument` beyond the limit */
export function limitParams<T extends ReadonlyMap<string, string>>(params: T): T {
  const beyond = [...params.keys()][PARAM_KEYS_MAX];
  if (beyond !== undefined) {
    const message = `Cannot filter by ${beyond}: more than ${PARAM_KEYS_MAX} params are named`;
    throw invalidArgument(beyond, message, "TooLarge");
  }
  for (const [name, value] of params) {
    if (!isWholeText(value)) {
      throw invalidArgument(name, `Cannot filter by ${name}: it holds a NUL or half a character`);
    }
  }
  return params;
}

/**
 * A limit of a time span: ISO 8601, or milliseconds since 1970.
 * @throws {AgentError} `invalid_argument` naming `field`
 */
export function parseSpanEnd(value: unknown, field: string): Instant {
  const text = typeof value === "number" ? String(value) : value;
  if (typeof text !== "string" || !EPOCH_MS.test(text) || Number(text) > EPOCH_MS_MAX) {
    return parseInstant(value, field);
  }
  return new Date(Number(text)).toISOString();
}
