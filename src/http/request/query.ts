// Query parameters of lists. A key that no list knows is refused: a filter that was silently
// ignored would answer more than was asked for.

import { type AgentError, invalidArgument } from "../../domain/error.ts";

/** Characters of an unknown key that are shown. */
const SHOWN_CHARS_MAX = 64;

/**
 * The query of a request by name.
 * @throws {AgentError} `invalid_argument` for an unknown or repeated key
 */
export function readQuery(url: string, known: readonly string[]): ReadonlyMap<string, string> {
  const query = everyKey(url);
  for (const name of query.keys()) {
    if (!known.includes(name)) throw unknownKey(name, known);
  }
  return query;
}

/**
 * The query of a request, in which keys that are not known name something else.
 * @param admits whether such a key can name it
 * @returns what stands under known keys, and what under others
 * @throws {AgentError} `invalid_argument` for a repeated key, and one that is neither
 */
export function readOpenQuery(
  url: string,
  known: readonly string[],
  admits: (name: string) => boolean,
): { query: ReadonlyMap<string, string>; others: ReadonlyMap<string, string> } {
  const query = new Map<string, string>();
  const others = new Map<string, string>();
  for (const [name, value] of everyKey(url)) {
    if (known.includes(name)) query.set(name, value);
    else if (admits(name)) others.set(name, value);
    else throw unknownKey(name, [...known, "the name of one of the params"]);
  }
  return { query, others };
}

function everyKey(url: string): ReadonlyMap<string, string> {
  const query = new Map<string, string>();
  if (!url.includes("?")) return query;
  for (const [name, value] of new URL(url).searchParams) {
    if (query.has(name)) {
      const shown = name.slice(0, SHOWN_CHARS_MAX);
      throw invalidArgument(shown, `Cannot read ${shown}: it is given twice`);
    }
    query.set(name, value);
  }
  return query;
}

function unknownKey(name: string, expected: readonly string[]): AgentError {
  const shown = name.slice(0, SHOWN_CHARS_MAX);
  const message = `Cannot filter by ${JSON.stringify(shown)}: expected ${expected.join(", ")}`;
  return invalidArgument(shown, message, "UnknownField");
}

/** An integer of a range, limits included. @throws {AgentError} `invalid_argument` */
export function integerOf(
  query: ReadonlyMap<string, string>,
  name: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  const text = query.get(name);
  if (text === undefined) return undefined;
  // Sixteen digits hold every integer that a number holds exactly, and few that it does not.
  const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw invalidArgument(name, `Cannot read ${name}: expected an integer from ${min} to ${max}`);
  }
  return value;
}

/** The part of a list that a query asks for. */
export interface Page {
  readonly limit?: number;
  readonly offset?: number;
}

/** Entries that one page may ask for. */
export const PAGE_MAX = 10_000;

/** `limit` and `offset` of a query. @throws {AgentError} `invalid_argument` */
export function pageOf(query: ReadonlyMap<string, string>): Page {
  const limit = integerOf(query, "limit", { min: 1, max: PAGE_MAX });
  const offset = integerOf(query, "offset", { min: 0, max: Number.MAX_SAFE_INTEGER });
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(offset === undefined ? {} : { offset }),
  };
}
