// The media that the tasks of each job have found. A task passes a medium back for placing, but that object is not
// trusted: only a medium that the agent found and verified for this job is placed, exactly as found.

import { AgentError, invalidArgument } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import { isJsonObject, type JsonValue, kindOf } from "../domain/json.ts";
import type { Medium } from "../mirror/media/wanted_file.ts";

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

/** The media found by each job's tasks. */
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
          `Cannot place the medium: it is ${kindOf(value)}, expected an object that ` +
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
