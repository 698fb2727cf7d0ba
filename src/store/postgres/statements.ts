// Pieces of SQL: bound values, lists of rows, and fields of JSON texts.

import type { Incarnation, RunnerId } from "../../domain/id.ts";
import type { BoundValue } from "./server.ts";

/** The values of one statement, in the order of their placeholders. */
export class Values {
  readonly all: BoundValue[] = [];

  /** @returns the placeholder of the value, such as `$3` */
  add(value: BoundValue): string {
    this.all.push(value);
    return `$${this.all.length}`;
  }
}

/** The column types of a list of rows, by the names of the columns. */
export type ColumnTypes<Row> = {
  readonly [Name in keyof Row]: "text" | "bigint" | "boolean";
};

/** SQL that turns rows into a table `new`; its column `place` is the number of the row, from 1. */
export function tableOf<Row extends Record<keyof Row, string | number | boolean | null>>(
  types: ColumnTypes<Row>,
  rows: readonly Row[],
  values: Values,
): string {
  // Object.keys() forgets that these are the names of the type.
  const names = Object.keys(types) as (keyof Row & string)[];
  const lists = names.map((name) =>
    `${values.add(rows.map((row) => row[name]))}::${types[name]}[]`
  );
  return `unnest(${lists.join(", ")}) WITH ORDINALITY AS new (${names.join(", ")}, place)`;
}

/** A condition that a column equals a text. The server accepts no NUL in a text, so such a text equals none. */
export function isText(column: string, text: string, values: Values): string {
  return text.includes("\0") ? "false" : `${column} = ${values.add(text)}`;
}

/** Conditions that the column `uuid` begins with a prefix; `g` sorts after all hexadecimal digits. */
export function uuidBegins(prefix: string, values: Values): string[] {
  if (prefix.includes("\0")) return ["false"];
  return [`uuid >= ${values.add(prefix)}`, `uuid < ${values.add(`${prefix}g`)}`];
}

/**
 * A WHERE clause, or nothing without conditions. Filters are composed of the conditions that were asked for, because
 * with `$1 IS NULL OR …` for each of them a kept plan could use no index.
 */
export function whereOf(conditions: readonly string[]): string {
  return conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
}

/**
 * The server cannot read any field of a JSON text that contains an escape for NUL or for half of a surrogate pair. Such
 * escapes are replaced in the text before the server parses it, and in the value that a field is compared with.
 */
const UNREADABLE_ESCAPE = /\\u(?:0000|d[89a-f][0-9a-f]{2})/g;

/** A JSON text, or a value to compare a field with, after the replacement. */
export function readable(text: string): string {
  return text.replaceAll(UNREADABLE_ESCAPE, "\\ufffd").replaceAll("\0", "\ufffd");
}

/** A condition that a column may contain an escape to replace. */
function hasUnreadableEscape(column: string): string {
  return String.raw`(strpos(${column}, '\u0000') > 0 OR strpos(${column}, '\ud') > 0)`;
}

/** SQL for the parsed JSON of a column. */
export function jsonOf(column: string): string {
  const replaced = String
    .raw`regexp_replace(${column}, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g')`;
  return `(CASE WHEN ${hasUnreadableEscape(column)} THEN ${replaced} ELSE ${column} END)::json`;
}

/**
 * SQL for the JSON text of a top-level field; null without one. The agent writes JSON without blanks, so a text without
 * `"name":` has no such field and is not parsed.
 * @param name must contain no quotes
 */
export function fieldOf(column: string, name: string): string {
  return `CASE WHEN strpos(${column}, '"${name}":') > 0
    THEN (${jsonOf(column)} -> '${name}')::text END`;
}

/** As fieldOf(), for a param with a name from a caller. */
export function paramNamed(name: string, values: Values): string {
  const mark = values.add(`${JSON.stringify(name)}:`);
  return `CASE WHEN strpos(params, ${mark}) > 0
    THEN (${jsonOf("params")} -> ${values.add(readable(name))}::text)::text END`;
}

/**
 * SQL for the secret names in the props of a job, to be read by secretsFrom(): their JSON list, or the whole props if
 * the replacement of escapes could change a name.
 */
export function secretsOf(props: string): string {
  return `CASE WHEN strpos(${props}, '"secret_params":') > 0
    THEN CASE WHEN ${hasUnreadableEscape(props)} THEN ${props} ELSE ${
    fieldOf(props, "secret_params")
  } END END`;
}

/** The secret names as a JSON list; null without any. */
export function secretsFrom(found: string | null): string | null {
  if (found === null || found.startsWith("[")) return found;
  // This store made the text from an object.
  const { secret_params } = JSON.parse(found) as { readonly secret_params?: readonly string[] };
  return secret_params === undefined ? null : JSON.stringify(secret_params);
}

/** The life of each runner that has begun in this store. */
export type Lives = Map<RunnerId, Incarnation>;

/** Which life makes a write about a claimed job. */
export interface ByLife {
  /**
   * The life of the runner in this agent; undefined before it has begun, when the writes of an earlier life are
   * delivered.
   */
  readonly life?: Incarnation | undefined;
}

/**
 * A condition that no later life of a runner has begun. An ended life, such as that of a copied state folder, may hold
 * a claim with the same lease number, so comparing leases is not enough.
 * @param life placeholder or column of the life that writes
 * @param runner placeholder or column of the runner; the job's unless given
 */
export const isLatest = (life: string, runner = "jobs.runner_id"): string =>
  `(${life}::text IS NULL OR NOT EXISTS (SELECT 1 FROM runners
     WHERE runners.runner_id = ${runner} AND incarnation <> ${life}))`;
