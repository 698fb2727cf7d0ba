// Pieces of statements: the values that they take, and fields of JSON texts.

import type { Incarnation, RunnerId } from "../../domain/id.ts";
import type { BoundValue } from "./server.ts";

/** The values of one statement, in the order of their places. */
export class Values {
  readonly all: BoundValue[] = [];

  /** @returns the place of the value */
  add(value: BoundValue): string {
    this.all.push(value);
    return `$${this.all.length}`;
  }
}

/** Types of the columns of a table of values, by their names. */
export type ColumnTypes<Row> = {
  readonly [Name in keyof Row]: "text" | "bigint" | "boolean";
};

/** SQL for a table `new` of values: a row for each of these, whose number is in the column `place`. */
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

/** A condition that a column has a text. No stored text has NUL, and the server takes none. */
export function isText(column: string, text: string, values: Values): string {
  return text.includes("\0") ? "false" : `${column} = ${values.add(text)}`;
}

/** Conditions that a column of uuids begins with a text; `g` sorts after all hexadecimal digits. */
export function beginsWith(column: string, prefix: string, values: Values): string[] {
  if (prefix.includes("\0")) return ["false"];
  return [`${column} >= ${values.add(prefix)}`, `${column} < ${values.add(`${prefix}g`)}`];
}

/** The part of a statement that begins with WHERE, or nothing. */
export function whereOf(conditions: readonly string[]): string {
  return conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
}

// The server reads no field of a JSON text in which any escape stands for NUL or for half a pair of surrogates. Those
// escapes are replaced before it reads a text, and in what the field is compared with. The agent writes JSON without
// blanks, so that a text without `"name":` has no such field and need not be parsed.

const ODD = /\\u(?:0000|d[89a-f][0-9a-f]{2})/g;

/** A JSON text, or a text that a field of one is compared with, as the server reads it. */
export function readable(text: string): string {
  return text.replaceAll(ODD, "\\ufffd").replaceAll("\0", "\ufffd");
}

/** Whether a column has an escape that may be replaced. */
function isOdd(column: string): string {
  return String.raw`(strpos(${column}, '\u0000') > 0 OR strpos(${column}, '\ud') > 0)`;
}

/** SQL for the JSON of a column. */
export function jsonOf(column: string): string {
  const replaced = String
    .raw`regexp_replace(${column}, '\\u(0000|d[89a-f][0-9a-f]{2})', '\\ufffd', 'g')`;
  return `(CASE WHEN ${isOdd(column)} THEN ${replaced} ELSE ${column} END)::json`;
}

/** SQL for the JSON text of a field at the top; null when there is none. @param name without quotes */
export function fieldOf(column: string, name: string): string {
  return `CASE WHEN strpos(${column}, '"${name}":') > 0
    THEN (${jsonOf(column)} -> '${name}')::text END`;
}

/** The same for a name that a caller has given. */
export function fieldNamed(column: string, name: string, values: Values): string {
  const mark = values.add(`${JSON.stringify(name)}:`);
  return `CASE WHEN strpos(${column}, ${mark}) > 0
    THEN (${jsonOf(column)} -> ${values.add(readable(name))}::text)::text END`;
}

/**
 * The secret names in the props of a job, for secretsFrom(): their JSON list, or the whole props where replacing
 * escapes could change a name.
 */
export function secretsOf(props: string): string {
  return `CASE WHEN strpos(${props}, '"secret_params":') > 0
    THEN CASE WHEN ${isOdd(props)} THEN ${props} ELSE ${fieldOf(props, "secret_params")} END END`;
}

/** The secret names as a JSON list; null when there are none. */
export function secretsFrom(found: string | null): string | null {
  if (found === null || found.startsWith("[")) return found;
  // The text was made by this store from an object.
  const { secret_params } = JSON.parse(found) as { readonly secret_params?: readonly string[] };
  return secret_params === undefined ? null : JSON.stringify(secret_params);
}

/** The life of each runner that has begun through this store. */
export type Lives = Map<RunnerId, Incarnation>;

/** Who makes a write about a claimed job. */
export interface ByLife {
  /** The life of the runner in this agent; undefined before it has begun, when what an earlier one left is written. */
  readonly life?: Incarnation | undefined;
}

/**
 * Whether no later life of a runner has begun: an ended one, such as that of a copied state folder, may have made a claim
 * of the same number.
 * @param life a value or a column with the life that writes
 * @param runner the same with the runner; that of a job unless given
 */
export const isLatest = (life: string, runner = "jobs.runner_id"): string =>
  `(${life}::text IS NULL OR NOT EXISTS (SELECT 1 FROM runners
     WHERE runners.runner_id = ${runner} AND incarnation <> ${life}))`;
