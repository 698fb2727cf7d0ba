// Builds of a release and their artifacts: the downloadable image files, where they are, and what the vendor offers
// for checking them, which the index copies and does not vouch for. Three kinds of document are such lists: a
// release's index.json, its archive.json, and the alias files, each a copy of an index.json.

import {
  asOneOf,
  asText,
  inside,
  member,
  type Place,
  quote,
  readList,
  readNonEmptyText,
  readNullable,
  readNullableBoolean,
  readNullableDateTime,
  readNullableSize,
  readNullableText,
  readObject,
  readOptionalList,
  readText,
  refuse,
} from "./index_document.ts";
import { type OsinfoRef, readOsinfo, refuseRepeated } from "./image_index.ts";
import type { JsonObject } from "../json.ts";
import { type Digest, DIGEST_ALGORITHMS, DIGEST_DIGITS, isDigestValue } from "../digest.ts";

/** Format after decompression: a known word, or any other word that a vendor uses. */
type ImageFormat = "qcow2" | "raw" | "vmdk" | (string & Record<never, never>);
/** Compression of the file as downloaded; open as {@linkcode ImageFormat} is. */
type Compression =
  | "none"
  | "gzip"
  | "xz"
  | "zstd"
  | "bzip2"
  | (string & Record<never, never>);
/** What can start an image; a closed enumeration. @see document 1, Artifact */
export const FIRMWARES = ["bios", "uefi"] as const;
type Firmware = typeof FIRMWARES[number];
/** The role of a location for the vendor. @see document 1, Location */
const LOCATION_KINDS = ["primary", "vault", "mirror"] as const;
type LocationKind = typeof LOCATION_KINDS[number];

/** The builds of one release. @see document 1, BuildList */
export interface BuildList {
  readonly distro: string;
  readonly release: string;
  /** Newest first, in the vendor's own order; never empty. */
  readonly builds: readonly Build[];
}

/** One build of a release, with its files. @see document 1, Build */
export interface Build {
  readonly build: string;
  readonly artifacts: readonly Artifact[];
  readonly point_release: string | null;
  /** Stays a text: it may have up to nine fractional digits. */
  readonly published_at: string | null;
  readonly first_seen: string | null;
  readonly osinfo: OsinfoRef | null;
}

/** One downloadable file. @see document 1, Artifact */
export interface Artifact {
  readonly arch: string;
  readonly format: ImageFormat;
  readonly compression: Compression;
  readonly locations: readonly Location[];
  readonly variant: string | null;
  readonly default_variant: boolean | null;
  /** Size of the download in bytes, compressed or not. */
  readonly size: number | null;
  readonly firmware: readonly Firmware[];
  readonly datasources: readonly string[];
  readonly ssh_key_injection: boolean | null;
  readonly integrity: Integrity | null;
}

/** An address of an artifact. @see document 1, Location */
export interface Location {
  readonly url: string;
  readonly kind: LocationKind | null;
  readonly redirects_off_host: boolean | null;
}

/** What a list must contain, by its path. */
export interface ExpectedBuilds {
  readonly document: string;
  readonly distro: string;
  readonly release: string;
  /** Current builds have a primary location, archived ones have none. */
  readonly kind: "current" | "archived";
}

/**
 * Reads a list of builds. An empty list is refused: a release without builds is not listed, and an
 * archive without builds is not found.
 * @throws {AgentError} `upstream`
 */
export function parseBuildList(value: unknown, expected: ExpectedBuilds): BuildList {
  const place = { document: expected.document, path: "$" };
  const object = readObject(value, place);
  for (const key of ["distro", "release"] as const) {
    const name = readText(object, key, place);
    if (name !== expected[key]) {
      const reason = `must be ${quote(expected[key])} as in its path, found ${quote(name)}`;
      refuse(inside(place, key), reason);
    }
  }
  const at = inside(place, "builds");
  const builds = readList(object, "builds", place).map((item, index) =>
    readBuild(readObject(item, inside(at, index)), inside(at, index), expected.kind)
  );
  if (builds.length === 0) refuse(at, "must not be empty");
  refuseRepeated(builds.map((build) => build.build), at, ".build");
  return { distro: expected.distro, release: expected.release, builds };
}

/** Names an artifact inside its build. */
export function artifactKey(artifact: Artifact): string {
  return JSON.stringify([artifact.variant, artifact.arch, artifact.format]);
}

