// The image index for tasks: find an artifact, download and verify it, and the media that each job's tasks have found.

import { parseDigest } from "../domain/digest.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import {
  canonicalJson,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  kindOf,
} from "../domain/json.ts";
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
import type { JobUuid } from "../domain/id.ts";

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

/** Jobs remembered; the oldest find is forgotten first. */
const JOBS_MAX = 512;
const MEDIA_PER_JOB_MAX = 16;

/** Distinguishes versions of a file without reading it. */
interface FileVersion {
  readonly size: number;
  readonly modified_ms: number;
  readonly inode: number;
}

interface Entry {
  readonly medium: Medium;
  readonly version: FileVersion;
}

/**
 * The media found by each job's tasks. A task passes a medium back for placing, but that object is not trusted: only a
 * medium that the agent found and verified for this job is placed, exactly as found.
 */
export interface FoundMedia {
  remember(job: JobUuid, request: string, medium: Medium): Promise<void>;
  /** The medium found by the same request before, while its file is unchanged. */
  recall(job: JobUuid, request: string): Promise<Medium | undefined>;
  /**
   * The found medium that a task passes back.
   * @throws {AgentError} `invalid_argument` when it is not a medium, `forbidden` when this job did
   *   not find it
   */
  claim(job: JobUuid, value: JsonValue | undefined): Medium;
}

/** A restart of the agent forgets the record; finding a medium again is then cheap, or done in full. */
export function openFoundMedia(): FoundMedia {
  const jobs = new Map<JobUuid, Map<string, Entry>>();
  return {
    async remember(job, request, medium) {
      const version = await fileVersion(medium.path);
      if (version === undefined) return;
      const found = jobs.get(job) ?? new Map<string, Entry>();
      found.delete(request);
      found.set(request, { medium, version });
      dropOldest(found, MEDIA_PER_JOB_MAX);
      jobs.delete(job);
      jobs.set(job, found);
      dropOldest(jobs, JOBS_MAX);
    },
    async recall(job, request) {
      const entry = jobs.get(job)?.get(request);
      if (entry === undefined) return undefined;
      const version = await fileVersion(entry.medium.path);
      return sameVersion(entry.version, version) ? entry.medium : undefined;
    },
    claim(job, value) {
      if (!isJsonObject(value) || typeof value.path !== "string") {
        const message =
          `Cannot place the medium: it is ${kindOf(value)}: expected an object that ` +
          "media.find() returned";
        throw invalidArgument("medium", message);
      }
      const entries = [...jobs.get(job)?.values() ?? []];
      const entry = entries.find(({ medium }) =>
        medium.path === value.path && medium.sha256 === value.sha256
      );
      if (entry === undefined) {
        const name = JSON.stringify(typeof value.name === "string" ? value.name.slice(0, 128) : "");
        const message = `Cannot place medium ${name}: media.find() did not return it to this job`;
        throw new AgentError("forbidden", message);
      }
      return entry.medium;
    },
  };
}

function dropOldest<K, V>(map: Map<K, V>, sizeMax: number): void {
  for (const key of map.keys()) {
    if (map.size <= sizeMax) return;
    map.delete(key);
  }
}

async function fileVersion(path: string): Promise<FileVersion | undefined> {
  try {
    const { size, mtime, ino } = await Deno.lstat(path);
    return { size, modified_ms: mtime?.getTime() ?? 0, inode: ino ?? 0 };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function sameVersion(before: FileVersion, now: FileVersion | undefined): boolean {
  return now !== undefined && now.size === before.size && now.inode === before.inode &&
    now.modified_ms === before.modified_ms;
}
