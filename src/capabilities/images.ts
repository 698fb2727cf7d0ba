// What tasks may do with the image index: find an artifact, and have it downloaded and verified.

import { parseDigest } from "../domain/digest.ts";
import { AgentError } from "../domain/error.ts";
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  type ArtifactRef,
  type MediaChecks,
  parseArtifactRef,
  parseMediaRequest,
} from "../domain/machine/media.ts";
import type { DownloadOptions } from "../mirror/media/downloads.ts";
import type { FoundArtifact } from "../mirror/media/find_artifact.ts";
import type { Medium } from "../mirror/media/medium.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import type { FoundMedia } from "./found_media.ts";

const FIND_DEADLINE_MS = 60_000;
/** A download has no largest time of its own, only a least speed. */
const DOWNLOAD_DEADLINE_MS = 12 * 3_600_000;

/** The capabilities `images.*`. */
export function imagesCapabilities(mirror: Mirror, found: FoundMedia): CapabilitiesOf<"images"> {
  return {
    "images.find": {
      deadlineMs: FIND_DEADLINE_MS,
      perform: async (_call, [ref]) =>
        artifactJson(await mirror.findArtifact(parseArtifactRef(ref))),
    },
    "images.download": {
      deadlineMs: DOWNLOAD_DEADLINE_MS,
      async perform(call, [value]) {
        const { ref, wishes } = parseDownload(value);
        const artifact = await mirror.findArtifact(ref);
        const medium = await downloadArtifact(mirror, artifact, call, wishes);
        await found.remember(call.job_uuid, canonicalJson(value ?? null), medium);
        return mediumJson(medium);
      },
    },
  };
}

/** What a request says of a download besides which file it means. */
export interface DownloadWishes extends MediaChecks {
  readonly digest?: string;
}

/** An artifact, and beside what names it, how it is checked. @throws {AgentError} `invalid_argument` */
function parseDownload(
  value: JsonValue | undefined,
): { ref: ArtifactRef; wishes: DownloadWishes } {
  if (!isJsonObject(value)) return { ref: parseArtifactRef(value), wishes: {} };
  const { digest, check, allow_unverified, ...ref } = value;
  const media = parseMediaRequest(
    {
      artifact: ref,
      ...(digest === undefined ? {} : { digest }),
      ...(check === undefined ? {} : { check }),
      ...(allow_unverified === undefined ? {} : { allow_unverified }),
    },
    "",
    true,
  );
  if (!("artifact" in media)) throw new AgentError("internal", "Cannot read the artifact");
  const { artifact, ...wishes } = media;
  return { ref: artifact, wishes };
}

/** Downloads an artifact for a task that is told how far it is. */
export async function downloadArtifact(
  mirror: Mirror,
  artifact: FoundArtifact,
  call: Call,
  wishes: DownloadWishes = {},
): Promise<Medium> {
  return await mirror.download(artifact, downloadOptions(call, wishes));
}

/** How the mirror downloads for a task: with its checks, its progress, and in use by its job. */
export function downloadOptions(
  { signal, progress, job_uuid }: Call,
  { digest, check, allow_unverified }: DownloadWishes,
): DownloadOptions {
  return {
    signal,
    job: job_uuid,
    onProgress: (done, total, phase) => progress(phase, done, total),
    ...(digest === undefined ? {} : { digest: parseDigest(digest, "digest") }),
    ...(check === undefined ? {} : { check }),
    ...(allow_unverified === undefined ? {} : { allowUnverified: allow_unverified }),
  };
}

/** A medium as tasks see it. */
export function mediumJson(medium: Medium): JsonObject {
  const { source, path, name, size, sha256, label, level } = medium;
  return { source, path, name, size, sha256, label, level };
}

/** What the index says of an artifact, and where it was found. */
function artifactJson(found: FoundArtifact): JsonValue {
  // It was parsed from JSON and holds nothing else; the round trip takes the readonly types off.
  return JSON.parse(JSON.stringify(found)) as JsonValue;
}
