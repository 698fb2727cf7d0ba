// Installation media: what a request may name, and the names that files may have in a zone root.
//
// A file name travels from here into the words of `vmadm boot`, which are cut at commas and handed
// on unquoted to a start script, and into the root of a zone. So the alphabet is closed, and a file
// that is to be placed must say by its ending what it is: this also keeps a medium from taking the
// place of another file of the zone root, such as `startvm`.

import { CHECK_LEVELS, type CheckLevel } from "../index/check_level.ts";
import { digestText, parseDigest } from "../digest.ts";
import { AgentError, invalidArgument } from "../error.ts";
import {
  type Check,
  type Findings,
  flag,
  oneOf,
  openFindings,
  readObject,
  refuseFindings,
  text,
} from "../field_check.ts";
import { isJsonObject, type JsonObject } from "../json.ts";

/** Names one artifact of the image index; `release` may be an alias. @see document 1 */
export interface ArtifactRef {
  distro: string;
  release: string;
  build?: string;
  variant?: string;
  arch?: string;
  format?: string;
}

/** How a medium that is downloaded has to be checked. */
export interface MediaChecks {
  /** The level that it has to reach; without it, the least one of the agent's configuration. */
  check?: CheckLevel;
  /** Takes it also when it does not reach that level. */
  allow_unverified?: boolean;
}

/**
 * A medium as a request names it; digests are `sha256:<hex>` or `sha512:<hex>`, of the file as it is
 * downloaded. The digest of an address may be left out with `allow_unverified`.
 */
export type MediaRequest =
  | { path: string; digest?: string }
  | ({ url: string; digest?: string; compression?: MediaCompression } & MediaChecks)
  | ({ artifact: ArtifactRef; digest?: string } & MediaChecks);

/** What a medium is attached as: a `cd` by `cdrom=`, a raw `disk` by `disk=`. */
export type MediaKind = "cd" | "disk";

const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const FILE_NAME_CHARS_MAX = 128;
const WORD = /^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$/;

const ENDINGS: Readonly<Record<string, MediaKind>> = { iso: "cd", img: "disk", raw: "disk" };

/** Whether a text may be the name of a file that is copied into a zone root. */
export function isMediaName(name: string): boolean {
  return FILE_NAME.test(name);
}

/** What a medium is by the ending of its name, or undefined when the ending tells nothing. */
export function mediaKind(name: string): MediaKind | undefined {
  const ending = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
  return Object.hasOwn(ENDINGS, ending) ? ENDINGS[ending] : undefined;
}

/** The path of a medium as its machine sees it; vmadm would take a device of the host as well. */
export const mediumPath: Check = (value, field, findings) => {
  if (typeof value === "string" && value.startsWith("/")) {
    const name = value.slice(1);
    if (isMediaName(name) && mediaKind(name) !== undefined) return value;
  }
  findings.add(field, "Invalid", "must be the path of a medium in the zone, such as /name.iso");
  return undefined;
};

/**
 * The name that a medium gets in the zone root.
 * @returns `name` itself
 * @throws {AgentError} `invalid_argument` naming `field` when it may not be placed
 */
export function parseMediaName(name: string, field: string): string {
  if (!isMediaName(name) || mediaKind(name) === undefined) {
    throw invalidArgument(
      field,
      `Cannot use ${JSON.stringify(name.slice(0, FILE_NAME_CHARS_MAX))} as a medium: expected a ` +
        "name of letters, digits, dots, dashes and underscores that ends in .iso, .img or .raw",
    );
  }
  return name;
}

/**
 * A valid file name made of any text, such as the last part of an address: other characters become
 * dashes, the ending is kept when the name must be cut. An empty rest becomes `medium`.
 */
export function safeMediaName(from: string): string {
  const last = from.split(/[\\/]/).findLast((part) => part !== "") ?? "";
  const clean = last.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  // A regular expression would begin again at each dot of a long run that does not end the text.
  let end = clean.length;
  while (end > 0 && ".-".includes(clean.charAt(end - 1))) end -= 1;
  const name = clean.slice(0, end);
  if (name === "") return "medium";
  if (name.length <= FILE_NAME_CHARS_MAX) return name;
  const ending = /\.[A-Za-z0-9]{1,8}$/.exec(name)?.[0] ?? "";
  return name.slice(0, FILE_NAME_CHARS_MAX - ending.length) + ending;
}

