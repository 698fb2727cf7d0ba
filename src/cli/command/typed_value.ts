// Values as people type them: times, media, digests, JSON, and params of jobs.
//
// A date without a time means midnight in the caller's time zone; a time of day must name its zone, since a log or a
// colleague may use another. The form of a medium alone decides which of four things it names, so that a word always
// means the same:
//
//   https://host/debian.iso    an address; its digest must be given
//   /media/debian.iso          a path on the agent's host; ./debian.iso is made absolute first
//   debian/13                  an artifact of the image index, DISTRO/RELEASE
//   debian.iso                 a name in one of the agent's media folders

import { durationSeconds, EPOCH_MS_MAX, type Instant, instantOf } from "../../domain/instant.ts";
import { type Arguments, cannot, type Flag, usageError } from "./arguments.ts";
import { resolve } from "@std/path";
import { nearest } from "../../domain/near_word.ts";
import { type ArtifactRef, mediaKind } from "../../domain/machine/media.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf } from "../../domain/json.ts";
import type { Terminal } from "../output/terminal.ts";
import { AgentError, systemReason } from "../../domain/error.ts";
import { jsonProblem } from "../../domain/json_problem.ts";

/** The values of `--since` and `--until`, for their help. */
export const PAST_FORMS = "today, 2h, 2026-11-22 or 2026-11-22T18:30Z";

/**
 * The instant that `--since` or `--until` names.
 * @param flag with its dashes
 * @throws {AgentError} `invalid_argument`
 */
export function typedPast(text: string, flag: string, nowMs: number): Instant {
  const day = calendarInstant(text, nowMs);
  if (day !== undefined) return day;
  const seconds = /\d$/.test(text) ? undefined : durationSeconds(text);
  const before = seconds === undefined ? undefined : instantAt(nowMs - seconds * 1000);
  if (before !== undefined) return before;
  throw cannot(
    `use ${flag} ${JSON.stringify(text)}${withoutZone(text)}, expected today (from midnight in ` +
      "your time zone), a time ago such as 2h or 7d, a date such as 2026-11-22, or a time with its " +
      "zone such as 2026-11-22T18:30Z",
  );
}

/**
 * The instant that `--at` names: relative to now, or a calendar date.
 * @throws {AgentError} `invalid_argument`
 */
export function typedFuture(text: string, flag: string, nowMs: number): Instant {
  const day = text === "today" ? undefined : calendarInstant(text, nowMs);
  if (day !== undefined) return day;
  const later = text.startsWith("+") ? text.slice(1) : text;
  const seconds = /\d$/.test(later) ? undefined : durationSeconds(later);
  const after = seconds === undefined ? undefined : instantAt(nowMs + seconds * 1000);
  if (after !== undefined) return after;
  const what = `use ${flag} ${JSON.stringify(text)}`;
  if (/[*@]/.test(text) || text.trim().split(/\s+/).length > 3) {
    throw cannot(
      `${what}: there is no cron here, a job runs once, expected one time such as +2h or ` +
        "2026-12-01T03:00Z; let cron or a systemd timer call zonewright job run",
    );
  }
  throw cannot(
    `${what}${
      withoutZone(text)
    }, expected a time from now such as +90s, +10m or +2h, a date such as ` +
      "2026-12-01 (midnight in your time zone), or a time with its zone such as 2026-12-01T03:00Z",
  );
}

/** `today`, a date, or a date and time with its offset; undefined for another text. */
function calendarInstant(text: string, nowMs: number): Instant | undefined {
  if (text === "today") return midnight(new Date(nowMs));
  const instant = instantOf(text);
  if (instant === undefined || text.includes("T")) return instant;
  const [year = 0, month = 1, day = 1] = text.trim().split("-").map(Number);
  const date = new Date(nowMs);
  date.setFullYear(year, month - 1, day);
  return midnight(date);
}

/** The beginning of a day in the caller's time zone, from TZ or the system. */
function midnight(date: Date): Instant | undefined {
  return instantAt(new Date(date).setHours(0, 0, 0, 0));
}

function instantAt(ms: number): Instant | undefined {
  return ms >= 0 && ms <= EPOCH_MS_MAX ? new Date(ms).toISOString() : undefined;
}

/** Says so if a date and time lacks nothing but its zone. */
function withoutZone(text: string): string {
  return instantOf(`${text}Z`) === undefined ? "" : `: it names no time zone (${text}Z is UTC)`;
}

/** Where a medium comes from, as the HTTP interface takes it. */
type TypedMedium = { url: string } | { path: string } | { artifact: ArtifactRef };

/**
 * Reads a medium.
 * @param what how messages name it, such as `--iso debian.iso`
 * @throws {AgentError} `invalid_argument`
 */
