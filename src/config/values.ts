// Reads one value of the configuration: the text of a flag or of a variable, or what TOML made of
// it. Every reader takes `unknown`, returns the named type, and says in words what it wanted.

import type { Failpoint } from "../program/failpoint.ts";
import { isAbsolute, normalize, resolve } from "@std/path";
import { durationSeconds } from "../domain/instant.ts";
import { nearest } from "../domain/field_check.ts";

/** What a reader may know: the folder against which relative paths are resolved. */
export interface Place {
  readonly folder: string;
}

/** Reads a raw value, or throws an Error whose message says what was wanted. */
export interface Read<T> {
  (raw: unknown, place: Place): T;
  /** All that it takes, where that is a closed list. */
  readonly words?: readonly string[];
  /** The smallest and the largest number that it takes; a size or a time may be `off` besides. */
  readonly range?: Range;
}

/** Two numbers, both included. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

/** A raw value as an error shows it. */
function shown(raw: unknown): string {
  return (JSON.stringify(raw) ?? String(raw)).slice(0, 80);
}

function wanted(raw: unknown, what: string): Error {
  return new Error(`${shown(raw)} is not ${what}`);
}

/** A boolean, or one of the words `true`, `1`, `false`, `0`. */
export const readSwitch: Read<boolean> = (raw) => {
  if (raw === true || raw === "true" || raw === "1") return true;
  if (raw === false || raw === "false" || raw === "0") return false;
  throw wanted(raw, "true or false");
};

/** An integer within limits, both included. */
export function readInteger(min: number, max: number): Read<number> {
  const read = (raw: unknown) => {
    const number = typeof raw === "string" && /^\d+$/.test(raw) ? Number(raw) : raw;
    if (typeof number !== "number" || !Number.isInteger(number) || number < min || number > max) {
      throw wanted(raw, `an integer from ${min} to ${max}`);
    }
    return number;
  };
  return Object.assign(read, { range: { min, max } });
}

