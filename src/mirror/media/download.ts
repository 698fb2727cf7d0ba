// Downloads one address into one unfinished file, resuming where an earlier attempt stopped. It hashes the
// bytes; the caller decides whether the complete file is good.

import { dirname } from "@std/path";
import type { DigestAlgorithm } from "../../domain/digest.ts";
import { AgentError } from "../../domain/error.ts";
import type { MediaCompression } from "../../domain/machine/media.ts";
import { type FreeBytes, openFileWriter, requireRoom } from "./disk.ts";
import { HEAD_BYTES, headOf } from "./file_format.ts";
import { type Hasher, type Hashes, type Hashing, hashInto } from "./hash.ts";
import { type Partial, rangeValidator } from "./partial.ts";
import { transientError } from "../web/retry.ts";
import {
  type Deadline,
  openDeadline,
  STALL_BYTES,
  type TimeLimits,
  type Wait,
} from "../web/time_limits.ts";
import { ask, failure, shown, type Web } from "../web/request.ts";
import { whileOpen } from "../../runtime/run.ts";

/** Largest download, bytes as received. */
const DOWNLOAD_BYTES_MAX = 64 * 1024 ** 3;

/** What downloads share: the network, its limits and the room on the disk. */
export interface DownloadDependencies {
  readonly web: Web;
  readonly times: TimeLimits;
  readonly freeBytes: FreeBytes;
  readonly bandwidth: Bandwidth;
  readonly hashing: Hashing;
  /** Called with the bytes received, including those of downloads that fail or are discarded. */
  readonly received: (bytes: number) => void;
}

interface DownloadRequest {
  readonly url: string;
  readonly partial: Partial;
  /** Expected size in bytes, where known. */
  readonly size: number | null;
  /** How the file is compressed. */
  readonly compression: MediaCompression;
  /** Hashes to compute besides SHA-256. */
  readonly algorithms: readonly DigestAlgorithm[];
  /** Whether an earlier attempt may be resumed: only if a digest checks the whole file. */
  readonly resumable: boolean;
  /** Name used in errors: `alma 9 9.8 x86_64 qcow2`. */
  readonly label: string;
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number | null) => void;
  /**
   * Called with the first {@linkcode HEAD_BYTES} once they have arrived; those of an earlier attempt
   * included.
   */
  readonly onHead: (head: Uint8Array) => void;
}

/** A complete file that nobody has checked yet. */
export interface Downloaded {
  readonly hashes: Hashes;
  readonly size: number;
  /** Whether part of it came from an earlier attempt. */
  readonly resumed: boolean;
}

/**
 * Downloads once. After a failure the bytes received are kept for the next attempt.
 * @throws {AgentError} `upstream` (transient where a retry may help), `timeout`, `aborted`,
 *   `too_large` or `storage_full`
 */
export async function download(
  deps: DownloadDependencies,
  request: DownloadRequest,
): Promise<Downloaded> {
  const { url, partial, size, label, signal } = request;
  const what = `download ${label} from ${shown(url)}`;
  const held = request.resumable ? await partial.resumable(url) : undefined;
  return await whileOpen(deps.hashing.open(request.algorithms), async (hasher) => {
    if (held === undefined || size !== null && held.size > size) {
      return await fetchInto(deps, request, { hasher, what });
    }
    await hashInto(hasher, partial.path, { signal });
    if (hasher.size === size) return { hashes: await hasher.finish(), size, resumed: true };
    return await fetchInto(deps, request, { hasher, what, validator: held.validator });
  });
}

/** @param validator of the bytes already hashed, if any */
async function fetchInto(
  deps: DownloadDependencies,
  request: DownloadRequest,
  { hasher, what, validator }: { hasher: Hasher; what: string; validator?: string },
): Promise<Downloaded> {
  const { url, partial, signal, compression } = request;
  const resumed = validator !== undefined;
  const deadline = openDeadline(deps.times.answerMs, what, signal);
  try {
    const range = resumed ? { range: `bytes=${hasher.size}-`, "if-range": validator } : undefined;
    const headers = { accept: "*/*", ...range };
    const packed = compression === "none" ? {} : { packedAs: compression };
    const response = await ask(deps.web, url, { headers, deadline, ...packed });
    const job = { deps, request, response, deadline, what };
    if (response.status === 206 && resumed) return await goOn(job, hasher);
    if (response.status === 200) return await startAgain(job, resumed ? undefined : hasher);
    await response.body?.cancel();
    if (response.status === 416 || response.status === 206) {
      await partial.remove();
      throw transientError(`Cannot ${what}: the server refused to resume`);
    }
    throw new AgentError("upstream", `Cannot ${what}: the server answered ${response.status}`);
  } finally {
    deadline.clear();
  }
}

interface Transfer {
  readonly deps: DownloadDependencies;
  readonly request: DownloadRequest;
  readonly response: Response;
  readonly deadline: Deadline;
  readonly what: string;
}

