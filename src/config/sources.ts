// Reads the configuration: flags override variables, variables override the file, and the file overrides the
// defaults. Anything unknown is an error that says where it is and suggests the nearest name; all errors are
// reported at once. readConfig() is pure; loadConfig() finds the file.

import { dirname, resolve } from "@std/path";
import { parse as parseToml } from "smol-toml";
import type { DefaultsFor, Definitions } from "./kinds.ts";
import {
  type Config,
  defaultConfigPath,
  type Filled,
  nameOf,
  type Setting,
  SETTING_ROWS,
  type SettingOrigin,
  type SettingRow,
  SETTINGS,
  TABLES,
  valueText,
  VARIABLE_PREFIX,
  variableOf,
} from "./settings.ts";
import { AgentError, type FieldError, messageOf, systemReason } from "../domain/error.ts";
import { isJsonObject } from "../domain/json.ts";
import { nearest } from "../domain/near_word.ts";
import { isLoopback } from "../domain/ip_address.ts";
import { syntaxText } from "./toml.ts";

interface ConfigFile {
  readonly path: string;
  readonly text: string;
}

/** The value of a flag: a text, a list of texts, or true for a switch. */
export type FlagValue = string | readonly string[] | boolean;

/** Everything a configuration is read from. */
export interface ConfigSources {
  /** By name without dashes. May include `config`, which loadConfig() reads. */
  readonly flags: Readonly<Record<string, FlagValue>>;
  readonly env: Readonly<Record<string, string>>;
  readonly file?: ConfigFile | undefined;
  /** Relative paths in flags and environment are below this folder. */
  readonly cwd: string;
  readonly os: string;
}

/** Variables of the command line, which are not settings of the agent. */
const OTHER_VARIABLES = ["CONFIG", "URL", "TOKEN_FILE", "CA"].map((name) => VARIABLE_PREFIX + name);

/** One raw value, before it is read. */
interface Found {
  readonly raw: unknown;
  readonly origin: SettingOrigin;
  readonly folder: string;
}

/**
 * Reads the configuration from its sources.
 * @throws {AgentError} `invalid_argument` with one entry in `errors` for every problem
 */
export function readConfig(sources: ConfigSources): Config {
  const errors: FieldError[] = [];
  const file = readFile(sources.file, errors);
  refuseUnknownFlags(sources.flags, errors);
  refuseUnknownVariables(sources.env, errors);
  const start = { dev: false, cwd: sources.cwd, os: sources.os };
  const read = { sources, errors };
  const { dev } = fill({ dev: SETTINGS.dev }, file, start, read);
  const place = { ...start, dev: dev.value };
  const { dev: _dev, ...others } = SETTINGS;
  const table = (name: keyof typeof TABLES) => isJsonObject(file[name]) ? file[name] : {};
  const limits = fill(TABLES.limits, table("limits"), place, read);
  const policy = fill(TABLES.policy, table("policy"), place, read);
  const config = { dev, ...fill(others, file, place, read), limits, policy };
  for (const { setting, key, why } of conflictsOf(config)) {
    const message = `${settingText(setting.origin, key)}: ${why}`;
    errors.push({ field: key, code: "Invalid", message });
  }
  if (errors.length > 0) throw configError(errors);
  return config;
}

/** Fills one table of settings from the strongest source of each. */
function fill<Table extends Definitions>(
  definitions: Table,
  fileTable: Readonly<Record<string, unknown>>,
  place: DefaultsFor,
  { sources, errors }: { sources: ConfigSources; errors: FieldError[] },
): Filled<Table> {
  const entries = Object.entries(definitions).map(([key, { kind, fallback }]) => {
    const found = strongest(key, fileTable, sources);
    const origin: SettingOrigin = found?.origin ?? { kind: "default" };
    if (found !== undefined) {
      try {
        return [key, { value: kind.read(found.raw, found), origin }];
      } catch (error) {
        const message = `${settingText(origin, key)}: ${messageOf(error)}`;
        errors.push({ field: key, code: "Invalid", message });
      }
    }
    return [key, { value: fallback(place), origin }];
  });
  // One entry for every row of the table, which is what the type says.
  return Object.fromEntries(entries) as Filled<Table>;
}

/** Where an operator finds the setting: its flag, its variable, or file and key. */
function settingText(origin: SettingOrigin, key: string): string {
  return origin.kind === "file" ? `${origin.path}: ${key}` : originText(origin);
}

