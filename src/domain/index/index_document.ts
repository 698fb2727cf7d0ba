// A document of the image index that somebody else wrote: its path, which is the same text upstream, in the store and
// in a request, and its reading, from bytes to a JSON value within limits, and from a JSON value to fields of known
// types. Every refusal names the document, the place in it (as a JSON path) and what was found, so that its publisher
// can correct it.

import { AgentError } from "../error.ts";
import { jsonProblem } from "../json_problem.ts";
import { countNames, isJsonObject, type JsonObject, measureJson, wideNumbers } from "../json.ts";

/** The aliases that have an operation of their own. A release may hold others too. */
export const SERVED_ALIASES = ["latest", "lts", "dev"] as const;
/** One of the aliases with an operation. */
type ServedAlias = typeof SERVED_ALIASES[number];

/** The root of the tree: it lists the distros, which lead to all other documents. */
export const DISTRO_LIST_PATH = "v1/index.json";
/** Path of the description of the index. */
export const OPENAPI_PATH = "v1/openapi.json";
/** Path of every image in one document: no operation of document 1, but some publishers write it. */
export const IMAGES_PATH = "v1/images.json";

/** Path of a distro's document. Ids must have passed {@linkcode isIndexName}. */
export function distroPath(distro: string): string {
  return `v1/distros/${distro}/index.json`;
}

/** Path of a release's current builds. */
export function releasePath(distro: string, release: string): string {
  return `v1/distros/${distro}/releases/${release}/index.json`;
}

/** Path of a release's archived builds. */
export function archivePath(distro: string, release: string): string {
  return `v1/distros/${distro}/releases/${release}/archive.json`;
}

/** Path of the copy of the builds that an alias leads to. */
export function aliasPath(distro: string, alias: ServedAlias): string {
  return `v1/distros/${distro}/aliases/${alias}.json`;
}

/** What the path of a document says about it. */
type IndexPlace =
  | { readonly kind: "tree" }
  | { readonly kind: "distro"; readonly distro: string }
  | {
    readonly kind: "current" | "archived";
    readonly distro: string;
    readonly release: string;
  };

const DISTRO_PATH = /^v1\/distros\/([^/]+)\/(?:releases\/([^/]+)\/(index|archive)\.json)?/;

/** Reads a path: builds of a release, another document of a distro, or one of the whole tree. */
export function indexPlaceOf(path: string): IndexPlace {
  const [, distro, release, file] = DISTRO_PATH.exec(path) ?? [];
  if (distro === undefined) return { kind: "tree" };
  if (release === undefined) return { kind: "distro", distro };
  return { kind: file === "archive" ? "archived" : "current", distro, release };
}

const NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$/;

/**
 * Whether a text may name a distro or a release. Names become parts of upstream URLs and of keys in the store, so no
 * name may lead out of a folder.
 */
export function isIndexName(text: string): boolean {
  return NAME.test(text) && !text.includes("..");
}

/** Largest document of the index, bytes. The largest known one has under 100 kB. */
export const DOCUMENT_BYTES_MAX = 4 * 1024 * 1024;
/** Deepest nesting of a document; the specification needs 7. */
const DOCUMENT_DEPTH_MAX = 64;
/** Most values of a document: whatever is built from it must fit into memory. An artifact has about 35. */
export const DOCUMENT_VALUES_MAX = 100_000;
/** Most names in any one object of a document. Known ones have up to 24. */
export const DOCUMENT_NAMES_MAX = 1000;
/** Members of any one list of a document. */
export const DOCUMENT_LIST_MAX = 10_000;
/** Characters of any one text of a document. */
const TEXT_CHARS_MAX = 4096;
/** Characters of a found value that an error repeats. */
const QUOTE_CHARS_MAX = 64;
/** The first integer beyond the format `uint64`. As a double, it also stands for the integers just below. */
const UINT64_END = 2 ** 64;

/** A place in a document of the index. */
export interface Place {
  /** Path of the document, such as `v1/index.json`. */
  readonly document: string;
  /** JSON path, such as `$.releases[2].id`. */
  readonly path: string;
}

/** A document that breaks a rule: which, where in it, and why. */
export class RefusedDocument extends AgentError {
  readonly place: Place;
  /** Words that follow the place. */
  readonly reason: string;