/** @param fresh an unused hasher, if there is one */
async function startAgain(transfer: Transfer, fresh: Hasher | undefined): Promise<Downloaded> {
  const { deps, request, response } = transfer;
  const validator = rangeValidator(response.headers);
  await request.partial.begin({ url: request.url, validator });
  const length = response.headers.get("content-length");
  const total = length === null ? null : Number(length);
  if (fresh !== undefined) return await receive(transfer, fresh, total, false);
  return await whileOpen(
    deps.hashing.open(request.algorithms),
    (hasher) => receive(transfer, hasher, total, false),
  );
}

async function goOn(transfer: Transfer, hasher: Hasher): Promise<Downloaded> {
  const { request, response, what } = transfer;
  const header = response.headers.get("content-range") ?? "";
  const match = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(header);
  if (match === null || Number(match[1]) !== hasher.size) {
    await response.body?.cancel();
    await request.partial.remove();
    const found = header === "" ? "no Content-Range" : JSON.stringify(header.slice(0, 80));
    throw transientError(
      `Cannot ${what}: the server sent ${found}, expected bytes from ${hasher.size} on`,
    );
  }
  const total = match[3] === "*" ? Number(match[2]) + 1 : Number(match[3]);
  return await receive(transfer, hasher, total, true);
}

async function receive(
  { deps, request, response, deadline, what }: Transfer,
  hasher: Hasher,
  total: number | null,
  resumed: boolean,
): Promise<Downloaded> {
  const { partial, size, onProgress, onHead } = request;
  const folder = dirname(partial.path);
  try {
    if (total !== null && size !== null && total !== size) {
      const message = `Cannot ${what}: the server has ${total} bytes, expected ${size}`;
      throw new AgentError("upstream", message);
    }
    const bytesMax = size ?? DOWNLOAD_BYTES_MAX;
    if ((total ?? 0) > bytesMax) {
      throw new AgentError("too_large", `Cannot ${what}: it has more than ${bytesMax} bytes`);
    }
    await requireRoom(deps.freeBytes, folder, (total ?? size ?? 0) - hasher.size, what);
    const { path } = partial;
    const { freeBytes } = deps;
    const from = hasher.size;
    const writer = await openFileWriter({ path, from, bytesMax, folder, freeBytes, what });
    return await whileOpen(writer, async (file) => {
      let sinceCheck = 0;
      const look = lookingOnce(path, onHead);
      await look(file.size);
      if (resumed) onProgress(hasher.size, total ?? size);
      deadline.extend(deps.times.stallMs);
      for await (const part of response.body ?? []) {
        deps.received(part.byteLength);
        await file.write(part);
        // Waiting for our own bandwidth limit is not a stall of the server.
        const { signal, hold } = deadline;
        const hashed = await hasher.update(part, hold);
        await look(file.size);
        onProgress(hasher.size, total ?? size);
        sinceCheck += part.byteLength;
        const waited = await deps.bandwidth.take(part.byteLength, signal, hold);
        if (sinceCheck < STALL_BYTES && !waited && !hashed) continue;
        sinceCheck = 0;
        deadline.extend(deps.times.stallMs);
      }
      const wanted = size ?? total;
      if (wanted !== null && hasher.size !== wanted) {
        throw transientError(
          `Cannot ${what}: the transfer ended after ${hasher.size} of ${wanted} bytes`,
        );
      }
      deadline.hold();
      await file.sync();
      return { size: hasher.size, hashes: await hasher.finish(), resumed };
    });
  } catch (error) {
    await response.body?.cancel().catch(() => {});
    throw failure(error, deadline.signal, what);
  }
}

/** Shows the first bytes of a file once it has them. */
function lookingOnce(path: string, onHead: DownloadRequest["onHead"]) {
  let looked = false;
  return async (size: number): Promise<void> => {
    if (looked || size < HEAD_BYTES) return;
    looked = true;
    const head = await headOf(path);
    if (head !== undefined) onHead(head);
  };
}

/** Unused bandwidth that may be used later, milliseconds. */
const BURST_MS = 1_000;

interface Bandwidth {
  /**
   * Pays for received bytes.
   * @param onWait called before a wait
   * @returns whether it waited
   */
  take(bytes: number, signal: AbortSignal, onWait: () => void): Promise<boolean>;
}

/**
 * The bandwidth limit of all downloads together. Each received part is paid for before the next one
 * is read; the server slows down because we do not read.
 * @param bytesPerSecond 0 for no limit
 */
export function openBandwidth(
  bytesPerSecond: number,
  { wait, monotonicMs }: { readonly wait: Wait; readonly monotonicMs: () => number },
): Bandwidth {
  /** When everything taken so far is paid for. */
  let paidMs = monotonicMs() - BURST_MS;
  return {
    async take(bytes, signal, onWait) {
      if (bytesPerSecond === 0) return false;
      const nowMs = monotonicMs();
      paidMs = Math.max(paidMs, nowMs - BURST_MS) + bytes * 1000 / bytesPerSecond;
      if (paidMs <= nowMs) return false;
      onWait();
      await wait(paidMs - nowMs, signal);
      return true;
    },
  };
}
