// Installation media: what a request may name, and the names that files may have in a zone root.
//
// A file name travels from here into the words of `vmadm boot`, which are cut at commas and handed on unquoted to a
// start script, and into the root of a zone. So the alphabet is closed, and a file that is to be placed must say by
// its ending what it is: this also keeps a medium from taking the place of another file of the zone root, such as
// `startvm`.

import { CHECK_LEVELS, DIGEST, DIGEST_WORDS, digestText, parseDigest } from "../digest.ts";
import { webAddress } from "../description/formats.ts";
import { object, type Relation } from "../description/object.ts";
import {
  type Described,
  type Description,
  foundText,
  parse,
  refuseValue,
} from "../description/description.ts";
import {
  about,
  anyText,
  atMostChars,
  each,
  flag,
  inEitherCase,
  kept,
  oneOf,
  text,
  worded,
} from "../description/value.ts";
import { invalidArgument } from "../error.ts";
import { isJsonObject } from "../json.ts";

/** How a medium is attached: a `cd` by `cdrom=`, a raw `disk` by `disk=`. */
export type MediaKind = "cd" | "disk";

const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const FILE_NAME_CHARS_MAX = 128;
const WORD = /^[A-Za-z0-9][A-Za-z0-9._+~-]{0,127}$/;

const ENDINGS: Readonly<Record<string, MediaKind>> = { iso: "cd", img: "disk", raw: "disk" };
/** One of these extensions, in either case. */
const ENDING = new RegExp(`\\.(?:${Object.keys(ENDINGS).map(inEitherCase).join("|")})$`);

/** Whether a text may be the name of a file that is copied into a zone root. */
export function isMediaName(name: string): boolean {
  return FILE_NAME.test(name);
}

/** The kind of a medium by its file extension; undefined for any other extension. */
export function mediaKind(name: string): MediaKind | undefined {
  const ending = /\.([A-Za-z0-9]+)$/.exec(name)?.[1]?.toLowerCase() ?? "";
  return Object.hasOwn(ENDINGS, ending) ? ENDINGS[ending] : undefined;
}

/** Why a bhyve machine is refused the image of a disk as its medium. */
export const BHYVE_BOOTS = "bhyve boots only ISO images";

/** The path of a medium inside its machine. Checked, since vmadm would accept a device of the host too. */
export const mediumPath: Description<string> = worded(
  "the path of a medium in the zone, such as /name.iso",
  each(
    text(new RegExp(FILE_NAME.source.replace("^", "^/")), "a path in the zone"),
    text(ENDING, "a medium"),
  ),
);

/**
 * Checks the name that a medium gets in the zone root.
 * @returns `name` itself
 * @throws {AgentError} `invalid_argument` naming `field`
 */
export function parseMediaName(name: string, field: string): string {
  if (!isMediaName(name) || mediaKind(name) === undefined) {
    throw invalidArgument(
      field,
      `Cannot use ${JSON.stringify(name.slice(0, FILE_NAME_CHARS_MAX))} as a medium, expected ` +
        `1 to ${FILE_NAME_CHARS_MAX} letters, digits, dots, dashes and underscores, the first a ` +
        "letter or a digit, that end in .iso, .img or .raw",
    );
  }
  return name;
}

/**
 * Makes a valid file name from any text, such as the last part of a URL: other characters become dashes, and a long
 * name is cut before its extension. If nothing is left, it is `medium`.
 */
export function safeMediaName(from: string): string {
  const last = from.split(/[\\/]/).findLast((part) => part !== "") ?? "";
  const clean = last.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
  // Not a regular expression: it would start again at each dot of a long run.
  let end = clean.length;
  while (end > 0 && ".-".includes(clean.charAt(end - 1))) end -= 1;
  const name = clean.slice(0, end);
  if (name === "") return "medium";
  if (name.length <= FILE_NAME_CHARS_MAX) return name;
  const ending = /\.[A-Za-z0-9]{1,8}$/.exec(name)?.[0] ?? "";
  return name.slice(0, FILE_NAME_CHARS_MAX - ending.length) + ending;
}

