// The configuration file as TOML: its syntax and its keys. sources.ts reads the values.

import { parse as parseToml, TomlError } from "smol-toml";
import type { Definition } from "./definition.ts";
import type { FieldError } from "../domain/error.ts";
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
  let parsed: Record<string, unknown>;
  try {
    parsed = parseToml(file.text);
  } catch (error) {
    errors.push({ field: "config", code: "Invalid", message: syntaxText(file.path, error) });
    return {};
  }
  refuseUnknownKeys(parsed, [...top, ...Object.keys(tables)], file.path, errors);
  for (const [name, definitions] of Object.entries(tables)) {
    const table = parsed[name];
    // A date of TOML is an object as well.
    if (table !== undefined && (!isJsonObject(table) || table instanceof Date)) {
      const message = `${file.path}: ${name}: expected a table [${name}]`;
      errors.push({ field: name, code: "Invalid", message });
    } else if (isJsonObject(table)) {
      const keys = Object.values(definitions).map((one) => one.key);
      refuseUnknownKeys(table, keys, `${file.path} [${name}]`, errors);
    }
  }
  return parsed;
}

/** `zonewright.toml:2:1: what is wrong there`, as compilers and editors write it. */
function syntaxText(path: string, error: unknown): string {
  if (!(error instanceof TomlError)) throw error;
  const [first = ""] = error.message.split("\n");
  return `${path}:${error.line}:${error.column}: ${first.replace(/^Invalid TOML document: /, "")}`;
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
