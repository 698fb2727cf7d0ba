// Query parameters of lists. A key that no list knows is refused: a filter that was silently
// ignored would answer more than was asked for.

import { invalidArgument } from "../domain/error.ts";

/**
 * The query of a request by name.
 * @throws {AgentError} `invalid_argument` for an unknown or repeated key
 */
export function readQuery(url: string, known: readonly string[]): ReadonlyMap<string, string> {
  const query = new Map<string, string>();
  if (!url.includes("?")) return query;
  for (const [name, value] of new URL(url).searchParams) {
    if (!known.includes(name)) {
      const message = `Cannot filter by ${JSON.stringify(name.slice(0, 64))}: expected ` +
        known.join(", ");
      throw invalidArgument(name.slice(0, 64), message, "UnknownField");
    }
    if (query.has(name)) throw invalidArgument(name, `Cannot read ${name}: it is given twice`);
    query.set(name, value);
  }
  return query;
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
const PAGE_MAX = 10_000;

/** `limit` and `offset` of a query. @throws {AgentError} `invalid_argument` */
export function pageOf(query: ReadonlyMap<string, string>): Page {
  const limit = integerOf(query, "limit", { min: 1, max: PAGE_MAX });
  const offset = integerOf(query, "offset", { min: 0, max: Number.MAX_SAFE_INTEGER });
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(offset === undefined ? {} : { offset }),
  };
}
