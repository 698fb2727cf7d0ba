// From a description of a file to a verified file in the cache: the cache itself, else each location
// in turn, tried again what may pass; size and every digest; decompression; and only then a name.

import { requireDigest } from "../domain/digest.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import type { Cache, CachedFile } from "./cache.ts";
import { download, type DownloadDependencies, type Downloaded } from "./download.ts";
import { gunzip } from "./gunzip.ts";
import { openPartial, type Partial, removeFile } from "./partial.ts";
import { withRetries } from "./retry.ts";
import type { Wait } from "./time_limits.ts";
import { keyOf, type WantedFile } from "./wanted_file.ts";

/** What obtaining a file works with. */
export interface ObtainDependencies extends DownloadDependencies {
  readonly cache: Cache;
  readonly wait: Wait;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** Bytes done and, where it is known, bytes in total. */
export interface Progress {
  readonly done: number;
  readonly total: number | null;
}

/**
 * The file, from the cache or from its first location that has it.
 * @throws {AgentError} `upstream`, `timeout`, `digest_mismatch`, `too_large`, `storage_full` or
 *   `aborted`; with several locations, the last failure with the words of all
 */
export async function obtainFile(
  deps: ObtainDependencies,
  wanted: WantedFile,
  signal: AbortSignal,
  report: (progress: Progress) => void,
): Promise<CachedFile> {
  const key = keyOf(wanted);
  const partial = openPartial(deps.cache.partialFolder, key);
  const failures: AgentError[] = [];
  for (const url of wanted.urls) {
    try {
      const downloaded = await fromLocation(deps, wanted, url, partial, signal, report);
      const kept = await finish(deps, wanted, key, partial, downloaded, signal, report);
      await partial.remove();
      return kept;
    } catch (error) {
      const final = !(error instanceof AgentError) || signal.aborted ||
        error.code === "storage_full";
      if (final) throw error;
      failures.push(error);
    }
  }
  throw allFailed(wanted, failures);
}

function allFailed(wanted: WantedFile, failures: readonly AgentError[]): AgentError {
  const last = failures.at(-1);
  if (last === undefined) {
    return new AgentError("not_found", `Cannot download ${wanted.label}: it has no location`);
  }
  if (failures.length === 1) return last;
  const words = failures.map(messageOf).join("; ");
  const message = `Cannot download ${wanted.label}: all ${failures.length} locations failed: `;
  return new AgentError(last.code, message + words, { cause: last });
}

/** Downloads and judges; a file that went on from an earlier try gets a second chance from zero. */
async function fromLocation(
  deps: ObtainDependencies,
  { digests, size, label }: WantedFile,
  url: string,
  partial: Partial,
  signal: AbortSignal,
  report: (progress: Progress) => void,
): Promise<Downloaded> {
  const onProgress = (done: number, total: number | null) => report({ done, total });
  const request = { url, partial, size, label, signal, onProgress };
  const once = () => withRetries(() => download(deps, request), { ...deps, signal });
  const judge = async (file: Downloaded) => {
    try {
      for (const digest of digests) requireDigest(`${label} from ${url}`, file.hashes, digest);
    } catch (error) {
      // Wrong bytes are of no use to any later try.
      await partial.remove();
      throw error;
    }
    return file;
  };
  const first = await once();
  try {
    return await judge(first);
  } catch (error) {
    if (!first.resumed) throw error;
    return await judge(await once());
  }
}

async function finish(
  deps: ObtainDependencies,
  wanted: WantedFile,
  key: string,
  partial: Partial,
  downloaded: Downloaded,
  signal: AbortSignal,
  report: (progress: Progress) => void,
): Promise<CachedFile> {
  const { cache, freeBytes } = deps;
  const { name, label } = wanted;
  if (wanted.compression === "none") {
    const { size, hashes } = downloaded;
    const file = { name, size, sha256: hashes.sha256, downloaded: hashes };
    return await cache.keep(key, partial.path, file);
  }
  try {
    const { size, hashes } = await gunzip({
      from: partial.path,
      to: partial.outputPath,
      freeBytes,
      label,
      signal,
      onProgress: (done, total) => report({ done, total }),
    });
    const file = { name, size, sha256: hashes.sha256, downloaded: downloaded.hashes };
    return await cache.keep(key, partial.outputPath, file);
  } catch (error) {
    await removeFile(partial.outputPath);
    throw error;
  }
}
