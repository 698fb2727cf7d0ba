// The kinds of values that settings have: how each is read from a flag, a variable or TOML, how it is
// written, and which values it allows. Readers take `unknown` and return the named type; errors say what was
// found and what was expected.

import type { Failpoint } from "../runtime/failpoint.ts";
import { isAbsolute, normalize, resolve } from "@std/path";
import { DAY_SECONDS, durationSeconds, HOUR_SECONDS, MINUTE_SECONDS } from "../domain/instant.ts";
import { withMaskedAddress } from "../domain/masking.ts";
import { nearest } from "../domain/near_word.ts";
import { PORT_MAX } from "../domain/ip_address.ts";

/** The folder that relative paths refer to. */
interface ValuePlace {
  readonly folder: string;
}

/** Reads a raw value, or throws an Error whose message says what was expected. */
export type Reader<T> = (raw: unknown, place: ValuePlace) => T;

/** The smallest and the largest value, both allowed. */
interface NumberRange {
  readonly min: number;
  readonly max: number;
}

/** How values of a setting are read, and how `--help` and the docs describe them. */
export interface Kind<T> {
  readonly read: Reader<T>;
  /** Placeholder of the value in help, for a number its unit; a switch has none. */
  readonly placeholder?: string;
  /** May be given several times. */
  readonly repeatable?: true;
  /** All values, where they are a closed list. */
  readonly words?: readonly string[];
  /** The smallest and the largest number; a size or a time may also be `off`. */
  readonly range?: NumberRange;
  /** Writes a value as in a flag or the file; `String` unless given. */
  text?(value: T): string;
}

/** The system and mode that a default depends on. */
export interface DefaultsFor {
  readonly dev: boolean;
  readonly cwd: string;
  /** `Deno.build.os`; illumos has other folders than Linux. */
  readonly os: string;
}

/** One row of the table of settings. Its name in the table is its key in the file. */
export interface Definition<T> {
  readonly kind: Kind<T>;
  readonly fallback: (place: DefaultsFor) => T;
  /** Its line in help and docs. */
  readonly meaning: string;
  /** For a limit: what happens when it is reached. */
  readonly met?: string;
}

/** A row of the settings table. */
export function define<T>(
  kind: Kind<T>,
  fallback: T | ((place: DefaultsFor) => T),
  meaning: string,
): Definition<T> {
  return { kind, meaning, fallback: fallback instanceof Function ? fallback : () => fallback };
}

/** Rows of the settings table, by the name of the setting. */
export type Definitions = Readonly<Record<string, Definition<unknown>>>;

/** A raw value as errors show it. They are also shown on the page of the host, so no password of an address is. */
export function shown(raw: unknown): string {
  return withMaskedAddress(JSON.stringify(raw) ?? String(raw)).slice(0, 80);
}

/** The error for a value that is something else. */
export function unexpected(raw: unknown, what: string): Error {
  return new Error(`${shown(raw)} is not ${what}`);
}

/** A boolean, or one of the words `true`, `1`, `false`, `0`. */
export const SWITCH: Kind<boolean> = {
  read(raw) {
    if (raw === true || raw === "true" || raw === "1") return true;
    if (raw === false || raw === "false" || raw === "0") return false;
    throw unexpected(raw, "true or false");
  },
};

/** An integer within a range. @param unit such as `SECONDS`; `N` for a count */
export function integer(unit: string, min: number, max: number): Kind<number> {
  return {
    placeholder: unit,
    range: { min, max },
    read(raw) {
      const number = typeof raw === "string" && /^\d+$/.test(raw) ? Number(raw) : raw;
      if (typeof number !== "number" || !Number.isInteger(number) || number < min || number > max) {
        throw unexpected(raw, `an integer from ${min} to ${max}`);
      }
      return number;
    },
  };
}

