// The file of the configuration as TOML: what is in it that nobody knows, and what stands there twice.
// Values are read by config_sources.ts.

import { parse as parseToml } from "@std/toml/parse";
import type { Definition } from "./definition.ts";
import { duplicatesOf } from "./duplicates.ts";
import { type FieldError, messageOf } from "../domain/error.ts";
import { isJsonObject } from "../domain/json.ts";
import { nearest } from "../domain/field_check.ts";

/** A file that was read. */
export interface ConfigFile {
  readonly path: string;
  readonly text: string;
}

/** What may stand in it. */
export interface KnownKeys {
  readonly top: readonly string[];
  readonly tables: Readonly<Record<string, Readonly<Record<string, Definition<unknown>>>>>;
}

/** The values of a file by their keys; what is wrong with it is added to `errors`. */
export function readConfigFile(
  file: ConfigFile | undefined,
  { top, tables }: KnownKeys,
  errors: FieldError[],
): Readonly<Record<string, unknown>> {
  if (file === undefined) return {};
  const twice = duplicatesOf(file.text);
  for (const { name, line, first } of twice) {
    const message = `${file.path}: ${name} stands in line ${first} and again in line ${line}`;
    errors.push({ field: name, code: "Invalid", message });
  }
  let parsed: Record<string, unknown>;
  try {
    parsed = parseToml(file.text);
  } catch (error) {
    const [what] = messageOf(error).split("\n");
    const message = `${file.path}: ${what}`;
    // Two tables of one name are no TOML for the parser either, and it says so less well.
    if (twice.length === 0) errors.push({ field: "config", code: "Invalid", message });
    return {};
  }
  refuseUnknownKeys(parsed, [...top, ...Object.keys(tables)], file.path, errors);
  for (const [name, definitions] of Object.entries(tables)) {
    const table = parsed[name];
    if (table !== undefined && !isJsonObject(table)) {
      const message = `${file.path}: ${name}: expected a table [${name}]`;
      errors.push({ field: name, code: "Invalid", message });
    } else if (isJsonObject(table)) {
      const keys = Object.values(definitions).map((one) => one.key);
      refuseUnknownKeys(table, keys, `${file.path} [${name}]`, errors);
    }
  }
  return parsed;
}

function refuseUnknownKeys(
  table: object,
  known: readonly string[],
  where: string,
  errors: FieldError[],
): void {
  for (const key of Object.keys(table)) {
    if (known.includes(key)) continue;
    const message = `${where}: unknown key ${JSON.stringify(key)}${nearest(key, known)}`;
    errors.push({ field: key, code: "UnknownField", message });
  }
}