function readBuild(object: JsonObject, place: Place, kind: ExpectedBuilds["kind"]): Build {
  const at = inside(place, "artifacts");
  const artifacts = readList(object, "artifacts", place).map((item, index) =>
    readArtifact(readObject(item, inside(at, index)), inside(at, index), kind)
  );
  if (artifacts.length === 0) refuse(at, "must not be empty");
  refuseRepeated(artifacts.map(artifactKey), at, "");
  return {
    build: readNonEmptyText(object, "build", place),
    artifacts,
    point_release: readNullableText(object, "point_release", place),
    published_at: readNullableDateTime(object, "published_at", place),
    first_seen: readNullableDateTime(object, "first_seen", place),
    osinfo: readOsinfo(object, place),
  };
}

function readArtifact(object: JsonObject, place: Place, kind: ExpectedBuilds["kind"]): Artifact {
  const locations = readList(object, "locations", place).map((item, index) => {
    const at = inside(inside(place, "locations"), index);
    return readLocation(readObject(item, at), at);
  });
  checkLocations(locations, inside(place, "locations"), kind);
  return {
    arch: readNonEmptyText(object, "arch", place),
    format: readNonEmptyText(object, "format", place),
    compression: readNonEmptyText(object, "compression", place),
    locations,
    variant: readNullableText(object, "variant", place),
    default_variant: readNullableBoolean(object, "default_variant", place),
    size: readNullableSize(object, "size", place),
    firmware: readOptionalList(object, "firmware", place).map((word, index) =>
      asOneOf(word, FIRMWARES, inside(inside(place, "firmware"), index))
    ),
    datasources: readOptionalList(object, "datasources", place).map((word, index) =>
      asText(word, inside(inside(place, "datasources"), index))
    ),
    ssh_key_injection: readNullableBoolean(object, "ssh_key_injection", place),
    integrity: readNullable(object, "integrity", place, readIntegrity),
  };
}

function readLocation(object: JsonObject, place: Place): Location {
  const kind = member(object, "kind") ?? null;
  return {
    url: readNonEmptyText(object, "url", place),
    kind: kind === null ? null : asOneOf(kind, LOCATION_KINDS, inside(place, "kind")),
    redirects_off_host: readNullableBoolean(object, "redirects_off_host", place),
  };
}

/** A location without a kind may be the primary one. */
function checkLocations(
  locations: readonly Location[],
  at: Place,
  kind: ExpectedBuilds["kind"],
): void {
  if (kind === "archived") {
    const index = locations.findIndex((location) => location.kind === "primary");
    if (index >= 0) refuse(inside(inside(at, index), "kind"), "must not be primary in an archive");
    return;
  }
  if (!locations.some((location) => location.kind === "primary" || location.kind === null)) {
    refuse(at, "must have a location of kind primary");
  }
}

/** What the vendor publishes to check an artifact by. @see document 1, Integrity */
interface Integrity {
  readonly digests: readonly PublishedDigest[];
  readonly http: { readonly etag: string | null; readonly last_modified: string | null } | null;
  readonly signatures: readonly Signature[];
}

/** A digest, and the vendor's document that contains it. @see document 1, Digest */
export interface PublishedDigest extends Digest {
  readonly source: {
    readonly format: string;
    readonly url: string;
    readonly filename: string | null;
  } | null;
}

/** A signature that the vendor publishes. @see document 1, Signature */
export interface Signature {
  readonly kind: string;
  readonly signs: string;
  readonly url: string;
  readonly key_url: string | null;
}

function readIntegrity(object: JsonObject, place: Place): Integrity {
  return {
    digests: readOptionalList(object, "digests", place).map((item, index) => {
      const at = inside(inside(place, "digests"), index);
      return readDigest(readObject(item, at), at);
    }),
    http: readNullable(object, "http", place, (http, at) => ({
      etag: readNullableText(http, "etag", at),
      last_modified: readNullableText(http, "last_modified", at),
    })),
    signatures: readOptionalList(object, "signatures", place).map((item, index) => {
      const at = inside(inside(place, "signatures"), index);
      const signature = readObject(item, at);
      return {
        kind: readNonEmptyText(signature, "kind", at),
        signs: readText(signature, "signs", at),
        url: readText(signature, "url", at),
        key_url: readNullableText(signature, "key_url", at),
      };
    }),
  };
}

function readDigest(object: JsonObject, place: Place): PublishedDigest {
  const algorithm = asOneOf(
    member(object, "algorithm"),
    DIGEST_ALGORITHMS,
    inside(place, "algorithm"),
  );
  const value = readText(object, "value", place);
  if (!isDigestValue(algorithm, value)) {
    const wanted = `${DIGEST_DIGITS[algorithm]} digits of lower-case hex`;
    refuse(inside(place, "value"), `must be ${wanted}, found ${quote(value)}`);
  }
  const source = readNullable(object, "source", place, (from, at) => ({
    format: readNonEmptyText(from, "format", at),
    url: readText(from, "url", at),
    filename: readNullableText(from, "filename", at),
  }));
  return { algorithm, value, source };
}