  constructor(place: Place, reason: string, cause?: unknown) {
    super("upstream", `Cannot accept ${place.document}: ${place.path} ${reason}`, { cause });
    this.place = place;
    this.reason = reason;
  }
}

/** Refuses a document. @throws {RefusedDocument} always */
export function refuse(place: Place, reason: string): never {
  throw new RefusedDocument(place, reason);
}

/** The place of a member or element. */
export function inside(place: Place, key: string | number): Place {
  const step = typeof key === "number" ? `[${key}]` : `.${key}`;
  return { document: place.document, path: place.path + step };
}

/** A found value as an error repeats it. */
export function quote(value: string): string {
  return JSON.stringify(value.slice(0, QUOTE_CHARS_MAX));
}

/**
 * Parses a document.
 * @throws {AgentError} `upstream` when it is not UTF-8, not JSON, too large or nested too deeply, or repeats a member
 *   name: readers would disagree which value counts
 */
export function decodeDocument(body: Uint8Array, document: string): unknown {
  const place = { document, path: "$" };
  if (body.byteLength > DOCUMENT_BYTES_MAX) {
    refuse(place, `has ${body.byteLength} bytes, over the limit of ${DOCUMENT_BYTES_MAX}`);
  }
  const measure = measureJson(body);
  const { depth, values, names, namesOfOne } = measure;
  if (depth > DOCUMENT_DEPTH_MAX) refuse(place, `is nested deeper than ${DOCUMENT_DEPTH_MAX}`);
  if (values > DOCUMENT_VALUES_MAX) refuse(place, `has more than ${DOCUMENT_VALUES_MAX} values`);
  if (namesOfOne > DOCUMENT_NAMES_MAX) {
    refuse(place, `has an object of over ${DOCUMENT_NAMES_MAX} names`);
  }
  let value: unknown;
  try {
    // A byte order mark is kept, so that JSON refuses it, as RFC 8259 section 8.1 allows.
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    value = JSON.parse(decoder.decode(measure.wideNumbers ? withoutRounded(body) : body));
  } catch (cause) {
    const reason = cause instanceof SyntaxError
      ? `JSON: ${jsonProblem(new TextDecoder("utf-8", { ignoreBOM: true }).decode(body))}`
      : "UTF-8";
    throw new RefusedDocument(place, `is not ${reason}`, cause);
  }
  if (countNames(value) !== names) refuse(place, "names a member twice");
  return value;
}

/**
 * The bytes of a document, in which each number from 2^64 on that a double would round to 2^64 has nines for its
 * digits. The parsed value is then larger, so that it differs from numbers just below 2^64.
 */
function withoutRounded(body: Uint8Array): Uint8Array {
  let changed = body;
  const [decoder, encoder] = [new TextDecoder(), new TextEncoder()];
  for (const [start, end] of wideNumbers(body)) {
    const digits = decoder.decode(body.subarray(start, end));
    if (Number(digits) !== UINT64_END) continue;
    if (/^\d{20}$/.test(digits) && BigInt(digits) < BigInt(UINT64_END)) continue;
    if (changed === body) changed = body.slice();
    const mantissa = digits.search(/e/i);
    const nines = (mantissa < 0 ? digits : digits.slice(0, mantissa)).replaceAll(/\d/g, "9");
    changed.set(encoder.encode(nines), start);
  }
  return changed;
}

/** @throws {AgentError} `upstream` when the value is not an object */
export function readObject(value: unknown, place: Place): JsonObject {
  return isJsonObject(value) ? value : refuse(place, `must be an object, found ${found(value)}`);
}

/** A required list. @throws {AgentError} `upstream` */
export function readList(object: JsonObject, key: string, place: Place): readonly unknown[] {
  const at = inside(place, key);
  const value = member(object, key);
  if (!Array.isArray(value)) return refuse(at, `must be a list, found ${found(value)}`);
  if (value.length > DOCUMENT_LIST_MAX) {
    refuse(at, `has ${value.length} members, over the limit of ${DOCUMENT_LIST_MAX}`);
  }
  return value;
}

/** A list that is empty when it is absent; null is not a list. @throws {AgentError} `upstream` */
export function readOptionalList(
  object: JsonObject,
  key: string,
  place: Place,
): readonly unknown[] {
  return member(object, key) === undefined ? [] : readList(object, key, place);
}

