// Fills in the configuration: flags beat the environment, which beats the file, which beats the
// defaults. Whatever is not known is an error that says where it stands and what is near to it;
// all of them are reported at once. readConfig() is pure; loadConfig() finds the file for it.

import { dirname, resolve } from "@std/path";
import {
  type Config,
  defaultConfigPath,
  type Filled,
  type Origin,
  SETTINGS,
  variableOf,
} from "./config.ts";
import { accessMisfits } from "./access_check.ts";
import { limitMisfits } from "./limits_check.ts";
import type { DefaultsFor, Definition } from "./definition.ts";
import { type ConfigFile, readConfigFile } from "./file.ts";
import { LIMITS } from "./limits.ts";
import { POLICY_TABLE } from "./policy.ts";
import { AgentError, type FieldError, messageOf } from "../domain/error.ts";
import { isJsonObject } from "../domain/json.ts";
import { nearest } from "../domain/field_check.ts";

/** The value of a flag: a text, a list of texts, or true for a switch. */
export type FlagValue = string | readonly string[] | boolean;

/** Everything a configuration is read from. */
export interface ConfigSources {
  /** By name without dashes. `config` is loadConfig()'s own and may stand here. */
  readonly flags: Readonly<Record<string, FlagValue>>;
  readonly env: Readonly<Record<string, string>>;
  readonly file?: ConfigFile | undefined;
  /** Relative paths in flags and environment are below this folder. */
  readonly cwd: string;
  readonly os: string;
}

/** Variables that start as ours do and are not settings of the agent. */
const PREFIX = "ZONEWRIGHT_";
const OTHER_VARIABLES = ["CONFIG", "URL", "TOKEN_FILE", "CA"].map((name) => PREFIX + name);

/** The settings that stand in tables of their own in the file, by the names of the tables. */
export const TABLES = { limits: LIMITS, policy: POLICY_TABLE } as const;

const ALL: readonly Definition<unknown>[] = [SETTINGS, ...Object.values(TABLES)]
  .flatMap((table) => Object.values<Definition<unknown>>(table));

/** One value as it was found, before it is read. */
interface Found {
  readonly raw: unknown;
  readonly origin: Origin;
  readonly folder: string;
}

/**
 * Reads the configuration from its sources.
 * @throws {AgentError} `invalid_argument` with one entry in `errors` for every problem
 */
export function readConfig(sources: ConfigSources): Config {
  const errors: FieldError[] = [];
  const top = Object.values(SETTINGS).map((one) => one.key);
  const file = readConfigFile(sources.file, { top, tables: TABLES }, errors);
  refuseUnknownFlags(sources.flags, errors);
  refuseUnknownVariables(sources.env, errors);
  const start = { dev: false, cwd: sources.cwd, os: sources.os };
  const read = { sources, errors };
  const { dev } = fill({ dev: SETTINGS.dev }, file, start, read);
  const place = { ...start, dev: dev.value };
  const { dev: _dev, ...others } = SETTINGS;
  const table = (name: keyof typeof TABLES) => isJsonObject(file[name]) ? file[name] : {};
  const limits = fill(LIMITS, table("limits"), place, read);
  const policy = fill(POLICY_TABLE, table("policy"), place, read);
  const config = { dev, ...fill(others, file, place, read), limits, policy };
  checkTogether(config, errors);
  if (errors.length > 0) throw configError(errors);
  return config;
}

/** Fills one table of settings from the strongest source of each. */
function fill<Table extends Readonly<Record<string, Definition<unknown>>>>(
  definitions: Table,
  fileTable: Readonly<Record<string, unknown>>,
  place: DefaultsFor,
  { sources, errors }: { sources: ConfigSources; errors: FieldError[] },
): Filled<Table> {
  const entries = Object.entries(definitions).map(([name, definition]) => {
    const found = strongest(definition, fileTable, sources);
    const origin: Origin = found?.origin ?? { kind: "default" };
    if (found !== undefined) {
      try {
        return [name, { value: definition.read(found.raw, found), origin }];
      } catch (error) {
        const message = `${settingText(origin, definition.key)}: ${messageOf(error)}`;
        errors.push({ field: definition.key, code: "Invalid", message });
      }
    }
    return [name, { value: definition.fallback(place), origin }];
  });
  // One entry for every row of the table, which is what the type says.
  return Object.fromEntries(entries) as Filled<Table>;
}

