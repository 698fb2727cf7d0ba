// vmadm get, lookup and list: everything that only looks.

import type { JsonObject, JsonValue } from "../../domain/json.ts";
import { readMachine, readMachines } from "../machine.ts";
import { type Outcome, printed, printedJson, refusal } from "../outcome.ts";
import type { State } from "../state.ts";
import { isField, valuesOf, viewOf } from "./view.ts";

/** Columns of `list` without `-o`. */
const LIST_FIELDS = ["uuid", "type", "ram", "state", "alias"];
/** Least widths of columns; others are as wide as their name or eight characters. */
const WIDTHS: Readonly<Record<string, number>> = { uuid: 36, type: 4, ram: 8, state: 17, alias: 1 };
const WIDTH_DEFAULT = 8;

/** What `vmadm lookup` was given. */
export interface LookupArguments {
  readonly json: boolean;
  readonly unique: boolean;
  /** Fields of `-o`; null without it. */
  readonly fields: readonly string[] | null;
  /** Words `key=value`. */
  readonly filters: readonly string[];
}

/** What `vmadm list` was given. */
export interface ListArguments {
  readonly parsable: boolean;
  readonly noHeader: boolean;
  readonly fields: readonly string[] | null;
  /** Fields of `-s`, each with an optional leading `-` for descending. */
  readonly sort: readonly string[];
  readonly filters: readonly string[];
}

/** `vmadm get UUID`. */
export async function get(state: State, uuid: string): Promise<Outcome> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw refusal(`zoneadm: ${uuid}: No such zone configured`);
  return printedJson(await viewOf(state, machine));
}

/** `vmadm lookup [-j|-1] [-o FIELDS] [KEY=VALUE ...]`. No match is a success. */
export async function lookup(state: State, args: LookupArguments): Promise<Outcome> {
  if (args.fields !== null && !args.json) throw refusal("Cannot specify -o without -j");
  const found = await matching(state, args.filters, "lookup");
  if (args.unique && found.length !== 1) {
    throw refusal(`Requested unique lookup but found ${found.length} results.`);
  }
  if (!args.json) return printed(found.map(({ uuid }) => `${String(uuid)}\n`).join(""));
  const { fields } = args;
  if (fields === null) return printedJson(found);
  return printedJson(found.map((view) => {
    const picked: JsonObject = {};
    for (const field of fields) {
      const [value] = valuesOf(view, field);
      if (value !== undefined) picked[field] = value;
    }
    return picked;
  }));
}

/** `vmadm list [-p] [-H] [-o FIELDS] [-s FIELDS] [KEY=VALUE ...]`. */
export async function list(state: State, args: ListArguments): Promise<Outcome> {
  const fields = args.fields ?? LIST_FIELDS;
  const badField = fields.find((field) => !isField(field));
  if (badField !== undefined) throw refusal(`invalid order field: ${badField}`);
  const keys = args.sort.map((key) => ({
    field: key.replace(/^[-+]/, ""),
    sign: key.startsWith("-") ? -1 : 1,
  }));
  const badKey = keys.find(({ field }) => !isField(field));
  if (badKey !== undefined) throw refusal(`invalid sort field: ${badKey.field}`);
  const views = await matching(state, args.filters, "filter");
  const sorting = keys.length === 0
    ? [{ field: "ram", sign: 1 }, { field: "uuid", sign: 1 }]
    : keys;
  views.sort((a, b) => {
    for (const { field, sign } of sorting) {
      const order = compare(valuesOf(a, field)[0], valuesOf(b, field)[0]);
      if (order !== 0) return order * sign;
    }
    return 0;
  });
  const rows = views.map((view) => fields.map((field) => cell(valuesOf(view, field)[0])));
  if (args.parsable) return printed(rows.map((row) => row.join(":") + "\n").join(""));
  const header = fields.map((field) => field.toUpperCase());
  return printed(inColumns(fields, args.noHeader ? rows : [header, ...rows]));
}

function compare(a: JsonValue | undefined, b: JsonValue | undefined): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return cell(a).localeCompare(cell(b));
}

function cell(value: JsonValue | undefined): string {
  if (value === undefined || value === null || value === "") return "-";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function inColumns(fields: readonly string[], rows: readonly string[][]): string {
  const widths = fields.map((field) => Math.max(WIDTHS[field] ?? WIDTH_DEFAULT, field.length));
  return rows.map((row) =>
    row.map((text, column) => text.padEnd(widths[column] ?? 0)).join("  ").trimEnd() + "\n"
  ).join("");
}

/** The machines that all words `key=value` fit, oldest first. */
async function matching(
  state: State,
  filters: readonly string[],
  noun: "lookup" | "filter",
): Promise<JsonObject[]> {
  const tests = filters.map((filter) => {
    const at = filter.indexOf("=");
    const key = at < 0 ? filter : filter.slice(0, at);
    if (!isField(key)) throw refusal(`Invalid ${noun} key: "${key}"`);
    return { key, fits: fitting(at < 0 ? "" : filter.slice(at + 1)) };
  });
  const views: JsonObject[] = [];
  for (const machine of await readMachines(state)) {
    const view = await viewOf(state, machine);
    if (tests.every(({ key, fits }) => valuesOf(view, key).some(fits))) views.push(view);
  }
  return views;
}

/** A value that begins with `~` is a regular expression. */
function fitting(wanted: string): (value: JsonValue) => boolean {
  if (!wanted.startsWith("~")) return (value) => String(value) === wanted;
  const pattern = new RegExp(wanted.slice(1));
  return (value) => pattern.test(String(value));
}
