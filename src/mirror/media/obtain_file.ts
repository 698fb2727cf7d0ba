// From a description of a file to a verified file in the cache: the cache itself, else each location
// in turn, tried again what may pass; size and every digest; decompression; and only then a name.

import type { CheckLevel } from "../../domain/index/check_level.ts";
import { requireDigest } from "../../domain/digest.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { Decoders } from "../../decoder/pool.ts";
import type { Cache, CachedFile } from "./cache.ts";
import { download, type DownloadDependencies, type Downloaded } from "./download.ts";
import { decompress } from "./decompress.ts";
import { openPartial, type Partial, removeFile } from "./partial.ts";
import { withRetries } from "../web/retry.ts";
import type { Wait } from "../web/time_limits.ts";
import type { WantedFile } from "./wanted_file.ts";
import { shown } from "../web/request.ts";

/** New bytes by which a try that was cut counts as the first: a large file may be cut many times. */
const ADVANCE_BYTES = 1024 * 1024;

/** What obtaining a file works with. */
export interface ObtainDependencies extends DownloadDependencies {
  readonly cache: Cache;
  readonly decoders: Decoders;
  readonly wait: Wait;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** How far it is: bytes done and, where it is known, bytes in total. */
export interface Progress {
  readonly phase: "download" | "decompress";
  readonly done: number;
  readonly total: number | null;
}

/** How a file is obtained. */
export interface Obtaining {
  readonly signal: AbortSignal;
  readonly report: (progress: Progress) => void;
  /** Judges the whole file as downloaded, besides its digests; throws when it is not good. */
  readonly vet?: (path: string, signal: AbortSignal) => Promise<void>;
  /** The level that the file has when it is kept. */
  readonly level: CheckLevel;
}

/**
 * The file, from its first location that has it.
 * @throws {AgentError} `upstream`, `timeout`, `digest_mismatch`, `too_large`, `storage_full` or
 *   `aborted`; with several locations, the last failure with the words of all
 */
export async function obtainFile(
  deps: ObtainDependencies,
  wanted: WantedFile,
  obtaining: Obtaining,
): Promise<CachedFile> {
  const { cache } = deps;
  const partial = openPartial(cache.partialFolder, wanted.key);
  const failures: AgentError[] = [];
  const what = `download ${wanted.label}`;
  const reserved = await cache.reserve(wanted.size ?? 0, what);
  try {
    for (const url of wanted.urls) {
      try {
        const downloaded = await fromLocation(deps, wanted, url, partial, obtaining);
        reserved[Symbol.dispose]();
        const kept = await finish(deps, wanted, partial, downloaded, obtaining);
        await partial.remove();
        return kept;
      } catch (error) {
        const final = !(error instanceof AgentError) || obtaining.signal.aborted;
        if (final) throw error;
        if (error.code === "storage_full") {
          // What takes the last bytes of the disk is of less use than they are.
          await partial.remove();
          throw error;
        }
        failures.push(error);
      }
    }
    throw allFailed(wanted, failures);
  } finally {
    reserved[Symbol.dispose]();
  }
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
  { digests, size, label, compression }: WantedFile,
  url: string,
  partial: Partial,
  { signal, report, vet }: Obtaining,
): Promise<Downloaded> {
  let furthest = 0;
  let counted = 0;
  const onProgress = (done: number, total: number | null) => {
    furthest = Math.max(furthest, done);
    report({ phase: "download", done, total });
  };
  const advanced = () => {
    const enough = furthest - counted >= ADVANCE_BYTES;
    if (enough) counted = furthest;
    return enough;
  };
  const resumable = digests.length > 0;
  const algorithms = digests.map(({ algorithm }) => algorithm);
  const how = { compression, algorithms, resumable, label, signal, onProgress };
  const request = { url, partial, size, ...how };
  const once = () => withRetries(() => download(deps, request), { ...deps, signal, advanced });
  const judge = async (file: Downloaded) => {
    try {
      for (const digest of digests) {
        requireDigest(`${label} from ${shown(url)}`, file.hashes, digest);
      }
      await vet?.(partial.path, signal);
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
  partial: Partial,
  downloaded: Downloaded,
  { signal, report, level }: Obtaining,
): Promise<CachedFile> {
  const { cache, freeBytes } = deps;
  const { compression, label } = wanted;
  const kept = async (from: string, size: number, sha256: string) => {
    const room = await cache.reserve(size, `keep ${label}`);
    try {
      return await cache.keep(wanted, {
        from,
        size,
        sha256,
        level,
        downloaded: downloaded.hashes,
      });
    } finally {
      room[Symbol.dispose]();
    }
  };
  if (compression === "none") {
    return await kept(partial.path, downloaded.size, downloaded.hashes.sha256);
  }
  try {
    const { size, sha256 } = await decompress(deps.decoders, {
      compression,
      from: partial.path,
      to: partial.outputPath,
      freeBytes,
      label,
      signal,
      onProgress: (done, total) => report({ phase: "decompress", done, total }),
    });
    return await kept(partial.outputPath, size, sha256);
  } catch (error) {
    await removeFile(partial.outputPath);
    throw error;
  }
}