const BYTES: Readonly<Record<string, number>> = {
  "": 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

/** 1 PiB: more than any host has. */
const SIZE_MAX = 1024 ** 5;

const sizeOf = (raw: unknown) => {
  if (raw === "off") return 0;
  const text = typeof raw === "string" || typeof raw === "number" ? String(raw) : "";
  const [, digits, unit = ""] = /^(\d{1,16})([KMGT]iB)?$/.exec(text) ?? [];
  const bytes = Number(digits ?? Number.NaN) * (BYTES[unit] ?? Number.NaN);
  if (bytes <= SIZE_MAX) return bytes;
  throw wanted(raw, `a size such as 1048576, 20MiB or 64GiB, from 0 to ${SIZE_MAX} bytes, or off`);
};

/** A number of bytes: an integer, or one with a unit such as `64GiB`; `off` is 0. */
export const readBytes: Read<number> = Object.assign(sizeOf, { range: { min: 0, max: SIZE_MAX } });

/** One of a closed list of words. */
export function readChoice<T extends string>(choices: readonly T[]): Read<T> {
  const read = (raw: unknown) => {
    const found = choices.find((choice) => choice === raw);
    if (found !== undefined) return found;
    const near = typeof raw === "string" ? nearest(raw, choices) : "";
    throw new Error(`${shown(raw)} is none of ${choices.join(", ")}${near}`);
  };
  return Object.assign(read, { words: choices });
}

/** An absolute path; a relative one is resolved where it was written. */
export const readPath: Read<string> = (raw, place) => {
  if (typeof raw !== "string" || raw === "" || raw.includes("\0")) throw wanted(raw, "a path");
  return isAbsolute(raw) ? normalize(raw) : resolve(place.folder, raw);
};

/** A list of paths, or one text with colons between them. */
export const readPaths: Read<readonly string[]> = (raw, place) => {
  const parts = typeof raw === "string" ? raw.split(":").filter((part) => part !== "") : raw;
  if (!Array.isArray(parts)) throw wanted(raw, "a list of paths");
  return parts.map((part) => readPath(part, place));
};

const HOST_NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/** A list of host names without ports, or one text with commas between them. */
export const readHostNames: Read<readonly string[]> = (raw) => {
  const names = typeof raw === "string" ? raw.split(",").filter((name) => name !== "") : raw;
  const plain = Array.isArray(names) &&
    names.every((name) => typeof name === "string" && HOST_NAME.test(name));
  if (!plain) throw wanted(raw, "a list of host names without ports");
  return names;
};

/** `<write>:<n>:<before|after>`, such as `job_record:2:after`. */
export const readFailpoint: Read<Failpoint | null> = (raw) => {
  const [, write, count, when] = /^([a-z_]+):([1-9]\d{0,6}):(before|after)$/.exec(String(raw)) ??
    [];
  if (write === undefined || (when !== "before" && when !== "after")) {
    throw wanted(raw, "a point such as job_record:2:after");
  }
  return { write, count: Number(count), when };
};

const USER_NAME = /^[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?$/;
const USER_AND_GROUP = /^\d{1,9}:\d{1,9}$/;

/** `auto`, `none`, the name of a user, or `uid:gid`; guest_user.ts finds out who that is. */
export const readGuestUser: Read<string> = (raw) => {
  const known = typeof raw === "string" && (USER_NAME.test(raw) || USER_AND_GROUP.test(raw));
  if (!known) throw wanted(raw, "auto, none, the name of a user, or uid:gid");
  return raw;
};

/** Hosts as a URL names them: a port is given where it is not the scheme's own. */
export const readHosts: Read<readonly string[]> = (raw) => {
  const hosts = typeof raw === "string" ? raw.split(",").filter((host) => host !== "") : raw;
  // Each scheme leaves its own port out, and either port may be meant.
  const plain = Array.isArray(hosts) && hosts.every((host) =>
    typeof host === "string" &&
    ["http", "https"].some((scheme) => URL.parse(`${scheme}://${host}/`)?.host === host)
  );
  if (!plain) throw wanted(raw, "a list of hosts such as 127.0.0.1:9000 or hooks.example.org");
  return hosts;
};

/** Seconds between two runs; `off` is 0 and means never. */
export function readInterval(minSeconds: number, maxSeconds: number): Read<number> {
  const read = (raw: unknown) => {
    if (raw === "off" || raw === 0 || raw === "0") return 0;
    const seconds = typeof raw === "string" ? durationSeconds(raw) : raw;
    if (
      typeof seconds !== "number" || !Number.isInteger(seconds) || seconds < minSeconds ||
      seconds > maxSeconds
    ) {
      throw wanted(
        raw,
        `a time such as 90s, 10m, 6h or 7d, from ${minSeconds} to ${maxSeconds} seconds, or off`,
      );
    }
    return seconds;
  };
  return Object.assign(read, { range: { min: minSeconds, max: maxSeconds } });
}

/** A TCP address on which the agent listens. */
export interface ListenAddress {
  readonly hostname: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

const PORT_MAX = 65_535;

/**
 * `host:port` or `[::1]:port`, or `off` to listen on the socket alone. What an address beyond loopback
 * needs besides, config_sources.ts says.
 */
export const readListen: Read<ListenAddress | null> = (raw) => {
  if (raw === "off") return null;
  const match = typeof raw === "string" ? /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(raw) : null;
  const hostname = match?.[1] ?? match?.[2] ?? "";
  const port = Number(match?.[3] ?? Number.NaN);
  if (match === null || hostname === "" || !(port <= PORT_MAX)) {
    throw wanted(raw, "an address such as 127.0.0.1:8780, or off");
  }
  return { hostname, port };
};

/** Which host the agent manages. */
export type HostSetting =
  | { readonly kind: "local" }
  | { readonly kind: "simulated" }
  | {
    readonly kind: "ssh";
    /** `host` or `user@host`. */
    readonly destination: string;
    readonly port: number;
  };

const SSH_PORT = 22;

/** The host that is managed: this one, a simulated one, or another one by its ssh address. */
export const readHost: Read<HostSetting> = (raw) => {
  if (raw === "local" || raw === "simulated") return { kind: raw };
  const ssh = typeof raw === "string"
    // No user or host may begin as an option of ssh does.
    ? /^ssh:\/\/((?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*)(?::(\d{1,5}))?\/?$/
      .exec(raw)
    : null;
  const port = Number(ssh?.[2] ?? SSH_PORT);
  if (ssh === null || port < 1 || port > PORT_MAX) {
    const near = typeof raw === "string" ? nearest(raw, ["local", "simulated"]) : "";
    throw new Error(
      `${shown(raw)} is none of local, simulated and ssh://[user@]host[:port]${near}`,
    );
  }
  return { kind: "ssh", destination: ssh[1] as string, port };
};

/** The upstream of the index: a URL without the `/v1`, or a folder that holds `v1/`. */
export const readUpstream: Read<string> = (raw, place) => {
  if (typeof raw !== "string" || raw === "") throw wanted(raw, "a URL or a folder");
  if (!/^(?:[a-z][a-z0-9+.-]*:\/\/|file:)/i.test(raw)) return readPath(raw, place);
  const url = URL.canParse(raw) ? new URL(raw) : undefined;
  // A folder may be named by its address as well, when it is one of this host.
  const known = url?.protocol === "file:"
    ? url.host === ""
    : url?.protocol === "https:" || url?.protocol === "http:";
  if (url === undefined || !known) throw wanted(raw, "an https URL or a folder");
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    // The value is not repeated: it may hold a secret.
    const word = "expected a URL without user, password, query and fragment";
    throw new Error(`${url.host || "it"}: ${word}: a token stands in index_token_file`);
  }
  return url.href.replace(/(?<!\/)\/+$/, "");
};
