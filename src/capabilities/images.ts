// What tasks may do with the image index: find an artifact, and have it downloaded and verified.

import { parseDigest } from "../domain/digest.ts";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import {
  type ArtifactRef,
  type MediaChecks,
  parseArtifactRef,
  parseMediaRequest,
} from "../domain/machine/media.ts";
import type { DownloadOptions } from "../mirror/media/downloads.ts";
import type { FoundArtifact } from "../mirror/media/find_artifact.ts";
import type { Medium } from "../mirror/media/wanted_file.ts";
import type { Mirror } from "../mirror/mirror.ts";
import type { Call, CapabilitiesOf } from "./capability.ts";
import type { JobUuid } from "../domain/id.ts";

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
interface DownloadWishes extends MediaChecks {
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
    "kept",
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

// The media that the tasks of a job have found. A task gets a medium as an object and hands it back
// for placing, but what it hands back is not believed: only a medium that the agent itself found and
// verified for this job is placed, and as it was found. The memory is lost with the agent; finding
// the medium again is then cheap, or done in full.

/** Jobs that are remembered; the one that found something longest ago is forgotten first. */
const JOBS_MAX = 512;
/** Media that are remembered for one job. */
const MEDIA_PER_JOB_MAX = 16;

/** What tells one version of a file from another without reading it. */
interface FileVersion {
  readonly size: number;
  readonly modified_ms: number;
  readonly inode: number;
}

interface Entry {
  readonly medium: Medium;
  readonly version: FileVersion;
}

/** The media that each job has found, so that no job can place one that it only names. */
export interface FoundMedia {
  remember(job: JobUuid, request: string, medium: Medium): Promise<void>;
  /** The medium that the same request found before, while its file is the same version. */
  recall(job: JobUuid, request: string): Promise<Medium | undefined>;
  /**
   * The medium that a task hands back.
   * @throws {AgentError} `invalid_argument` when it is none, `forbidden` when this job did not find it
   */
  claim(job: JobUuid, value: JsonValue | undefined): Medium;
}

/** Opens an empty record; a restart of the agent forgets it. */
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
        const message = "Cannot place the medium: expected an object that media.find() returned";
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
