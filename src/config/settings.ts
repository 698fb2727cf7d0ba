// Every setting of the agent, in one table: its value, its default and its meaning. The limits and the
// policy are parts of it. Everything else is derived from it: the type of the configuration, flags,
// variables, keys of the file, `--help`, the manual, completion, `zonewright config` and the docs.

import {
  choice,
  type DefaultsFor,
  define,
  type Definition,
  type Definitions,
  FAILPOINT,
  FOLDERS,
  HOST_NAMES,
  HOSTS,
  integer,
  interval,
  LISTEN,
  type ListenAddress,
  matching,
  optional,
  path,
  SIZE,
  SWITCH,
} from "./kinds.ts";
import {
  DATABASE,
  type HostSetting,
  MANAGED_HOST,
  PEER_ADDRESS,
  STORE,
  type StoreSetting,
  UPSTREAM,
} from "./place_kinds.ts";
import { LIMITS } from "./limits.ts";
import { POLICY_TABLE } from "./policy.ts";
import { CHECK_LEVELS, type CheckLevel } from "../domain/digest.ts";
import type { Wording } from "../domain/job/wire.ts";
import type { Failpoint } from "../runtime/failpoint.ts";
import { LOG_LEVELS, type LogLevel } from "../domain/job/log_line.ts";
import { DAY_SECONDS, HOUR_SECONDS, YEAR_SECONDS } from "../domain/instant.ts";
import { PEER_SCOPES, type PeerScope } from "../domain/peer.ts";

function stateDir({ dev, cwd, os }: DefaultsFor): string {
  if (dev) return `${cwd === "/" ? "" : cwd}/run`;
  return isIllumos(os) ? "/opt/custom/zonewright" : "/var/lib/zonewright";
}

const FORMATS = ["auto", "text", "json", "bunyan"] as const;
const WORDINGS: readonly Wording[] = ["document", "node-workflow"];
const ENGINES = ["fake", "qemu", "auto"] as const;