/** Compressions of downloaded media that the agent can undo. @see document 1, Compression */
export const COMPRESSIONS = ["gzip", "xz", "zstd", "bzip2"] as const;
/** One compression, in the words of document 1. */
export type PackedAs = typeof COMPRESSIONS[number];
/** Compressions that a request may name for a URL; the index knows those of artifacts. */
export const MEDIA_COMPRESSIONS = ["none", ...COMPRESSIONS] as const;
/** One compression, or `none` for a file that is used as it was downloaded. */
export type MediaCompression = typeof MEDIA_COMPRESSIONS[number];

/** A file name without the extension of its compression, such as `.xz`. */
export function unpackedName(name: string, compression: unknown): string {
  return compression === undefined || compression === "none"
    ? name
    : name.replace(/\.(gz|xz|zst|zstd|bz2)$/i, "");
}

const PATH_CHARS_MAX = 1024;
const URL_CHARS_MAX = 2048;
/** An absolute path or a name, without control characters and without `.` or `..`. */
const PATH = /^(?!(?:[\s\S]*\/)?\.{1,2}(?:\/|$))(?:\/\P{Cc}+|[^/\p{Cc}]+)$/u;

const digest = about(
  "Of the file as downloaded.",
  kept(text(DIGEST, DIGEST_WORDS), (value) => digestText(parseDigest(value, "digest"))),
);

const word = text(WORD, "a name of letters, digits and . _ + ~ -");

/** The fields that name one artifact of the image index. @see document 1 */
const ARTIFACT_FIELDS = {
  distro: about("The distro's id.", word),
  release: about("The release's id, or an alias such as `latest`.", word),
  build: about("The build; the newest by default.", word),
  variant: about("The variant; the vendor's default by default.", word),
  arch: about("The architecture.", word, { default: "x86_64" }),
  format: about("The format after decompression.", word),
};

const artifact = object(ARTIFACT_FIELDS, { required: ["distro", "release"] });

/** A format that machines boot; a download may have any format. */
const bootFormat: Description<string> = about(
  "The format after decompression.",
  worded(
    `one of ${Object.keys(ENDINGS).join(", ")}: a machine boots no other`,
    oneOf(Object.keys(ENDINGS)),
  ),
);

const bootArtifact = object({ ...ARTIFACT_FIELDS, format: bootFormat }, {
  required: ["distro", "release"],
});

/** Names one artifact of the image index; `release` may be an alias. @see document 1 */
export type ArtifactRef = Described<typeof artifact>;

/** How a download is checked. */
const CHECK_FIELDS = {
  check: about(
    "The required level; by default, the agent's minimum.",
    oneOf(CHECK_LEVELS),
  ),
  allow_unverified: about(
    "Accepts the file even below that level. A file that contradicts its digest or its " +
      "vendor's document is still refused.",
    flag,
  ),
};

/** Whether a machine boots the medium, or it is only downloaded: then formats such as qcow2 are accepted too. */
type MediaUse = "booted" | "kept";

/**
 * A URL proves nothing about its content, so a digest is required. The operator put the files of media folders there,
 * and artifacts have digests in the index.
 */
const WITH_DIGEST: Relation = {
  check(_, field, findings, sent) {
    if (sent.allow_unverified === true || Object.hasOwn(sent, "digest")) return;
    const words = `is missing, expected ${digest.words}, or allow_unverified`;
    findings.add(field === "" ? "digest" : `${field}.digest`, "Missing", words);
  },
  schema: {
    anyOf: [
      { required: ["digest"] },
      { properties: { allow_unverified: { const: true } }, required: ["allow_unverified"] },
    ],
  },
};

const BOOTABLE_URL: Relation = {
  check({ url, compression }, field, findings) {
    if (typeof url !== "string") return;
    if (mediaKind(unpackedName(new URL(url).pathname, compression)) !== undefined) return;
    const found = foundText(new URL(url).pathname, "url");
    const words = `must have a path that ends in .iso, .img or .raw, found ${found}`;
    findings.add(field === "" ? "url" : `${field}.url`, "Invalid", words, "boot_medium");
  },
};

