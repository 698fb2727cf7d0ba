// A file to download, described alike whether it comes from the index or from a URL, and the verified file that it
// becomes.

import { type CheckLevel, type Digest, digestText, sha256Hex } from "../../domain/digest.ts";
import { AgentError, invalidArgument } from "../../domain/error.ts";
import type { Artifact, PublishedDigest, Signature } from "../../domain/index/artifact.ts";
import { quote } from "../../domain/index/index_document.ts";
import {
  MEDIA_COMPRESSIONS,
  type MediaCompression,
  safeMediaName,
  unpackedName,
} from "../../domain/machine/media.ts";
import { parseRemote } from "../web/allowed_hosts.ts";
import { shown } from "../web/request.ts";
import type { FoundArtifact } from "./find_artifact.ts";

/** A file to download: its locations in order, and what its bytes must be. */
export interface WantedFile {
  readonly source: "artifact" | "url";
  /** The distro whose keys may sign it; null for a file of an address. */
  readonly distro: string | null;
  /** Equal for requests of the same bytes; safe as a file name. */
  readonly key: string;
  /** In the order in which they are tried. */
  readonly urls: readonly string[];
  /** All must match the file as downloaded; empty when none is known. */
  readonly digests: readonly Digest[];
  /** Digests of the index, with their vendor's documents. */
  readonly published: readonly PublishedDigest[];
  readonly signatures: readonly Signature[];
  /** Bytes as downloaded, where known. */
  readonly size: number | null;
  readonly compression: MediaCompression;
  /** A name without a path, which is safe as a file name. */
  readonly name: string;
  /** Name for people and errors. */
  readonly label: string;
}

/** A file on this machine whose digest was checked. */
export interface Medium {
  readonly source: "path" | "artifact" | "url";
  readonly path: string;
  /** The safe file name to place it under; its path may end in a different one. */
  readonly name: string;
  /** Size of the file, bytes. */
  readonly size: number;
  /** Lower-case hex, of the file as it is used. */
  readonly sha256: string;
  readonly label: string;
  /** How far its origin was verified. */
  readonly level: CheckLevel;
}

interface UrlRequest {
  readonly url: string;
  readonly digests: readonly Digest[];
  readonly compression: MediaCompression;
}

/**
 * Describes the file of a URL.
 * @throws {AgentError} `upstream` for a URL that may not be fetched
 */
export async function wantedUrl(
  { url, digests, compression }: UrlRequest,
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
 * Describes the file of an artifact.
 * @param bare whether a missing digest is allowed
 * @throws {AgentError} `invalid_argument` without a digest or for an unknown compression
 */
export async function wantedArtifact(
  found: FoundArtifact,
  given: Digest | undefined,
  bare: boolean | undefined,
): Promise<WantedFile> {
  const { artifact, name, label } = found;
  const published = artifact.integrity?.digests ?? [];
  const digests = given === undefined ? published : [...published, given];
  const [first] = digests;
  if (first === undefined && bare !== true) {
    const message =
      `Cannot download ${label}: the index has no digest for it, expected one in the request`;
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

/** The vendor's own server first, then the others in index order. */
function orderedUrls(artifact: Artifact): string[] {
  const { locations } = artifact;
  const primary = locations.filter((location) => location.kind === "primary");
  const others = locations.filter((location) => location.kind !== "primary");
  return [...primary, ...others].map((location) => location.url);
}
