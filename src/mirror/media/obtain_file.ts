// From a description of a file to a verified file in the cache. A cached file is used; otherwise each
// location is tried in turn. The file gets its name only after its size, digests and decompression are
// checked.

import { type CheckLevel, requireDigest } from "../../domain/digest.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { Decoders } from "../../decoder/pool.ts";
import type { Cache, CachedFile } from "./cache.ts";
import { download, type DownloadDependencies, type Downloaded } from "./download.ts";
import type { FirstBytes } from "./file_format.ts";
import { openPartial, type Partial, removeFile } from "./partial.ts";
import { withRetries } from "../web/retry.ts";
import { abortReason, type Wait } from "../web/time_limits.ts";
import type { WantedFile } from "./wanted_file.ts";
import { shown } from "../web/request.ts";
import { dirname } from "@std/path";
import { whileOpen } from "../../runtime/run.ts";
import type { PackedAs } from "../../domain/machine/media.ts";
import { type FreeBytes, openFileWriter } from "./disk.ts";
import { PART_BYTES, sha256In } from "./hash.ts";

/** This many new bytes reset the count of attempts: a large download may be cut many times. */
const ADVANCE_BYTES = 1024 * 1024;

/** What is needed to download a file, decompress it and keep it. */
export interface ObtainDependencies extends DownloadDependencies {
  readonly cache: Cache;
  readonly decoders: Decoders;
  readonly wait: Wait;
  /** A number from 0 up to, not including, 1. */
  readonly random: () => number;
}

/** Bytes done and, where known, total bytes. */
export interface ObtainProgress {
  readonly phase: "download" | "decompress";
  readonly done: number;
  readonly total: number | null;
}

interface Obtaining {
  readonly signal: AbortSignal;
  readonly report: (progress: ObtainProgress) => void;
  /** Called for each location with the first bytes of the file, before that progress is reported. */
  readonly onFirstBytes: (first: FirstBytes) => void;
  /** Checks the complete download besides its digests; throws to reject it. */
  readonly vet?: (path: string, signal: AbortSignal) => Promise<void>;
  /** The level recorded with the file. */
  readonly level: CheckLevel;
}

/**
 * Obtains the file from the first location that has it.
 * @throws {AgentError} `upstream`, `timeout`, `digest_mismatch`, `too_large`, `storage_full` or
 *   `aborted`; with several locations, the last failure with the messages of all
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
        const downloaded = await fromLocation(
          deps,
          wanted,
          url,
          partial,
          obtaining,
          url === wanted.urls.at(-1),
        );
        reserved[Symbol.dispose]();
        const kept = await finish(deps, wanted, partial, downloaded, obtaining);
        await partial.remove();
        return kept;
      } catch (error) {
        const final = !(error instanceof AgentError) || obtaining.signal.aborted;
        if (final) throw error;
        if (error.code === "storage_full") {
          // Free space matters more than a partial download.
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

/** Downloads and checks. A resumed file that fails is tried once more from zero. */
async function fromLocation(
  deps: ObtainDependencies,
  { digests, size, label, compression }: WantedFile,
  url: string,
  partial: Partial,
  { signal, report, vet, onFirstBytes }: Obtaining,
  last: boolean,
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
  // The first bytes of a compressed file do not reveal its format.
  const onHead = (head: Uint8Array) => {
    if (compression === "none") onFirstBytes({ head, last });
  };
  const how = { compression, algorithms, resumable, label, signal, onProgress, onHead };
  const request = { url, partial, size, ...how };
  const once = () => withRetries(() => download(deps, request), { ...deps, signal, advanced });
  const judge = async (file: Downloaded) => {
    try {
      for (const digest of digests) {
        requireDigest(`${label} from ${shown(url)}`, file.hashes, digest);
      }
      await vet?.(partial.path, signal);
    } catch (error) {
      // Wrong bytes are useless to a later attempt.
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

const DECOMPRESSED_BYTES_MAX = 64 * 1024 ** 3;
/** Largest compression ratio: gzip packs an empty disk 1000 : 1. */
const RATIO_MAX = 1_000;
/** Unpacked size up to which the ratio does not matter, bytes. */
const RATIO_FREE_BYTES = 256 * 1024 ** 2;

interface DecompressRequest {
  readonly compression: PackedAs;
  readonly from: string;
  readonly to: string;
  readonly freeBytes: FreeBytes;
  readonly label: string;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: null) => void;
  /** Largest result in bytes, if less than {@linkcode DECOMPRESSED_BYTES_MAX}. */
  readonly bytesMax?: number;
}

/**
 * Decompresses one verified file into another, which is on the disk when this returns. A decoder
 * does the work; it is killed when it is canceled. Size and compression ratio are limited: a few
 * kilobytes could otherwise fill the disk.
 * @throws {AgentError} `upstream` for a damaged file, or one that makes no progress; `too_large`,
 * `storage_full` or `aborted`
 */
export async function decompress(
  decoders: Decoders,
  request: DecompressRequest,
): Promise<{ sha256: string; size: number }> {
  const { compression, from, to, freeBytes, label, signal, onProgress } = request;
  const what = `decompress ${label}`;
  const { size: packed } = await Deno.stat(from);
  const byRatio = Math.max(packed * RATIO_MAX, RATIO_FREE_BYTES);
  const bytesMax = Math.min(request.bytesMax ?? DECOMPRESSED_BYTES_MAX, byRatio);
  const options = { path: to, bytesMax, folder: dirname(to), freeBytes, what };
  return await whileOpen(await openFileWriter(options), async (file) => {
    try {
      const work = { compression, what };
      const unpacked = decoders.stream("unpack", work, partsOf(from, signal), {
        what,
        signal,
        ahead: true,
      });
      for await (const part of unpacked.output) {
        await file.write(part);
        onProgress(file.size, null);
      }
      await file.sync();
      return { size: file.size, sha256: sha256In(await unpacked.answer) };
    } catch (error) {
      if (signal.aborted) throw abortReason(what, signal);
      throw error;
    }
  });
}

/** Reads a file in parts; each is valid until the next one. */
async function* partsOf(path: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const file = await Deno.open(path, { read: true });
  const buffer = new Uint8Array(PART_BYTES);
  try {
    // Ends with the file: read() returns null.
    for (;;) {
      signal.throwIfAborted();
      const count = await file.read(buffer);
      if (count === null) return;
      yield buffer.subarray(0, count);
    }
  } finally {
    file.close();
  }
}
