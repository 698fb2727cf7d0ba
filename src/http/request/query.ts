// Reads queries by descriptions of their fields. Unknown keys are refused: if a filter were silently ignored,
// the answer would contain more than the caller requested.

import type { MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { accepted, openFindings, refuseFindings } from "../../domain/description/description.ts";
import { type Fields, object, type ObjectOf } from "../../domain/description/object.ts";
import { about, integer } from "../../domain/description/value.ts";
import type { HttpEnv } from "../served_agent.ts";

/** Characters of a key that an error repeats. */
const SHOWN_CHARS_MAX = 64;

/**
 * Reads the fields of a query, all of them optional.
 * @throws {AgentError} `invalid_argument` naming every key that is unknown, repeated or incorrect
 */
export function readQuery<F extends Fields>(url: string, fields: F): ObjectOf<F, never> {
  return readTexts(textsOf(url), fields);
}

/** The agent's own routes that have a query, by method and path. */
const WITH_QUERY: ReadonlySet<string> = new Set([
  "GET /agent/v1/events",
  "GET /agent/v1/images",
  "GET /agent/v1/jobs",
  "GET /agent/v1/jobs/counts",
  "GET /agent/v1/jobs/:job_uuid/log",
  "GET /agent/v1/leftovers",
  "DELETE /agent/v1/leftovers/:uuid",
  "GET /agent/v1/machines",
  "GET /agent/v1/machines/:uuid/console",
  "GET /agent/v1/media/library",
  "GET /agent/v1/stats/hourly",
  "PUT /agent/v1/media/library/:name",
  "DELETE /agent/v1/media/library/:name",
]);

/**
 * Refuses any query on the agent's own routes that have none, so that a misspelled or misplaced switch is
 * never ignored. @throws {AgentError} `invalid_argument`
 */
export const strictQuery: MiddlewareHandler<HttpEnv> = (c, next) => {
  if (c.req.url.includes("?") && c.req.path.startsWith("/agent/v1/")) {
    const route = matchedRoutes(c).find(({ method }) => method !== "ALL");
    const method = c.req.method === "HEAD" ? "GET" : c.req.method;
    if (route !== undefined && !WITH_QUERY.has(`${method} ${route.path}`)) readQuery(c.req.url, {});
  }
  return next();
};

/** Reads texts by name, as textsOf() returns them. @throws {AgentError} `invalid_argument` */
export function readTexts<F extends Fields>(
  texts: ReadonlyMap<string, string>,
  fields: F,
): ObjectOf<F, never> {
  const values: Record<string, unknown> = Object.fromEntries(
    Array.from(texts, ([name, text]) => {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
      return [name, field?.fromText?.(text) ?? text];
    }),
  );
  const findings = openFindings();
  return accepted(object(fields).read(values, "", findings), findings, "query");
}

/** The value of each key of a query. @throws {AgentError} `invalid_argument` for a repeated key */
export function textsOf(url: string): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  if (!url.includes("?")) return texts;
  const findings = openFindings();
  for (const [name, text] of new URL(url).searchParams) {
    if (texts.has(name)) {
      findings.add(
        name.slice(0, SHOWN_CHARS_MAX),
        "Invalid",
        "is given twice, expected each key once",
      );
    }
    texts.set(name, text);
  }
  refuseFindings(findings, "query");
  return texts;
}

/** Most entries that one page of a list may have. */
export const PAGE_MAX = 10_000;

/** Number of entries to skip. */
export const PASSED_OVER = integer(0, Number.MAX_SAFE_INTEGER);

/** The part of a list that a query asks for. */
export const PAGE_FIELDS = {
  limit: about("Entries on this page; all by default.", integer(1, PAGE_MAX)),
  offset: about("Entries to skip.", PASSED_OVER, { default: 0 }),
};

/** The values of PAGE_FIELDS in a query; without `limit`, all entries. */
export interface Page {
  readonly limit?: number | undefined;
  readonly offset?: number | undefined;
}