const path = atMostChars(
  PATH_CHARS_MAX,
  text(
    PATH,
    'the name of a file in a media folder, or an absolute path without "." and ".."',
  ),
);

/** The three ways to name a medium, by the field that only that way has. */
function mediaWays(use: MediaUse) {
  const booted = use === "booted";
  return {
    path: object({
      path: about(
        "Its absolute path in a media folder, or its name alone.",
        booted ? each(path, text(ENDING, "a name that ends in .iso, .img or .raw")) : path,
      ),
      digest,
    }, { required: ["path"] }),
    url: object({
      url: webAddress(anyText(URL_CHARS_MAX)),
      digest,
      compression: about(
        "Compression to undo after verification.",
        oneOf(MEDIA_COMPRESSIONS),
      ),
      ...CHECK_FIELDS,
    }, { required: ["url"], relations: booted ? [WITH_DIGEST, BOOTABLE_URL] : [WITH_DIGEST] }),
    artifact: object({
      artifact: booted ? bootArtifact : artifact,
      digest,
      ...CHECK_FIELDS,
    }, { required: ["artifact"] }),
  };
}

type MediaWays = ReturnType<typeof mediaWays>;

/**
 * A medium in a request; digests are `sha256:<hex>` or `sha512:<hex>` of the file as downloaded. A URL may omit its
 * digest with `allow_unverified`.
 */
export type MediaRequest = { [Way in keyof MediaWays]: Described<MediaWays[Way]> }[keyof MediaWays];

/** The fields that say how a download is checked. */
export type MediaChecks = Pick<
  Extract<MediaRequest, { url: string }>,
  "check" | "allow_unverified"
>;

const WAYS = ["path", "url", "artifact"] as const;

/** A medium, named in exactly one of the ways. */
export function mediaRequest(use: MediaUse): Description<MediaRequest> {
  const ways = mediaWays(use);
  const words = "an object with exactly one of path, url and artifact";
  return {
    words,
    read(value, field, findings) {
      const name = field || "body";
      if (!isJsonObject(value)) {
        const code = value === undefined ? "Missing" : "Invalid";
        return void refuseValue(value, field, words, findings, { code });
      }
      const [way, second] = WAYS.filter((one) => Object.hasOwn(value, one));
      if (way !== undefined && second === undefined) return ways[way].read(value, field, findings);
      const code = way === undefined ? "Missing" : "Invalid";
      const found = way === undefined ? "none" : `${way} and ${second}`;
      findings.add(name, code, `must have exactly one of path, url and artifact, found ${found}`);
      return undefined;
    },
    schema: (components) => ({
      description:
        "A file, named in exactly one way. If it has a digest, that is verified before " +
        "anything uses the file.",
      oneOf: WAYS.map((way) => ways[way].schema(components)),
    }),
  };
}

/**
 * Reads the description of a medium.
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 */
export function parseMediaRequest(
  value: unknown,
  field = "media",
  use: MediaUse = "booted",
): MediaRequest {
  return parse(mediaRequest(use), value, field, "medium");
}

/** What is known about a medium before it is fetched. */
export interface ExpectedMedium {
  /** Its safe name in the zone root. */
  readonly name: string;
  /** Bytes after decompression; null if unknown. */
  readonly size: number | null;
}

/** Reads a reference to an artifact. @throws {AgentError} `invalid_argument` */
export function parseArtifactRef(value: unknown): ArtifactRef {
  return parse(artifact, value, "artifact", "artifact");
}

/** What a requested medium is; undefined for an artifact whose format the index chooses. */
export function requestedKind(media: MediaRequest): MediaKind | undefined {
  if ("path" in media) return mediaKind(media.path);
  if ("url" in media) {
    return mediaKind(unpackedName(new URL(media.url).pathname, media.compression));
  }
  return mediaKind(`.${media.artifact.format}`);
}