/** Units of a size or a time, the largest first. */
const BYTES: Readonly<Record<string, number>> = {
  TiB: 1024 ** 4,
  GiB: 1024 ** 3,
  MiB: 1024 ** 2,
  KiB: 1024,
  "": 1,
};
const SECONDS: Readonly<Record<string, number>> = {
  d: DAY_SECONDS,
  h: HOUR_SECONDS,
  m: MINUTE_SECONDS,
  s: 1,
};

/** A number in the largest unit that divides it; 0 is `off`. */
function inUnits(value: number, units: Readonly<Record<string, number>>): string {
  const found = Object.entries(units).find(([, size]) => value % size === 0);
  return value === 0 || found === undefined ? "off" : `${value / found[1]}${found[0]}`;
}

/** 1 PiB: more than any host has. */
const SIZE_MAX = 1024 ** 5;

/** A number of bytes: an integer, or one with a unit such as `64GiB`; `off` is 0. */
export const SIZE: Kind<number> = {
  placeholder: "SIZE",
  range: { min: 0, max: SIZE_MAX },
  text: (value) => inUnits(value, BYTES),
  read(raw) {
    if (raw === "off") return 0;
    const text = typeof raw === "string" || typeof raw === "number" ? String(raw) : "";
    const [, digits, unit = ""] = /^(\d{1,16})([KMGT]iB)?$/.exec(text) ?? [];
    const bytes = Number(digits ?? Number.NaN) * (BYTES[unit] ?? Number.NaN);
    if (bytes <= SIZE_MAX) return bytes;
    const what = `a size such as 1048576, 20MiB or 64GiB, from 0 to ${SIZE_MAX} bytes, or off`;
    throw new Error(`${shown(raw)} is not ${what}${meantSize(text)}`);
  },
};

/** Sizes as other programs write them: with a space, in lower case, or with a decimal unit. */
function meantSize(text: string): string {
  const [, digits = "", letter = ""] = /^(\d{1,9}) ?([kmgt])(?:i?b)?$/i.exec(text) ?? [];
  return digits === "" ? "" : `: did you mean ${digits}${letter.toUpperCase()}iB?`;
}

/** Seconds, also as a time such as `6h`; `off` is 0. */
export function interval(min: number, max: number): Kind<number> {
  return {
    placeholder: "TIME",
    range: { min, max },
    text: (value) => inUnits(value, SECONDS),
    read(raw) {
      if (raw === "off" || raw === 0 || raw === "0") return 0;
      const seconds = typeof raw === "string" ? durationSeconds(raw) : raw;
      const whole = typeof seconds === "number" && Number.isInteger(seconds);
      if (whole && seconds >= min && seconds <= max) return seconds;
      const what = `a time such as 90s, 10m, 6h or 7d, from ${min} to ${max} seconds, or off`;
      throw unexpected(raw, what);
    },
  };
}

/** One of a closed list of words. */
export function choice<T extends string>(placeholder: string, words: readonly T[]): Kind<T> {
  return {
    placeholder,
    words,
    read(raw) {
      const found = words.find((word) => word === raw);
      if (found !== undefined) return found;
      const near = typeof raw === "string" ? nearest(raw, words) : "";
      throw unexpected(raw, `one of ${words.join(", ")}${near}`);
    },
  };
}

/** The same kind, for a setting that may be unset. */
export function optional<T>(kind: Kind<T>): Kind<T | null> {
  return kind;
}

/** Reads a path, relative to the folder in which it was written. */
export const readPath: Reader<string> = (raw, { folder }) => {
  if (typeof raw !== "string" || raw === "" || raw.includes("\0")) throw unexpected(raw, "a path");
  return isAbsolute(raw) ? normalize(raw) : resolve(folder, raw);
};

/** An absolute path; a relative one is resolved where it was written. @param placeholder completes it */
export function path(placeholder: "PATH" | "FILE" | "DIR"): Kind<string> {
  return { placeholder, read: readPath };
}