/** A text. @throws {AgentError} `upstream` */
export function asText(value: unknown, at: Place): string {
  if (typeof value !== "string") return refuse(at, `must be a text, found ${found(value)}`);
  if (value.length > TEXT_CHARS_MAX) {
    refuse(at, `has ${value.length} characters, over the limit of ${TEXT_CHARS_MAX}`);
  }
  return value;
}

/** A required text. @throws {AgentError} `upstream` */
export function readText(object: JsonObject, key: string, place: Place): string {
  return asText(member(object, key), inside(place, key));
}

/** A required text that names something, so it is not empty. @throws {AgentError} `upstream` */
export function readNonEmptyText(object: JsonObject, key: string, place: Place): string {
  const text = readText(object, key, place);
  return text === "" ? refuse(inside(place, key), "must not be empty") : text;
}

/** A text that may be null or absent. @throws {AgentError} `upstream` */
export function readNullableText(object: JsonObject, key: string, place: Place): string | null {
  const value = member(object, key) ?? null;
  return value === null ? null : asText(value, inside(place, key));
}

/** A boolean that may be null or absent. @throws {AgentError} `upstream` */
export function readNullableBoolean(
  object: JsonObject,
  key: string,
  place: Place,
): boolean | null {
  const value = member(object, key) ?? null;
  if (value === null || typeof value === "boolean") return value;
  return refuse(inside(place, key), `must be true or false, found ${found(value)}`);
}

/** An integer of format `uint64` that may be null or absent. @throws {AgentError} `upstream` */
export function readNullableSize(object: JsonObject, key: string, place: Place): number | null {
  const value = member(object, key) ?? null;
  if (value === null) return null;
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= UINT64_END) {
    return value;
  }
  const what = typeof value === "number" && value > UINT64_END ? "2^64 or more" : found(value);
  return refuse(inside(place, key), `must be an integer from 0, found ${what}`);
}

/** A value of a closed enumeration. @throws {AgentError} `upstream` */
export function asOneOf<T extends string>(value: unknown, known: readonly T[], at: Place): T {
  const match = known.find((word) => word === value);
  return match ?? refuse(at, `must be one of ${known.join(", ")}, found ${found(value)}`);
}

/** An object that may be null or absent. @throws {AgentError} `upstream` */
export function readNullable<T>(
  object: JsonObject,
  key: string,
  place: Place,
  read: (value: JsonObject, at: Place) => T,
): T | null {
  const value = member(object, key) ?? null;
  const at = inside(place, key);
  return value === null ? null : read(readObject(value, at), at);
}

/** Own members only: the prototype of objects must not supply any. */
export function member(object: JsonObject, key: string): unknown {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

function found(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  return typeof value === "string" ? quote(value) : String(value);
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})$/;
const DATE_TIME =
  /^(\d{4}-\d{2}-\d{2})[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/** A calendar date (RFC 3339 `full-date`), null or absent. @throws {AgentError} `upstream` */
export function readNullableDate(object: JsonObject, key: string, place: Place): string | null {
  const text = readNullableText(object, key, place);
  if (text === null || isCalendarDate(text)) return text;
  return refuse(inside(place, key), `must be a date such as 2030-05-31, found ${quote(text)}`);
}

/**
 * An instant (RFC 3339 `date-time`) with any number of fractional digits, null or absent. It stays a text, since a
 * Date would lose digits below milliseconds.
 * @throws {AgentError} `upstream`
 */
export function readNullableDateTime(object: JsonObject, key: string, place: Place): string | null {
  const text = readNullableText(object, key, place);
  if (text === null || isCalendarDate(DATE_TIME.exec(text)?.[1] ?? "")) return text;
  const reason = `must be a date and time such as 2026-01-31T18:30:00Z, found ${quote(text)}`;
  return refuse(inside(place, key), reason);
}

function isCalendarDate(text: string): boolean {
  const match = DATE.exec(text);
  if (match === null) return false;
  const [year, month, day] = match.slice(1).map(Number) as [number, number, number];
  // A Date turns a date that does not exist, such as 31 February, into one of another month.
  const date = new Date(Date.UTC(2000, 0, 1));
  date.setUTCFullYear(year, month - 1, day);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
}
