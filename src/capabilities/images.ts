// The image index for tasks: find an artifact, download and verify it.

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
import type { Medium } from "../mirror/media/wanted_file.ts";
import type { FoundArtifact } from "../mirror/media/find_artifact.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import type { FoundMedia } from "./found_media.ts";

const FIND_DEADLINE_MS = 60_000;
/** A download has a minimum speed instead of a time limit. */
const DOWNLOAD_DEADLINE_MS = 12 * 3_600_000;

/** What tasks may do with the image index. Media of a job are remembered in `found`. */
export function imagesCapabilities(mirror: Mirror, found: FoundMedia): CapabilitiesOf<"images"> {
  return {
    "images.find": {
      deadlineMs: FIND_DEADLINE_MS,
      perform: async ({ signal }, [ref]) =>
        artifactJson(await mirror.findArtifact(parseArtifactRef(ref), { signal, ahead: true })),
    },
    "images.download": {
      deadlineMs: DOWNLOAD_DEADLINE_MS,
      async perform(call, [value]) {
        const { ref, options } = parseDownload(value);
        const { signal } = call;
        const artifact = await mirror.findArtifact(ref, { signal, ahead: true });
        const medium = await downloadArtifact(mirror, artifact, call, options);
        await found.remember(call.job_uuid, canonicalJson(value ?? null), medium);
        return mediumJson(medium);
      },
    },
  };
}

/** How a download is checked, besides the file that a task names. */
interface DownloadRequestOptions extends MediaChecks {
  readonly digest?: string;
}

/**
 * Separates the reference to an artifact from the checks. @throws {AgentError} `invalid_argument`
 */
function parseDownload(
  value: JsonValue | undefined,
): { ref: ArtifactRef; options: DownloadRequestOptions } {
  if (!isJsonObject(value)) return { ref: parseArtifactRef(value), options: {} };
  const { digest, check, allow_unverified, ...ref } = value;
  const media = parseMediaRequest(
    {
      artifact: ref,
      ...(digest === undefined ? {} : { digest }),
      ...(check === undefined ? {} : { check }),
      ...(allow_unverified === undefined ? {} : { allow_unverified }),
    },
    "",
    "kept",
  );
  if (!("artifact" in media)) {
    const found = Object.keys(media).join(", ");
    throw new AgentError(
      "internal",
      `Cannot read the artifact: found ${found}, expected "artifact"`,
    );
  }
  const { artifact, ...options } = media;
  return { ref: artifact, options };
}

/** Downloads an artifact for a task, with progress reports. */
async function downloadArtifact(
  mirror: Mirror,
  artifact: FoundArtifact,
  call: Call,
  options: DownloadRequestOptions,
): Promise<Medium> {
  return await mirror.download(artifact, downloadOptions(call, options));
}

/**
 * Download options of a task: its checks, its progress reports, and its job as a user of the file.
 * @throws {AgentError} `invalid_argument` for a text that is not a digest
 */
export function downloadOptions(
  { signal, progress, job_uuid }: Call,
  { digest, check, allow_unverified }: DownloadRequestOptions,
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

/** The part of a medium that tasks see. */
export function mediumJson(medium: Medium): JsonObject {
  const { source, path, name, size, sha256, label, level } = medium;
  return { source, path, name, size, sha256, label, level };
}

/** An artifact of the index as tasks see it, with the place where it was found. */
function artifactJson(found: FoundArtifact): JsonValue {
  // It was parsed from JSON; the round trip only removes the readonly types.
  return JSON.parse(JSON.stringify(found)) as JsonValue;
}