export function typedMedium(text: string, what: string, cwd: string): TypedMedium {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return { url: text };
  if (scheme !== undefined) {
    throw cannot(`use ${what}, expected an http or https URL, or the path of a file`);
  }
  if (text === "") throw cannot(`use ${what}: it is empty, expected a name, a path or a URL`);
  if (text.startsWith("/")) return { path: text };
  if (/^\.\.?\//.test(text)) return { path: resolve(cwd, text) };
  if (!text.includes("/")) return { path: text };
  // No release is called so, but a list of media shows files of subfolders so.
  if (mediaKind(text) !== undefined) {
    throw cannot(`use ${what}, expected the whole path of a file in a subfolder, or ./${text}`);
  }
  return { artifact: typedArtifact(text) };
}

/** The flag beside `--sha256`, whose help says what it is the digest of. */
export const SHA512_FLAG: Flag = {
  name: "sha512",
  placeholder: "HEX",
  help: "expected SHA-512 digest instead",
};

/** The digest that `--sha256` or `--sha512` gives. @throws {AgentError} `invalid_argument` */
export function typedDigest(args: Arguments): string | undefined {
  const given = (["sha256", "sha512"] as const).filter((name) => args.has(name));
  const [name] = given;
  if (name === undefined) return undefined;
  if (given.length > 1) {
    throw usageError("--sha256 and --sha512 are both given, expected one of them");
  }
  const hex = (args.text(name) ?? "").toLowerCase();
  const digits = name === "sha256" ? 64 : 128;
  if (hex.length === digits && /^[0-9a-f]*$/.test(hex)) return `${name}:${hex}`;
  const other = /[^0-9a-f]/.exec(hex)?.[0];
  const found = other === undefined
    ? `${hex.length} digits`
    : `the character ${JSON.stringify(other)}`;
  throw cannot(`use this --${name}: found ${found}, expected ${digits} hexadecimal digits`);
}

const CHOICES = ["variant", "arch", "format"] as const;

/**
 * Reads `DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`.
 * @throws {AgentError} `invalid_argument`
 */
export function typedArtifact(text: string): ArtifactRef {
  const match = /^([^/:?]+)\/([^/:?]+)(?::([^/?]+))?(?:\?(.*))?$/.exec(text);
  const [, distro, release, build, query = ""] = match ?? [];
  if (distro === undefined || release === undefined) {
    throw cannot(
      `find ${JSON.stringify(text)}, expected DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`,
    );
  }
  const ref: ArtifactRef = { distro, release, ...(build === undefined ? {} : { build }) };
  for (const [name, value] of new URLSearchParams(query)) {
    const choice = CHOICES.find((one) => one === name);
    if (choice === undefined) {
      throw cannot(
        `choose an artifact by ${JSON.stringify(name)}, expected ${CHOICES.join(", ")}` +
          nearest(name, CHOICES),
      );
    }
    ref[choice] = value;
  }
  return ref;
}

/** @throws {AgentError} `invalid_argument` naming where the text came from */
export function parseJsonText(text: string, where: string): JsonValue {
  try {
    return JSON.parse(text);
  } catch {
    throw cannot(`read ${where}: it is not JSON: ${jsonProblem(text)}`);
  }
}

/**
 * The JSON object in a file; `-` is standard input.
 * @throws {AgentError} `invalid_argument`; `not_found` when it does not exist
 */
export async function readJsonFile(path: string, terminal: Terminal): Promise<JsonObject> {
  const where = path === "-" ? "standard input" : path;
  const value = parseJsonText(await readText(path, terminal), where);
  if (!isJsonObject(value)) {
    throw cannot(`read ${where}: it is JSON, but ${kindOf(value)}, expected an object {...}`);
  }
  return value;
}

/** The text of a file that was named; `-` is standard input. @throws {AgentError} as above */
export async function readText(path: string, terminal: Terminal): Promise<string> {
  // The runtime opens few files of /dev by their names.
  if (path === "-" || path === "/dev/stdin") return await terminal.readIn();
  try {
    const text = await Deno.readTextFile(resolve(terminal.cwd, path));
    // Some editors write a byte order mark; the agent and standard input pass over it too.
    return text.replace(/^\uFEFF/, "");
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound;
    const why = missing ? "it does not exist" : systemReason(error);
    throw new AgentError(
      missing ? "not_found" : "invalid_argument",
      `Cannot read ${JSON.stringify(path)}: ${why}`,
      { cause: error, about: { kind: "file", name: path } },
    );
  }
}

/**
 * The JSON value that `-d` names: JSON itself, `@FILE`, or `-` for standard input.
 * @throws {AgentError} as above
 */
export async function readJsonArgument(text: string, terminal: Terminal): Promise<JsonValue> {
  if (text === "-") return parseJsonText(await terminal.readIn(), "standard input");
  if (!text.startsWith("@")) return parseJsonText(text, "--data");
  const path = text.slice(1);
  return parseJsonText(await readText(path, terminal), path);
}

/** A param of a new job. */
export const PARAM_FLAG: Flag = {
  name: "param",
  short: "p",
  placeholder: "K=V",
  many: true,
  help: "a parameter as text, or as JSON with K:=JSON (repeatable)",
};

/**
 * The params given by any number of `--param`.
 * @throws {AgentError} `invalid_argument` for a text of another form, and for a name given twice
 */
export function readParams(texts: readonly string[]): Record<string, JsonValue> {
  const params = new Map<string, JsonValue>();
  for (const text of texts) {
    const match = /^([^=:]+)(:?=)(.*)$/s.exec(text);
    const [, name = "", sign, value = ""] = match ?? [];
    if (match === null) {
      throw cannot(`use --param ${JSON.stringify(text)}, expected K=V, or K:=JSON`);
    }
    if (params.has(name)) {
      throw usageError(`--param ${name} is given twice, expected each name once`);
    }
    params.set(name, sign === ":=" ? parseJsonText(value, `--param ${name}`) : value);
  }
  return Object.fromEntries(params);
}
