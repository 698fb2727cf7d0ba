// What exactly is to be downloaded, whether it is named by the index or by an address.

import type { Artifact } from "../domain/artifact.ts";
import { type Digest, digestText } from "../domain/digest.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { quote } from "../domain/index_document.ts";
import { safeMediaName } from "../domain/media.ts";
import type { FoundArtifact } from "./find_artifact.ts";
import { parseRemote } from "./public_address.ts";
import { shown } from "./web_request.ts";

/** Compressions that can be undone. */
const COMPRESSIONS = ["none", "gzip"] as const;

/** A file as it is wanted. */
export interface WantedFile {
  /** In the order in which they are tried. */
  readonly urls: readonly string[];
  /** All of them must fit the file as downloaded; there is at least one. */
  readonly digests: readonly [Digest, ...Digest[]];
  /** Bytes as downloaded, where that is known. */
  readonly size: number | null;
  readonly compression: typeof COMPRESSIONS[number];
  /** Safe file name. */
  readonly name: string;
  /** For people and errors. */
  readonly label: string;
}

/** Names a wanted file: two requests with the same key want the same bytes. */
export function keyOf(wanted: WantedFile): string {
  const [first] = wanted.digests;
  const digest = wanted.digests.find((one) => one.algorithm === "sha256") ?? first;
  return `${digest.algorithm}-${digest.value}${wanted.compression === "gzip" ? "-gunzip" : ""}`;
}

/**
 * The file of an address, as it is.
 * @throws {AgentError} `upstream` for an address that may not be asked
 */
export function wantedUrl(
  url: string,
  digest: Digest,
  given: Digest | undefined,
  allowHttp: boolean,
): WantedFile {
  const { href, pathname } = parseRemote(url, { allowHttp });
  return {
    urls: [href],
    digests: given === undefined ? [digest] : [digest, given],
    size: null,
    compression: "none",
    name: safeMediaName(pathname),
    label: shown(href),
  };
}

/**
 * The file of an artifact.
 * @throws {AgentError} `invalid_argument` without a digest, or for a compression that is not known
 */
export function wantedArtifact(found: FoundArtifact, given: Digest | undefined): WantedFile {
  const { artifact, name, label } = found;
  const listed = artifact.integrity?.digests ?? [];
  const [first, ...rest] = given === undefined ? listed : [...listed, given];
  if (first === undefined) {
    const message = `Cannot download ${label}: the index has no digest of it, and none was given`;
    throw invalidArgument("digest", message, "Missing");
  }
  const contrary = rest.find((digest) =>
    digest.algorithm === first.algorithm && digest.value !== first.value
  );
  if (contrary !== undefined) {
    const message = `Cannot download ${label}: it cannot have both ${digestText(first)} and ` +
      digestText(contrary);
    throw new AgentError("digest_mismatch", message);
  }
  const compression = COMPRESSIONS.find((known) => known === artifact.compression);
  if (compression === undefined) {
    const message = `Cannot download ${label}: its compression is ` +
      `${quote(artifact.compression)}, expected ${COMPRESSIONS.join(" or ")}`;
    throw new AgentError("invalid_argument", message);
  }
  return {
    urls: orderedUrls(artifact),
    digests: [first, ...rest],
    size: artifact.size,
    compression,
    name,
    label,
  };
}

/** The vendor's own server first, then the others in the order of the index. */
function orderedUrls(artifact: Artifact): string[] {
  const { locations } = artifact;
  const primary = locations.filter((location) => location.kind === "primary");
  const others = locations.filter((location) => location.kind !== "primary");
  return [...primary, ...others].map((location) => location.url);
}