/**
 * Reads the description of a medium.
 * @param loose whether it may also be what no machine boots, such as qcow2
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 */
export function parseMediaRequest(value: unknown, field = "media", loose = false): MediaRequest {
  const findings = openFindings();
  const media = readMedia(value, field, findings, loose);
  refuseFindings(findings, "medium");
  if (media === undefined) throw new AgentError("internal", "Cannot read the medium: no reason");
  return media;
}

/** As parseMediaRequest, for a reading that goes on with other fields. */
export function readMedia(
  value: unknown,
  field: string,
  findings: Findings,
  loose = false,
): MediaRequest | undefined {
  if (!isJsonObject(value)) {
    findings.add(field || "body", value === undefined ? "Missing" : "Invalid", "must be an object");
    return undefined;
  }
  const ways = ["path", "url", "artifact"].filter((name) => Object.hasOwn(value, name));
  if (ways.length !== 1) {
    const code = ways.length === 0 ? "Missing" : "Invalid";
    findings.add(field || "body", code, "must have exactly one of path, url and artifact");
  }
  // An address is not proof of its bytes, so its digest is required; a file of a media folder was
  // put there by the operator, and an artifact has the digests of the index.
  const required = ways[0] === "url" && value.allow_unverified !== true ? ["digest"] : [];
  const boots = (name: string) => loose || mediaKind(name) !== undefined;
  const checks: Record<string, Check> = {
    path: mediaPath(boots),
    artifact: loose ? artifact : bootable,
  };
  checks.url = mediaUrl(boots, value.compression);
  checks.digest = digestCheck;
  if (ways[0] !== "path") {
    checks.check = oneOf(CHECK_LEVELS);
    checks.allow_unverified = flag;
  }
  if (ways[0] === "url") checks.compression = oneOf(MEDIA_COMPRESSIONS);
  const read = readObject(value, field, { checks, required }, findings);
  return read === undefined || ways.length !== 1 ? undefined : asMedia(read);
}

function asMedia(read: JsonObject): MediaRequest | undefined {
  const digest = typeof read.digest === "string" ? { digest: read.digest } : {};
  const level = CHECK_LEVELS.find((known) => known === read.check);
  const checks = {
    ...(level === undefined ? {} : { check: level }),
    ...(typeof read.allow_unverified === "boolean"
      ? { allow_unverified: read.allow_unverified }
      : {}),
  };
  if (typeof read.path === "string") return { path: read.path, ...digest };
  if (isJsonObject(read.artifact)) {
    return { artifact: asArtifact(read.artifact), ...digest, ...checks };
  }
  if (typeof read.url !== "string") return undefined;
  const compression = MEDIA_COMPRESSIONS.find((known) => known === read.compression);
  return {
    url: read.url,
    ...digest,
    ...(compression === undefined ? {} : { compression }),
    ...checks,
  };
}

function asArtifact(read: JsonObject): ArtifactRef {
  const texts = Object.entries(read).filter((entry): entry is [string, string] =>
    typeof entry[1] === "string"
  );
  const { distro = "", release = "", ...rest } = Object.fromEntries(texts);
  return { distro, release, ...rest };
}

/** What a request's medium is; undefined for an artifact whose format the index is to choose. */
export function requestedKind(media: MediaRequest): MediaKind | undefined {
  if ("path" in media) return mediaKind(media.path);
  if ("url" in media) {
    return mediaKind(unpackedName(new URL(media.url).pathname, media.compression));
  }
  return mediaKind(`.${media.artifact.format}`);
}

/** Reads a reference to an artifact. @throws {AgentError} `invalid_argument` */
export function parseArtifactRef(value: unknown, field = "artifact"): ArtifactRef {
  const findings = openFindings();
  const read = artifact(value, field, findings);
  refuseFindings(findings, "artifact");
  return asArtifact(isJsonObject(read) ? read : {});
}

