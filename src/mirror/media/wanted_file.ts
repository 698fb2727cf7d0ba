// What exactly is to be downloaded, whether it is named by the index or by an address.

import type { Artifact, PublishedDigest, Signature } from "../../domain/index/artifact.ts";
import { type Digest, digestText, sha256Hex } from "../../domain/digest.ts";
import { AgentError, invalidArgument } from "../../domain/error.ts";
import { quote } from "../../domain/index/index_document.ts";
import {
  MEDIA_COMPRESSIONS,
  type MediaCompression,
  safeMediaName,
  unpackedName,
} from "../../domain/machine/media.ts";
import type { FoundArtifact } from "./find_artifact.ts";
import { parseRemote } from "../web/public_address.ts";
import { shown } from "../web/request.ts";
import type { CheckLevel } from "../../domain/index/check_level.ts";

/** A file as it is wanted. */
export interface WantedFile {
  readonly source: "artifact" | "url";
  /** Whose keys may sign it; null for a file of an address. */
  readonly distro: string | null;
  /** Two wishes with the same key are for the same bytes; a safe file name. */
  readonly key: string;
  /** In the order in which they are tried. */
  readonly urls: readonly string[];
  /** All of them must fit the file as downloaded; none when nobody tells any. */
  readonly digests: readonly Digest[];
  /** Those of the index, with where the vendor publishes them. */
  readonly published: readonly PublishedDigest[];
  readonly signatures: readonly Signature[];
  /** Bytes as downloaded, where that is known. */
  readonly size: number | null;
  readonly compression: MediaCompression;
  /** Safe file name. */
  readonly name: string;
  /** For people and errors. */
  readonly label: string;
}

/** What a caller says of a file that it names by its address. */
interface UrlWish {
  readonly url: string;
  readonly digests: readonly Digest[];
  readonly compression: MediaCompression;
}

/**
 * The file of an address.
 * @throws {AgentError} `upstream` for an address that may not be asked
 */
export async function wantedUrl(
  { url, digests, compression }: UrlWish,
  allowHttp: boolean,
): Promise<WantedFile> {
  const { href, pathname } = parseRemote(url, { allowHttp });
  const [digest] = digests;
  return {
    source: "url",
    distro: null,
    key: digest === undefined
      ? `url-${await sha256Hex(new TextEncoder().encode(href))}`
      : keyOf(digests, digest, compression),
    urls: [href],
    digests: consistent(shown(href), digests),
    published: [],
    signatures: [],
    size: null,
    compression,
    name: safeMediaName(unpackedName(pathname, compression)),
    label: shown(href),
  };
}

/**
 * The file of an artifact.
 * @param bare whether it may have no digest
 * @throws {AgentError} `invalid_argument` without a digest, or for a compression that is not known
 */
export async function wantedArtifact(
  found: FoundArtifact,
  given: Digest | undefined,
  bare = false,
): Promise<WantedFile> {
  const { artifact, name, label } = found;
  const published = artifact.integrity?.digests ?? [];
  const digests = given === undefined ? published : [...published, given];
  const [first] = digests;
  if (first === undefined && !bare) {
    const message = `Cannot download ${label}: the index has no digest of it, and none was given`;
    throw invalidArgument("digest", message, "Missing");
  }
  const compression = MEDIA_COMPRESSIONS.find((known) => known === artifact.compression);
  if (compression === undefined) {
    const message = `Cannot download ${label}: its compression is ` +
      `${quote(artifact.compression)}, expected one of ${MEDIA_COMPRESSIONS.join(", ")}`;
    throw new AgentError("invalid_argument", message);
  }
  const urls = orderedUrls(artifact);
  return {
    source: "artifact",
    distro: found.distro,
    key: first === undefined
      ? `url-${await sha256Hex(new TextEncoder().encode(urls.join("\n")))}`
      : keyOf(digests, first, compression),
    urls,
    digests: consistent(label, digests),
    published,
    signatures: artifact.integrity?.signatures ?? [],
    size: artifact.size,
    compression,
    name,
    label,
  };
}

function keyOf(
  digests: readonly Digest[],
  first: Digest,
  compression: MediaCompression,
): string {
  const digest = digests.find((one) => one.algorithm === "sha256") ?? first;
  const unpacked = compression === "none" ? "" : `-un${compression}`;
  return `${digest.algorithm}-${digest.value}${unpacked}`;
}

/** @throws {AgentError} `digest_mismatch` for two values of one algorithm */
function consistent(label: string, digests: readonly Digest[]): readonly Digest[] {
  for (const one of digests) {
    const contrary = digests.find((other) =>
      other.algorithm === one.algorithm && other.value !== one.value
    );
    if (contrary === undefined) continue;
    const message = `Cannot download ${label}: it cannot have both ${digestText(one)} and ` +
      digestText(contrary);
    throw new AgentError("digest_mismatch", message);
  }
  return digests;
}

/** The vendor's own server first, then the others in the order of the index. */
function orderedUrls(artifact: Artifact): string[] {
  const { locations } = artifact;
  const primary = locations.filter((location) => location.kind === "primary");
  const others = locations.filter((location) => location.kind !== "primary");
  return [...primary, ...others].map((location) => location.url);
}

// What the mirror hands out: a file that was verified and may be placed.

/** A verified local file. */
export interface Medium {
  readonly source: "path" | "artifact" | "url";
  readonly path: string;
  /** Safe file name, the one to place it under; the path may end otherwise. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  /** Lower-case hex, of the file as it is used. */
  readonly sha256: string;
  readonly label: string;
  /** How much was done to make sure that it is the vendor's. */
  readonly level: CheckLevel;
}