/** Settings that are fine alone and wrong together. */
function checkTogether(config: Config, errors: FieldError[]): void {
  if (config.index.value?.startsWith("http://") && !config.allow_http_index.value) {
    const message = `${settingText(config.index.origin, "index")}: ${config.index.value} has no ` +
      "TLS: expected https, or allow_http_index as well";
    errors.push({ field: "index", code: "Invalid", message });
  }
  if (config.listen.value === null && config.socket.value === null) {
    const message = `${settingText(config.listen.origin, "listen")}: off leaves no way in: ` +
      "expected a socket as well";
    errors.push({ field: "listen", code: "Invalid", message });
  }
  for (const { setting, key, why } of [...accessMisfits(config), ...limitMisfits(config)]) {
    const message = `${settingText(setting.origin, key)}: ${why}`;
    errors.push({ field: key, code: "Invalid", message });
  }
}

/** A setting as the one who wrote it would find it: the flag, the variable, or file and key. */
function settingText(origin: Origin, key: string): string {
  return origin.kind === "file" ? `${origin.path}: ${key}` : originText(origin);
}

function configError(errors: readonly FieldError[]): AgentError {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const message = `Cannot read the configuration: ${errors[0]?.message}${more}`;
  return new AgentError("invalid_argument", message, { errors });
}

function refuseUnknownFlags(flags: ConfigSources["flags"], errors: FieldError[]): void {
  const known = [...ALL.map((one) => one.flag), "config"];
  for (const flag of Object.keys(flags)) {
    if (known.includes(flag)) continue;
    const near = nearest(`--${flag}`, known.map((name) => `--${name}`));
    errors.push({ field: flag, code: "UnknownField", message: `unknown flag "--${flag}"${near}` });
  }
}

function refuseUnknownVariables(env: ConfigSources["env"], errors: FieldError[]): void {
  const known = [...ALL.map((one) => variableOf(one.flag)), ...OTHER_VARIABLES];
  for (const name of Object.keys(env)) {
    if (!name.startsWith(PREFIX) || known.includes(name)) continue;
    const message = `unknown variable ${JSON.stringify(name)}${nearest(name, known)}`;
    errors.push({ field: name, code: "UnknownField", message });
  }
}

function strongest(
  definition: Definition<unknown>,
  table: Readonly<Record<string, unknown>>,
  { flags, env, file, cwd }: ConfigSources,
): Found | undefined {
  const flag = flags[definition.flag];
  if (flag !== undefined && Object.hasOwn(flags, definition.flag)) {
    const origin = { kind: "flag", name: `--${definition.flag}` } as const;
    return { raw: flag, origin, folder: cwd };
  }
  const name = variableOf(definition.flag);
  const variable = env[name];
  if (variable !== undefined && Object.hasOwn(env, name)) {
    return { raw: variable, origin: { kind: "environment", name }, folder: cwd };
  }
  if (file !== undefined && Object.hasOwn(table, definition.key)) {
    const origin = { kind: "file", path: file.path } as const;
    return { raw: table[definition.key], origin, folder: dirname(file.path) };
  }
  return undefined;
}

/** An origin as `config show --origin` and the errors name it. */
export function originText(origin: Origin): string {
  switch (origin.kind) {
    case "default":
      return "default";
    case "file":
      return origin.path;
    case "environment":
    case "flag":
      return origin.name;
  }
}

/**
 * Reads the configuration of this process. A file that is named must be there. A development agent
 * does not look for one: it must never work on the state of the agent that serves the host.
 * @throws {AgentError} `not_found` for a named file; `invalid_argument` as readConfig()
 */
export async function loadConfig(sources: Omit<ConfigSources, "file">): Promise<Config> {
  const { flags, env, cwd, os } = sources;
  const named = typeof flags.config === "string" ? flags.config : env.ZONEWRIGHT_CONFIG;
  const dev = flags.dev ?? env[variableOf(SETTINGS.dev.flag)];
  if (named === undefined && (dev === true || dev === "true" || dev === "1")) {
    return readConfig(sources);
  }
  const path = resolve(cwd, named ?? defaultConfigPath(os));
  try {
    return readConfig({ ...sources, file: { path, text: await Deno.readTextFile(path) } });
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const missing = error instanceof Deno.errors.NotFound;
    if (missing && named === undefined) return readConfig(sources);
    const message = `Cannot read the configuration ${path}: ${messageOf(error)}`;
    throw new AgentError(missing ? "not_found" : "invalid_argument", message, { cause: error });
  }
}