/** Octal digits; nobody needs to execute a socket. */
const MODE = matching("MODE", /^0?6[046][046]$/, 'a mode such as "0600" or "0660"');
const SOCKET_MODE: typeof MODE = {
  ...MODE,
  read: (raw, place) => MODE.read(raw, place).padStart(4, "0"),
};
const GROUP_TEXT = matching(
  "GROUP",
  /^(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}|\d{1,9})$/,
  "a group, expected its name or its number",
);
const GROUP: typeof GROUP_TEXT = {
  ...GROUP_TEXT,
  read: (raw, place) => GROUP_TEXT.read(typeof raw === "number" ? String(raw) : raw, place),
};
const GUEST_USER = matching(
  "USER",
  /^(?:[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?|\d{1,9}:\d{1,9})$/,
  "auto, none, the name of a user, or uid:gid",
);

/** The settings. Paths are absolute once read. */
export const SETTINGS = {
  dev: define(SWITCH, false, "simulate a host, and keep state in ./run"),
  listen: define<ListenAddress | null>(
    LISTEN,
    { hostname: "127.0.0.1", port: 8780 },
    "address of the HTTP interface, or off; beyond loopback only with TLS and tokens",
  ),
  socket: define<string | null>(path("PATH"), null, "also listen on a unix socket"),
  require_token: define(
    SWITCH,
    false,
    "require a bearer token on loopback and the socket too; beyond loopback it always is",
  ),
  tls_cert: define<string | null>(
    path("FILE"),
    null,
    "certificate (PEM, with its chain) for TLS on the port; read again on SIGHUP",
  ),
  tls_key: define<string | null>(
    path("FILE"),
    null,
    "private key (PEM, mode 0600) of the certificate",
  ),
  socket_mode: define(SOCKET_MODE, "0600", "mode of the unix socket"),
  socket_group: define<string | null>(GROUP, null, "group of the unix socket, by name or number"),
  audit_file: define<string | null>(
    path("FILE"),
    null,
    "also append a JSON line for every call that changes something; reopened on SIGHUP",
  ),
  state_dir: define(path("DIR"), stateDir, "folder of the database, the mirror and the cache"),
  store: define<StoreSetting>(
    STORE,
    { kind: "sqlite" },
    "where workflows and jobs are kept: sqlite, or a database that agents share, " +
      "postgres://[user@]host[:port]/database",
  ),
  store_notices: define<string | null>(
    DATABASE,
    null,
    "address of the same database for the session that listens, if the one in store is a pooler",
  ),
  store_password_file: define<string | null>(
    path("FILE"),
    null,
    "file with the password (mode 0600) of the user in store",
  ),
  store_ca_file: define<string | null>(
    path("FILE"),
    null,
    "certificate (PEM) of the authority of the database server; TLS is then used on loopback too; by " +
      "default the system's authorities",
  ),
  store_deadline: define(
    integer("SECONDS", 1, 10),
    5,
    "seconds after which a call to a shared database fails",
  ),
  lease: define(
    integer("SECONDS", 5, 600),
    30,
    "seconds without a heartbeat after which a host of a shared database is away",
  ),
  address: define<string | null>(
    PEER_ADDRESS,
    null,
    "address at which agents of other hosts reach this one; if unset, they forward no requests to this agent",
  ),
  peer_ca_file: define<string | null>(
    path("FILE"),
    null,
    "certificate (PEM) of an authority of your own for the agents of other hosts",
  ),
  peer_scope: define<PeerScope>(
    choice("SCOPE", PEER_SCOPES),
    "admin",
    "what callers of other hosts may do at most on this one: admin, read, or off",
  ),
  index: define<string | null>(
    UPSTREAM,
    null,
    "upstream of the image index; without it no index is fetched",
  ),
  allow_http_index: define(SWITCH, false, "accept an index without TLS"),
  index_token_file: define<string | null>(
    path("FILE"),
    null,
    "bearer token (mode 0600) for the server of the index; https only, read for each request",
  ),
  /** Seconds; 0 syncs only when asked. */
  index_interval: define(
    interval(60, 30 * DAY_SECONDS),
    6 * HOUR_SECONDS,
    "time between two syncs of the index, such as 6h, or off",
  ),
  host: define<HostSetting>(
    MANAGED_HOST,
    ({ dev }) => dev ? { kind: "simulated", name: "simulated" } : { kind: "local" },
    "managed host: local, simulated, simulated:NAME, or ssh://[user@]host[:port]",
  ),
  ssh_identity: define<string | null>(
    path("FILE"),
    null,
    "private key for --host ssh://; else those in the home of the agent's user",
  ),
  ssh_known_hosts: define<string | null>(
    path("FILE"),
    null,
    "host keys for --host ssh://; else those that ssh knows",
  ),
  simulated_engine: define<typeof ENGINES[number] | null>(
    optional(choice("ENGINE", ENGINES)),
    null,
    "what runs the machines of a simulated host: fake, qemu, or auto; if unset, the host keeps its engine",
  ),
  vmadm: define(path("PATH"), "/usr/sbin/vmadm", "vmadm on the managed host"),
  zones: define(path("DIR"), "/zones", "folder that holds every zone"),
  media_dir: define(FOLDERS, [], "folder from which media may be taken by path (repeatable)"),
  upload_dir: define<string | null>(
    path("DIR"),
    null,
    "folder of uploaded media, a media folder too; uploads/ in the state folder unless set",
  ),
  /** Bytes; 0 for no uploads. */
  upload_max: define(SIZE, 64 * 1024 ** 3, "largest uploaded file, a size such as 64GiB, or off"),
  /** Bytes; 0 for no bound. */
  cache_max: define(
    SIZE,
    64 * 1024 ** 3,
    "space for downloaded media, a size such as 64GiB, or off for no bound",
  ),
  /** Bytes a second; 0 for no bound. */
  download_rate: define(
    SIZE,
    0,
    "bytes a second of all downloads together, a size such as 20MiB, or off",
  ),
  download_host: define(
    HOSTS,
    [],
    "host besides those of the index from which media may be downloaded (repeatable)",
  ),
  check_min: define<CheckLevel>(
    choice("LEVEL", CHECK_LEVELS),
    "index",
    `check that a download must pass unless its request allows less: ${CHECK_LEVELS.join(", ")}`,
  ),
  key_dir: define<string | null>(
    path("DIR"),
    null,
    "folder of the OpenPGP keys that may sign media; a folder in it named after a distro holds " +
      "the only keys of that distro",
  ),
  allow_host: define(
    HOST_NAMES,
    [],
    "host name besides localhost that callers may use (repeatable)",
  ),
  callback_host: define(
    HOSTS,
    [],
    "host that the callback_url of a job may name (repeatable)",
  ),
  /** Seconds; 0 keeps them forever. */
  keep_finished: define(
    interval(60, 100 * YEAR_SECONDS),
    90 * DAY_SECONDS,
    "how long finished jobs are kept, such as 90d, or off to keep them forever",
  ),
  failpoint: define<Failpoint | null>(
    FAILPOINT,
    null,
    "with --dev, for tests: die before or after the commit of the n-th write of a name",
  ),
  guest_user: define(
    GUEST_USER,
    "auto",
    "user of task processes when the agent is root: a name, uid:gid, none for root itself, " +
      "or auto for nobody",
  ),
  fresh_realm: define(
    SWITCH,
    false,
    "give each task its own JavaScript realm, which costs CPU, instead of a frozen one that the tasks " +
      "of a guest share",
  ),
  slots: define(integer("N", 1, 64), 4, "jobs that run at the same time"),
  compat: define<Wording>(
    choice("WORDING", WORDINGS),
    "document",
    "node-workflow: answer as that software does where it differs from the specification",
  ),
  log_level: define<LogLevel>(
    choice("LEVEL", LOG_LEVELS),
    "info",
    `one of ${LOG_LEVELS.join(", ")}`,
  ),
  log_format: define<typeof FORMATS[number]>(
    choice("FORMAT", FORMATS),
    "auto",
    "text, json, bunyan, or auto: text on a terminal, bunyan on illumos, else json",
  ),
} satisfies Definitions;

/** The settings that have a table of their own in the file, by the name of the table. */
export const TABLES = { limits: LIMITS, policy: POLICY_TABLE } as const;

/** The names of these tables. */
export const SETTING_TABLES = [
  "limits",
  "policy",
] as const satisfies readonly (keyof typeof TABLES)[];

/**
 * Settings whose new value a running agent takes on SIGHUP; every other waits for a restart. A table
 * counts as one.
 */
export const RELOADED_SETTINGS = [
  "require_token",
  "audit_file",
  "tls_cert",
  "tls_key",
  "index_interval",
  "media_dir",
  "index_token_file",
  "keep_finished",
  "log_level",
  "policy",
] as const;
/** The name of such a setting in the configuration file. */
export type ReloadedSetting = typeof RELOADED_SETTINGS[number];

/** Where a value came from; later ones override earlier ones. */
export type SettingOrigin =
  | { readonly kind: "default" }
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "environment"; readonly name: string }
  | { readonly kind: "flag"; readonly name: string };