/** A list, or a text with separators; each item is read separately. */
export function list<T>(
  placeholder: string,
  { item, separator, itemsMax, what }: {
    readonly item: Reader<T>;
    readonly separator: "," | ":";
    readonly itemsMax: number;
    /** What the items are, such as `paths`. */
    readonly what: string;
  },
): Kind<readonly T[]> {
  return {
    placeholder,
    repeatable: true,
    text: (value) => value.join(separator),
    read(raw, place) {
      const items: unknown = typeof raw === "string"
        ? raw.split(separator).filter((one) => one !== "")
        : raw;
      if (!Array.isArray(items) || items.length > itemsMax) {
        throw unexpected(raw, `a list of at most ${itemsMax} ${what}`);
      }
      return items.map((one: unknown) => item(one, place));
    },
  };
}

/** Most items of one list of paths or hosts. */
const ITEMS_MAX = 1024;

/** Folders, in a text with colons between them. */
export const FOLDERS: Kind<readonly string[]> = list("DIR", {
  item: readPath,
  separator: ":",
  itemsMax: ITEMS_MAX,
  what: "paths",
});

/** The name of a host without a port. */
export const HOST_NAME = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/;

/** Host names without ports. */
export const HOST_NAMES: Kind<readonly string[]> = list("NAME", {
  separator: ",",
  itemsMax: ITEMS_MAX,
  what: "host names",
  item(raw) {
    if (typeof raw === "string" && HOST_NAME.test(raw)) return raw;
    throw unexpected(raw, "a host name without a port");
  },
});

/** Hosts as a URL names them: with a port unless it is the scheme's own. */
export const HOSTS: Kind<readonly string[]> = list("HOST[:PORT]", {
  separator: ",",
  itemsMax: ITEMS_MAX,
  what: "hosts",
  item(raw) {
    // The URL parser drops the default port of a scheme, so a host with port 80 or 443 survives only one of the two.
    const plain = typeof raw === "string" &&
      ["http", "https"].some((scheme) => URL.parse(`${scheme}://${raw}/`)?.host === raw);
    if (plain) return raw;
    throw unexpected(raw, "a host such as 127.0.0.1:9000 or hooks.example.org");
  },
});

/** A text such as `job_record:2:after`: die after the second write of that name. */
export const FAILPOINT: Kind<Failpoint | null> = {
  placeholder: "WRITE:N:WHEN",
  text: (value) => value === null ? "-" : `${value.write}:${value.count}:${value.when}`,
  read(raw) {
    const text = typeof raw === "string" ? raw : "";
    const [, write, count, when] = /^([a-z_]+):([1-9]\d{0,6}):(before|after)$/.exec(text) ?? [];
    if (write === undefined || (when !== "before" && when !== "after")) {
      throw unexpected(raw, "a point such as job_record:2:after");
    }
    return { write, count: Number(count), when };
  },
};

/** A text of a pattern. @param what follows `is not` in the error */
export function matching(placeholder: string, pattern: RegExp, what: string): Kind<string> {
  return {
    placeholder,
    read(raw) {
      if (typeof raw === "string" && pattern.test(raw)) return raw;
      throw unexpected(raw, what);
    },
  };
}

/** A TCP address on which the agent listens. */
export interface ListenAddress {
  readonly hostname: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

/** `host:port` or `[::1]:port`; `off` to listen on the socket only. conflictsOf() checks it against other settings. */
export const LISTEN: Kind<ListenAddress | null> = {
  placeholder: "HOST:PORT",
  text: (value) => value === null ? "off" : `${bracketed(value.hostname)}:${value.port}`,
  read(raw) {
    if (raw === "off") return null;
    const match = typeof raw === "string" ? /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(raw) : null;
    const hostname = match?.[1] ?? match?.[2] ?? "";
    const port = Number(match?.[3] ?? Number.NaN);
    if (match === null || hostname === "" || !(port <= PORT_MAX)) {
      throw unexpected(raw, "an address such as 127.0.0.1:8780, or off");
    }
    return { hostname, port };
  },
};

function bracketed(hostname: string): string {
  return hostname.includes(":") ? `[${hostname}]` : hostname;
}
