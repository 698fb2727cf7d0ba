// Every setting of the agent, in one table: its names, its default, how it is read, and its line in
// the help. The type Config is derived from the table, so a setting cannot be in one and not in the
// other. config_sources.ts fills it in from flags, environment and file.

import {
  type HostSetting,
  type ListenAddress,
  type Read,
  readChoice,
  readHost,
  readHostNames,
  readInteger,
  readInterval,
  readListen,
  readPath,
  readPaths,
  readSwitch,
  readUpstream,
} from "./config_values.ts";
import type { Wording } from "./domain/job.ts";
import type { LogLevel } from "./log.ts";

/** Where a value came from, the strongest last. */
export type Origin =
  | { readonly kind: "default" }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "environment"; readonly name: string }
  | { readonly kind: "flag"; readonly name: string };

/** A value that remembers where it came from. */
export interface Setting<T> {
  readonly value: T;
  readonly origin: Origin;
}

/** What a default may depend on. */
export interface DefaultsFor {
  readonly dev: boolean;
  readonly cwd: string;
  /** `Deno.build.os`; illumos has other folders than Linux. */
  readonly os: string;
}

/** One row of the table. */
export interface Definition<T> {
  /** Without dashes in front. The variable is `ZONEWRIGHT_` and this in capitals. */
  readonly flag: string;
  /** The key in the TOML file. */
  readonly key: string;
  /** What stands for the value in help; none for a switch. */
  readonly placeholder?: string;
  /** May be given several times. */
  readonly many?: true;
  readonly help: string;
  readonly read: Read<T>;
  readonly fallback: (place: DefaultsFor) => T;
}

function define<T>(
  flag: string,
  fallback: T | ((place: DefaultsFor) => T),
  read: Read<T>,
  placeholder: string | undefined,
  help: string,
): Definition<T> {
  return {
    flag,
    key: flag.replaceAll("-", "_"),
    read,
    help,
    fallback: fallback instanceof Function ? fallback : () => fallback,
    ...(placeholder === undefined ? {} : { placeholder }),
  };
}

function stateDir({ dev, cwd, os }: DefaultsFor): string {
  if (dev) return `${cwd === "/" ? "" : cwd}/run`;
  return os === "illumos" || os === "solaris" ? "/opt/custom/zonewright" : "/var/lib/zonewright";
}

const SLOTS_MAX = 64;
const INTERVAL_SECONDS_MIN = 60;
const INTERVAL_SECONDS_MAX = 30 * 86_400;
const MIB = 1_048_576;

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];
const FORMATS = ["auto", "text", "json"] as const;
const WORDINGS: readonly Wording[] = ["document", "node-workflow"];