/** A value with its origin. */
export interface Setting<T> {
  readonly value: T;
  readonly origin: SettingOrigin;
}

/** A table of definitions with a value in every row. */
export type Filled<Table extends Definitions> = {
  readonly [Name in keyof Table]: Setting<ReturnType<Table[Name]["fallback"]>>;
};

/** The configuration of one agent: every setting with its origin. */
export interface Config extends Filled<typeof SETTINGS> {
  readonly limits: Filled<typeof LIMITS>;
  readonly policy: Filled<typeof POLICY_TABLE>;
}

/** Prefix of the agent's environment variables. */
export const VARIABLE_PREFIX = "ZONEWRIGHT_";

/** One row of the table, with its names. */
export interface SettingRow extends Definition<unknown> {
  /** The key in its table of the file. */
  readonly key: string;
  readonly table: keyof typeof TABLES | null;
  /** The flag without its dashes. */
  readonly flag: string;
  readonly variable: string;
}

/** All rows: the settings, the limits, the policy. */
export const SETTING_ROWS: readonly SettingRow[] = [
  ...rowsOf(SETTINGS, null),
  ...rowsOf(LIMITS, "limits"),
  ...rowsOf(POLICY_TABLE, "policy"),
];

/** The name of a setting behind that of its table: `limits.tasks_max`. */
export function nameOf({ table, key }: Pick<SettingRow, "table" | "key">): string {
  return table === null ? key : `${table}.${key}`;
}

function rowsOf(definitions: Definitions, table: SettingRow["table"]): SettingRow[] {
  return Object.entries(definitions).map(([key, definition]) => ({
    ...definition,
    key,
    table,
    flag: key.replaceAll("_", "-"),
    variable: variableOf(key),
  }));
}

/** The variable of a setting. */
export function variableOf(key: string): string {
  return VARIABLE_PREFIX + key.toUpperCase();
}

/** A value as a flag or the file would have it; `-` for none. */
export function valueText({ kind }: Pick<Definition<unknown>, "kind">, value: unknown): string {
  const text = kind.text?.(value) ?? (value === null ? "" : String(value));
  return text === "" ? "-" : text;
}

/** `# slots = 4  # jobs that run at the same time`: a row with its default as a comment of the file. */
export function fileLine(row: SettingRow): string {
  const value = row.fallback({ dev: false, cwd: "/", os: Deno.build.os });
  if (value === null) return `# ${row.key}: ${row.meaning}`;
  const plain = Array.isArray(value) || (row.kind.text === undefined && typeof value !== "string");
  const text = JSON.stringify(plain ? value : valueText(row, value));
  return `# ${row.key} = ${text}  # ${row.meaning}`;
}

function isIllumos(os: string): boolean {
  return os === "illumos" || os === "solaris";
}

/** The default path of the configuration file. */
export function defaultConfigPath(os: string): string {
  return isIllumos(os)
    ? "/opt/custom/etc/zonewright/zonewright.toml"
    : "/etc/zonewright/zonewright.toml";
}