const digestCheck: Check = (value, field, findings) => {
  try {
    return digestText(parseDigest(value, field));
  } catch {
    // The only reason is the one that is reported.
    findings.add(field, "Invalid", "must be sha256:<64 hex digits> or sha512:<128 hex digits>");
    return undefined;
  }
};

const word = text(WORD, "a name of letters, digits and . _ + ~ -");

const artifact: Check = (value, field, findings): JsonObject | undefined =>
  readObject(value, field, {
    checks: {
      distro: word,
      release: word,
      build: word,
      variant: word,
      arch: word,
      format: word,
    },
    required: ["distro", "release"],
  }, findings);

/** An artifact that a machine can boot; a download alone may be of any format. */
const bootable: Check = (value, field, findings) => {
  const read = artifact(value, field, findings);
  if (
    isJsonObject(read) && typeof read.format === "string" && !Object.hasOwn(ENDINGS, read.format)
  ) {
    const words = `must be one of ${Object.keys(ENDINGS).join(", ")}: a machine boots no other`;
    findings.add(`${field}.format`, "Invalid", words);
  }
  return read;
};

// Where a medium is, as a request says it: a file of a media folder, or an address.

const PATH_CHARS_MAX = 1024;
const URL_CHARS_MAX = 2048;

/**
 * A path without steps up, or the name of a file in a media folder.
 * @param fits whether a name may be that of the medium
 */
function mediaPath(fits: (name: string) => boolean): Check {
  return (value, field, findings) => {
    const parts = typeof value === "string" ? value.split("/") : [];
    const plain = typeof value === "string" && /^(\/\P{Cc}+|[^/\p{Cc}]+)$/u.test(value) &&
      value.length <= PATH_CHARS_MAX && !parts.includes("..") && !parts.includes(".");
    if (!plain) {
      const words = 'must be an absolute path without "." and "..", or the name of a file in a ' +
        `media folder, of at most ${PATH_CHARS_MAX} characters`;
      findings.add(field, "Invalid", words);
      return undefined;
    }
    if (!fits(value)) {
      findings.add(field, "Invalid", "must end in .iso, .img or .raw");
      return undefined;
    }
    return value;
  };
}

/**
 * An address of http or https.
 * @param fits whether a name may be that of the medium, once unpacked
 * @param compression what the request says of the file
 */
function mediaUrl(fits: (name: string) => boolean, compression: unknown): Check {
  return (value, field, findings) => {
    const parsed = typeof value === "string" && value.length <= URL_CHARS_MAX && URL.canParse(value)
      ? new URL(value)
      : undefined;
    const words = parsed === undefined || !["https:", "http:"].includes(parsed.protocol)
      ? `must be an http or https address of at most ${URL_CHARS_MAX} characters`
      : parsed.username !== "" || parsed.password !== ""
      ? "must not hold a user name or password"
      : !fits(unpackedName(parsed.pathname, compression))
      ? "must have a path that ends in .iso, .img or .raw"
      : undefined;
    if (parsed !== undefined && words === undefined) return parsed.href;
    findings.add(field, "Invalid", words ?? "must be an address");
    return undefined;
  };
}

// How a medium may be packed where it is downloaded from.

/** Compressions that can be undone. @see document 1, Compression */
export const COMPRESSIONS = ["gzip", "xz", "zstd", "bzip2"] as const;
/** One of them. */
export type PackedAs = typeof COMPRESSIONS[number];
/** Compressions that a request may name for an address; an artifact's own is known. */
export const MEDIA_COMPRESSIONS = ["none", ...COMPRESSIONS] as const;
/** One of them. */
export type MediaCompression = typeof MEDIA_COMPRESSIONS[number];

/** The name of a file without the ending that tells its compression, such as `.xz`. */
export function unpackedName(name: string, compression: unknown): string {
  return compression === undefined || compression === "none"
    ? name
    : name.replace(/\.(gz|xz|zst|zstd|bz2)$/i, "");
}