/** There are too many settings to list them. */
function meant(name: string, known: readonly string[]): string {
  return nearest(name, known) || ", expected the name of a setting";
}

function configError(errors: readonly FieldError[]): AgentError {
  const more = errors.length > 1 ? ` (and ${errors.length - 1} more)` : "";
  const message = `Cannot read the configuration: ${errors[0]?.message}${more}`;
  return new AgentError("invalid_argument", message, { errors });
}

function refuseUnknownFlags(flags: ConfigSources["flags"], errors: FieldError[]): void {
  const known = [...SETTING_ROWS.map((one) => one.flag), "config"];
  for (const flag of Object.keys(flags)) {
    if (known.includes(flag)) continue;
    const near = nearest(`--${flag}`, known.map((name) => `--${name}`));
    errors.push({ field: flag, code: "UnknownField", message: `unknown flag "--${flag}"${near}` });
  }
}

function refuseUnknownVariables(env: ConfigSources["env"], errors: FieldError[]): void {
  const known = [...SETTING_ROWS.map((one) => one.variable), ...OTHER_VARIABLES];
  for (const name of Object.keys(env)) {
    if (!name.startsWith(VARIABLE_PREFIX) || known.includes(name)) continue;
    const message = `unknown variable ${JSON.stringify(name)}${meant(name, known)}`;
    errors.push({ field: name, code: "UnknownField", message });
  }
}

function strongest(
  key: string,
  table: Readonly<Record<string, unknown>>,
  { flags, env, file, cwd }: ConfigSources,
): Found | undefined {
  const flag = key.replaceAll("_", "-");
  if (Object.hasOwn(flags, flag)) {
    return { raw: flags[flag], origin: { kind: "flag", name: `--${flag}` }, folder: cwd };
  }
  const name = variableOf(key);
  if (Object.hasOwn(env, name)) {
    return { raw: env[name], origin: { kind: "environment", name }, folder: cwd };
  }
  if (file !== undefined && Object.hasOwn(table, key)) {
    const origin = { kind: "file", path: file.path } as const;
    return { raw: table[key], origin, folder: dirname(file.path) };
  }
  return undefined;
}