/** The settings. Paths are absolute once read. */
export const SETTINGS = {
  dev: define("dev", false, readSwitch, undefined, "a simulated host and a state folder in ./run"),
  listen: define<ListenAddress | null>(
    "listen",
    { hostname: "127.0.0.1", port: 8780 },
    readListen,
    "HOST:PORT",
    "loopback address of the HTTP interface, or off",
  ),
  socket: define<string | null>("socket", null, readPath, "PATH", "also listen on a unix socket"),
  state_dir: define("state-dir", stateDir, readPath, "DIR", "database, mirror and cache"),
  index: define<string | null>(
    "index",
    null,
    readUpstream,
    "URL|DIR",
    "upstream of the image index; none is asked unless it is given",
  ),
  allow_http_index: define(
    "allow-http-index",
    false,
    readSwitch,
    undefined,
    "accept an index without TLS",
  ),
  /** Seconds; 0 for never. */
  index_interval: define(
    "index-interval",
    6 * 3600,
    readInterval(INTERVAL_SECONDS_MIN, INTERVAL_SECONDS_MAX),
    "TIME",
    "seconds between two syncs of the index, a time such as 6h, or off",
  ),
  host: define<HostSetting>(
    "host",
    ({ dev }) => ({ kind: dev ? "simulated" : "local" }),
    readHost,
    "HOST",
    "what is managed: local or simulated",
  ),
  vmadm: define("vmadm", "/usr/sbin/vmadm", readPath, "PATH", "the program that --host local runs"),
  zones: define("zones", "/zones", readPath, "DIR", "folder below which every zone lies"),
  media_dirs: {
    ...define<readonly string[]>(
      "media-dir",
      [],
      readPaths,
      "DIR",
      "folder from which media may be taken by path (repeatable)",
    ),
    many: true,
  },
  allowed_hosts: {
    ...define<readonly string[]>(
      "allow-host",
      [],
      readHostNames,
      "NAME",
      "name besides localhost by which clients may call (repeatable)",
    ),
    many: true,
  },
  slots: define("slots", 4, readInteger(1, SLOTS_MAX), "N", "jobs that run at the same time"),
  compat: define<Wording>(
    "compat",
    "document",
    readChoice(WORDINGS),
    "node-workflow",
    "speak as that software where it differs from the document",
  ),
  log_level: define<LogLevel>("log-level", "info", readChoice(LEVELS), "LEVEL", LEVELS.join(", ")),
  log_format: define<typeof FORMATS[number]>(
    "log-format",
    "auto",
    readChoice(FORMATS),
    "FORMAT",
    "text, json, or auto: text on a terminal",
  ),
} satisfies Record<string, Definition<unknown>>;

function limit(flag: string, value: number, max: number, help: string): Definition<number> {
  return define(flag, value, readInteger(1, max), "N", help);
}

/** The named limits: settings like the others, in the TOML table `[limits]`. */
export const LIMITS = {
  body_bytes_max: limit("body-bytes-max", 2 * MIB, 64 * MIB, "bytes of one request body"),
  json_depth_max: limit("json-depth-max", 64, 1000, "nesting of a request body"),
  requests_max: limit("requests-max", 256, 65_536, "requests that are answered at the same time"),
  waits_max: limit("waits-max", 128, 65_536, "requests that wait for a job at the same time"),
  tasks_max: limit("tasks-max", 1000, 10_000, "tasks in one chain"),
  source_chars_max: limit("source-chars-max", 256 * 1024, 16 * MIB, "characters of one task"),
  retry_max: limit("retry-max", 1000, 1_000_000, "retries of one task"),
  timeout_seconds_max: limit(
    "timeout-seconds-max",
    30 * 86_400,
    366 * 86_400,
    "seconds of one timeout",
  ),
  target_chars_max: limit("target-chars-max", 1024, MIB, "characters of a job's target"),
  params_chars_max: limit(
    "params-chars-max",
    2 * MIB,
    64 * MIB,
    "characters of a job's params as JSON",
  ),
  info_entry_bytes_max: limit("info-entry-bytes-max", 64 * 1024, 16 * MIB, "bytes of one entry"),
  info_entries_max: limit("info-entries-max", 10_000, 1_000_000, "info entries of one job"),
} satisfies Record<string, Definition<number>>;

/** A table of definitions with a value in every row. */
export type Filled<Table extends Readonly<Record<string, Definition<unknown>>>> = {
  readonly [Name in keyof Table]: Setting<ReturnType<Table[Name]["read"]>>;
};

/** The configuration of one agent: every setting with its origin. */
export interface Config extends Filled<typeof SETTINGS> {
  readonly limits: Filled<typeof LIMITS>;
}

/** The name of the variable that sets a flag. */
export function variableOf(flag: string): string {
  return `ZONEWRIGHT_${flag.replaceAll("-", "_").toUpperCase()}`;
}

/** Where the file lies when nobody names it. */
export function defaultConfigPath(os: string): string {
  return os === "illumos" || os === "solaris"
    ? "/opt/custom/etc/zonewright/zonewright.toml"
    : "/etc/zonewright/zonewright.toml";
}
