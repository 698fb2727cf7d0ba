// Every setting of the agent, in one table: its names, its default, how it is read, and its line in
// the help. The type Config is derived from the table, so a setting cannot be in one and not in the
// other. config_sources.ts fills it in from flags, environment and file.

import { type DefaultsFor, define, type Definition } from "./definition.ts";
import { ACCESS_SETTINGS } from "./access.ts";
import { MEDIA_SETTINGS } from "./media.ts";
import type { LIMITS } from "./limits.ts";
import type { POLICY_TABLE } from "./policy.ts";
import {
  type HostSetting,
  type ListenAddress,
  readChoice,
  readFailpoint,
  readGuestUser,
  readHost,
  readHostNames,
  readHosts,
  readInteger,
  readInterval,
  readListen,
  readPath,
  readPaths,
  readSwitch,
  readUpstream,
} from "./values.ts";
import type { Wording } from "../domain/job/wire.ts";
import type { Failpoint } from "../program/failpoint.ts";
import type { LogLevel } from "../metrics/log.ts";

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

function stateDir({ dev, cwd, os }: DefaultsFor): string {
  if (dev) return `${cwd === "/" ? "" : cwd}/run`;
  return os === "illumos" || os === "solaris" ? "/opt/custom/zonewright" : "/var/lib/zonewright";
}

const SLOTS_MAX = 64;
const INTERVAL_SECONDS_MIN = 60;
const INTERVAL_SECONDS_MAX = 30 * 86_400;
const KEEP_SECONDS_MIN = 60;
const KEEP_SECONDS_MAX = 100 * 365 * 86_400;

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];
const FORMATS = ["auto", "text", "json", "bunyan"] as const;
const WORDINGS: readonly Wording[] = ["document", "node-workflow"];

/** The settings. Paths are absolute once read. */
export const SETTINGS = {
  dev: define("dev", false, readSwitch, undefined, "a simulated host and a state folder in ./run"),
  listen: define<ListenAddress | null>(
    "listen",
    { hostname: "127.0.0.1", port: 8780 },
    readListen,
    "HOST:PORT",
    "address of the HTTP interface, or off; beyond loopback with TLS and tokens only",
  ),
  socket: define<string | null>("socket", null, readPath, "PATH", "also listen on a unix socket"),
  ...ACCESS_SETTINGS,
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
  index_token_file: define<string | null>(
    "index-token-file",
    null,
    readPath,
    "FILE",
    "bearer token (mode 0600) that the server of the index wants; https only, read for each request",
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
    "what is managed: local, simulated, or ssh://[user@]host[:port]",
  ),
  ssh_identity: define<string | null>(
    "ssh-identity",
    null,
    readPath,
    "FILE",
    "private key for --host ssh://; else those in the home of the agent's user",
  ),
  ssh_known_hosts: define<string | null>(
    "ssh-known-hosts",
    null,
    readPath,
    "FILE",
    "host keys for --host ssh://; else those that ssh knows",
  ),
  simulated_engine: define<"fake" | "qemu" | "auto" | null>(
    "simulated-engine",
    null,
    readChoice<"fake" | "qemu" | "auto">(["fake", "qemu", "auto"]),
    "ENGINE",
    "what runs the machines of a simulated host: fake, qemu, or auto; none leaves it as it is",
  ),
  vmadm: define(
    "vmadm",
    "/usr/sbin/vmadm",
    readPath,
    "PATH",
    "the program that is run on the host",
  ),
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
  ...MEDIA_SETTINGS,
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
  callback_hosts: {
    ...define<readonly string[]>(
      "callback-host",
      [],
      readHosts,
      "HOST[:PORT]",
      "host that the callback_url of a job may name (repeatable)",
    ),
    many: true,
  },
  /** Seconds; 0 for ever. */
  keep_finished: define(
    "keep-finished",
    90 * 86_400,
    readInterval(KEEP_SECONDS_MIN, KEEP_SECONDS_MAX),
    "TIME",
    "how long finished jobs are kept: seconds, a time such as 90d, or off for ever",
  ),
  failpoint: define<Failpoint | null>(
    "failpoint",
    null,
    readFailpoint,
    "WRITE:N:WHEN",
    "with --dev, for tests: die before or after the commit of the n-th write of a name",
  ),
  guest_user: define(
    "guest-user",
    "auto",
    readGuestUser,
    "USER",
    "user that task processes run as, when the agent is root: a name, uid:gid, none for its own, " +
      "or auto for nobody",
  ),
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
    "text, json, bunyan, or auto: text on a terminal, bunyan on illumos, else json",
  ),
} satisfies Record<string, Definition<unknown>>;

/** A table of definitions with a value in every row. */
export type Filled<Table extends Readonly<Record<string, Definition<unknown>>>> = {
  readonly [Name in keyof Table]: Setting<ReturnType<Table[Name]["read"]>>;
};

/** The configuration of one agent: every setting with its origin. */
export interface Config extends Filled<typeof SETTINGS> {
  readonly limits: Filled<typeof LIMITS>;
  readonly policy: Filled<typeof POLICY_TABLE>;
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