/** The values of a file by their keys; problems are added to `errors`. */
function readFile(
  file: ConfigFile | undefined,
  errors: FieldError[],
): Readonly<Record<string, unknown>> {
  if (file === undefined) return {};
  let parsed: Record<string, unknown>;
  try {
    parsed = parseToml(file.text);
  } catch (error) {
    errors.push({
      field: "config",
      code: "Invalid",
      message: syntaxText(file.path, file.text, error),
    });
    return {};
  }
  refuseUnknownKeys(parsed, [...Object.keys(SETTINGS), ...Object.keys(TABLES)], file.path, errors);
  for (const [name, definitions] of Object.entries(TABLES)) {
    const table = parsed[name];
    // A date of TOML is an object as well.
    if (table !== undefined && (!isJsonObject(table) || table instanceof Date)) {
      const message = `${file.path}: ${name} is not a table, expected [${name}]`;
      errors.push({ field: name, code: "Invalid", message });
    } else if (isJsonObject(table)) {
      refuseUnknownKeys(table, Object.keys(definitions), `${file.path} [${name}]`, errors);
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
    const message = `${where}: unknown key ${JSON.stringify(key)}${meant(key, known)}`;
    errors.push({ field: key, code: "UnknownField", message });
  }
}

/** One row of the table with its setting. */
export interface ConfigLine {
  /** The key in the file, behind the name of its table: `limits.tasks_max`. */
  readonly name: string;
  readonly row: SettingRow;
  readonly setting: Setting<unknown>;
}

/** A configuration as a list, in the order of the table. */
export function configLines(config: Config): ConfigLine[] {
  const all: Readonly<Record<string, unknown>> = { ...config };
  return SETTING_ROWS.map((row) => {
    const { table, key } = row;
    const settings = (table === null ? all : all[table]) as Record<string, Setting<unknown>>;
    // There is a setting for every row.
    return { name: nameOf(row), row, setting: settings[key] as Setting<unknown> };
  });
}

/**
 * The flags that give another process on this machine the same configuration. Unset settings have no flag, so
 * that process reads them from its own sources.
 */
export function flagWords(config: Config): string[] {
  const files = configLines(config).map(({ setting }) => setting.origin)
    .flatMap((origin) => origin.kind === "file" ? [origin.path] : []);
  const words = configLines(config).flatMap(({ row, setting: { value } }) => {
    if (value === true) return [`--${row.flag}`];
    if (Array.isArray(value)) return value.map((item) => `--${row.flag}=${item}`);
    const text = valueText(row, value);
    // Without TCP the address is null and its text off.
    return value === false || text === "-" ? [] : [`--${row.flag}=${text}`];
  });
  return [...files.slice(0, 1).map((path) => `--config=${path}`), ...words];
}

/** An origin as `config show --origin` and the errors name it. */
export function originText(origin: SettingOrigin): string {
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
 * Reads the configuration of this process. A file that is named must exist. A development agent reads no
 * default file: it must never use the state of the agent that serves the host.
 * @throws {AgentError} `not_found` for a named file; `invalid_argument` as readConfig()
 */
export async function loadConfig(sources: Omit<ConfigSources, "file">): Promise<Config> {
  const { flags, env, cwd, os } = sources;
  const named = typeof flags.config === "string" ? flags.config : env.ZONEWRIGHT_CONFIG;
  const dev = flags.dev ?? env[variableOf("dev")];
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
    const message = `Cannot read the configuration ${path}: ${systemReason(error)}, ` +
      "expected a configuration file";
    throw new AgentError(missing ? "not_found" : "invalid_argument", message, { cause: error });
  }
}

interface SettingConflict {
  readonly setting: Setting<unknown>;
  readonly key: string;
  readonly why: string;
}

/**
 * All settings that are valid alone but not together. Anyone who reaches the agent may run code as
 * root, so it must not listen where it cannot identify its callers.
 */
function conflictsOf(config: Config): SettingConflict[] {
  return [
    ...accessConflicts(config),
    ...storeConflicts(config),
    ...indexConflicts(config),
  ];
}

function accessConflicts(
  { listen, require_token, socket, socket_mode, tls_cert, tls_key }: Config,
): SettingConflict[] {
  const conflicts: SettingConflict[] = [];
  if (listen.value === null && socket.value === null) {
    const why = "off leaves no way to call the agent, expected a socket as well";
    conflicts.push({ setting: listen, key: "listen", why });
  }
  const noCert = tls_cert.value === null;
  const noKey = tls_key.value === null;
  if (listen.value !== null && !isLoopback(listen.value.hostname) && (noCert || noKey)) {
    const why = `${JSON.stringify(listen.value.hostname)} is not a loopback address: listening ` +
      "there needs TLS (tls_cert and tls_key) and a token (zonewright token create)";
    conflicts.push({ setting: listen, key: "listen", why });
  } else if (noCert && !noKey) {
    conflicts.push({ setting: tls_key, key: "tls_key", why: "expected tls_cert as well" });
  } else if (noKey && !noCert) {
    conflicts.push({ setting: tls_cert, key: "tls_cert", why: "expected tls_key as well" });
  }
  if (!socket_mode.value.endsWith("0") && !require_token.value) {
    const why =
      `${socket_mode.value} admits every user of the host, expected require_token as well`;
    conflicts.push({ setting: socket_mode, key: "socket_mode", why });
  }
  return conflicts;
}

function indexConflicts({ allow_http_index, index, index_token_file }: Config): SettingConflict[] {
  const conflicts: SettingConflict[] = [];
  if (index.value?.startsWith("http://") && !allow_http_index.value) {
    const why = `${index.value} has no TLS, expected https, or allow_http_index as well`;
    conflicts.push({ setting: index, key: "index", why });
  }
  if (index_token_file.value !== null && index.value?.startsWith("https:") !== true) {
    const why = "expected an https index: the token is sent nowhere else";
    conflicts.push({ setting: index_token_file, key: "index_token_file", why });
  }
  return conflicts;
}

function storeConflicts(
  { store, store_notices, store_password_file, store_ca_file, policy }: Config,
): SettingConflict[] {
  if (store.value.kind === "postgres") return [];
  const why = "expected a store postgres:// as well";
  const { allow_workflow, allow_caller } = policy;
  const shared = {
    store_notices,
    store_password_file,
    store_ca_file,
    allow_workflow,
    allow_caller,
  };
  return Object.entries(shared)
    .filter(([, { value }]) => value !== null && value.length > 0)
    .map(([key, setting]) => ({ setting, key, why }));
}
