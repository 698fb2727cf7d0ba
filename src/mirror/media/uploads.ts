// Uploads of files into one media folder. A file gets its name once it is complete, verified and on the disk;
// until then its bytes are in a hidden folder, where no request can name them.
//
//   <upload folder>/NAME                           complete files
//   <upload folder>/.zonewright-uploads/NAME       the bytes of an unfinished upload so far
//   <upload folder>/.zonewright-uploads/NAME.json  its size and digests, where known
//   <upload folder>/.zonewright-uploads/agent.lock held by the one agent that may change any of these

import { join } from "@std/path";
import { type CheckLevel, type Digest, digestText } from "../../domain/digest.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import type { Now } from "../../domain/instant.ts";
import type { Log } from "../../metrics/log.ts";
import { whileOpen } from "../../runtime/run.ts";
import { type FileWriter, type FreeBytes, openFileWriter, requireRoom } from "./disk.ts";
import { UNFINISHED_FOLDER } from "./folders.ts";
import { fileInfo } from "../../runtime/regular_file.ts";
import { type Hashes, type Hashing, hashInto } from "./hash.ts";
import {
  describeUnfinished,
  findUnfinished,
  forgetUnfinished,
  type LockFile,
  openFolderLock,
  removeFile,
  requirePlace,
  sweepUnfinished,
  type UnfinishedUpload,
} from "./partial.ts";
import { type MediaEvent, openTransferEvents, type TransferEvents } from "./transfer_events.ts";
import { brokenBody, type PaceLimits, partsOf } from "./upload_body.ts";

/** `Retry-After` of an upload beyond the limit, seconds. */
const RETRY_AFTER_SECONDS = 10;

/** The part of the file that a request contains. `to` is its last byte, or `from - 1` if there is none. */
export interface UploadRange {
  readonly from: number;
  readonly to: number;
  readonly total: number;
}

/** One request of an upload. */
export interface UploadPart {
  /** The name of the file, already checked. */
  readonly name: string;
  /** Null when one request contains the whole file. */
  readonly range: UploadRange | null;
  /** The `Content-Length`; null when the request has none. */
  readonly length: number | null;
  /** Expected digests of the whole file; all must match. */
  readonly digests: readonly Digest[];
  readonly body: ReadableStream<Uint8Array> | null;
}

/** A complete file before it gets its name. */
export interface ArrivedFile {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  /** Whether it was compared with a digest. */
  readonly level: CheckLevel;
}

/** The result of one request: the upload continues, or the file is complete. */
export type UploadResult<T> =
  | { readonly kind: "unfinished"; readonly upload: UnfinishedUpload }
  | { readonly kind: "arrived"; readonly result: T };

/** How large uploads may be, and how slow. */
export interface UploadLimits extends PaceLimits {
  /** Bytes of one file; 0 turns uploads off. */
  readonly uploadBytesMax: number;
  readonly uploadsMax: number;
}

/** Uploads into one folder. Only one request at a time may write a name. */
export interface Uploads {
  /**
   * Receives the body of one request, which may complete the file.
   * @param arrived called with the complete, verified file to give it its name
   * @throws {AgentError} `conflict` with the right offset, or while another request writes the name;
   *   `malformed` for a body that broke off, or does not match its length or digest; `too_slow`;
   *   `too_large`; `storage_full`; `overloaded`; `forbidden` when uploads are off
   */
  receive<T>(
    part: UploadPart,
    arrived: (file: ArrivedFile) => Promise<T>,
  ): Promise<UploadResult<T>>;
  find(name: string): Promise<UnfinishedUpload | undefined>;
  /**
   * Removes an unfinished upload.
   * @returns whether there was one
   * @throws {AgentError} `conflict` while a request writes it
   */
  remove(name: string): Promise<boolean>;
  /**
   * Takes the folder for this process, until that ends; a file there may be needed by jobs of another agent.
   * @throws {AgentError} `conflict` when another agent has it, or this one cannot use it; `storage_full`
   */
  take(): Promise<void>;
  /** Removes unfinished uploads that have received nothing for a day. @throws {AgentError} as take() */
  sweep(): Promise<void>;
}

interface UploadsDependencies {
  /** Absolute path of the upload folder; created when missing. */
  readonly folder: string;
  readonly lock: LockFile;
  readonly limits: UploadLimits;
  readonly hashing: Hashing;
  readonly freeBytes: FreeBytes;
  readonly now: Now;
  readonly log: Log;
  readonly emit?: (event: MediaEvent) => void;
}

/** The dependencies, and the reporting of events. */
interface OpenUploads extends UploadsDependencies {
  readonly transfers: TransferEvents;
}

/** Opens the uploads. Nothing is created on the disk before the first one. */
export function openUploads(given: UploadsDependencies): Uploads {
  const deps = { ...given, transfers: openTransferEvents("upload", given.emit ?? (() => {})) };
  const { folder, limits, transfers } = deps;
  const place = join(folder, UNFINISHED_FOLDER);
  /** Names that a request is writing or removing. */
  const writing = new Set<string>();
  const take = openFolderLock(deps, place);
  let swept = Promise.resolve();
  const sweepNow = async () => {
    if (await fileInfo(place) === undefined) return;
    await take();
    const gone = await sweepUnfinished(place, Date.parse(deps.now()), writing);
    for (const name of gone) transfers.lost(name, "it was not continued for a day");
  };
  // One sweep at a time, so that a request that has taken its name and waited for it cannot lose its bytes to
  // another.
  const sweep = () => {
    const next = swept.then(sweepNow);
    swept = next.catch(() => {});
    return next;
  };
  return {
    async receive(part, arrived) {
      const { name } = part;
      requireAllowed(part, limits);
      requireNotTaken(writing, name, `upload ${name}`);
      requireSlot(writing, name, limits);
      writing.add(name);
      try {
        await take();
        await sweep();
        return await receiveReported(deps, place, part, arrived);
      } finally {
        writing.delete(name);
      }
    },
    find: (name) => findUnfinished(place, name),
    async remove(name) {
      requireNotTaken(writing, name, `remove the upload of ${name}`);
      writing.add(name);
      try {
        await swept;
        const found = await findUnfinished(place, name);
        if (found !== undefined) await take();
        await forgetUnfinished(place, name);
        if (found !== undefined) transfers.lost(name, "it was removed");
        return found !== undefined;
      } finally {
        writing.delete(name);
      }
    },
    take,
    sweep,
  };
}

/** @throws {AgentError} `conflict` while another request has the name */
function requireNotTaken(writing: ReadonlySet<string>, name: string, action: string): void {
  if (!writing.has(name)) return;
  throw new AgentError("conflict", `Cannot ${action}: another request is writing it`, {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
  });
}

/** @throws {AgentError} `overloaded` beside as many uploads as there may be */
function requireSlot(
  writing: ReadonlySet<string>,
  name: string,
  { uploadsMax }: Pick<UploadLimits, "uploadsMax">,
): void {
  if (writing.size < uploadsMax) return;
  const message = `Cannot upload ${name}: ${writing.size} uploads are under way, the maximum`;
  throw new AgentError("overloaded", message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
}

/** Receives the body of a request, and completes the file after its last part. */
async function receiveReported<T>(
  deps: OpenUploads,
  place: string,
  part: UploadPart,
  arrived: (file: ArrivedFile) => Promise<T>,
): Promise<UploadResult<T>> {
  const { name } = part;
  const outcome = await receivePart(deps, place, part);
  if (outcome.kind === "unfinished") return outcome;
  const { size } = outcome.result;
  const whole = { key: name, name, done: size, size };
  try {
    const result = await arrived(outcome.result);
    await forgetUnfinished(place, name);
    deps.transfers.ended(whole, null);
    return { kind: "arrived", result };
  } catch (error) {
    deps.transfers.ended(whole, messageOf(error));
    throw error;
  }
}

/** Refuses a file that is too large before anything is written. */
function requireAllowed(
  { name, range, length }: UploadPart,
  { uploadBytesMax }: UploadLimits,
): void {
  const about = { kind: "setting", name: "upload_max" } as const;
  if (uploadBytesMax === 0) {
    const message = `Cannot upload ${name}: uploads are off (setting upload_max)`;
    throw new AgentError("forbidden", message, { about });
  }
  const total = range?.total ?? length ?? 0;
  if (total <= uploadBytesMax) return;
  const message = `Cannot upload ${name}: it has ${total} bytes, expected at most ` +
    `${uploadBytesMax} (setting upload_max)`;
  throw new AgentError("too_large", message, { about });
}

async function receivePart(
  deps: OpenUploads,
  place: string,
  part: UploadPart,
): Promise<UploadResult<ArrivedFile>> {
  const { name, range } = part;
  const { folder, freeBytes } = deps;
  const before = await findUnfinished(place, name);
  const offset = range === null ? 0 : before?.offset ?? 0;
  const total = range?.total ?? part.length;
  // The offset last: a caller who asks for it then knows that nothing else is in the way.
  if (before === undefined) await requirePlace(place, name);
  await requireRoom(freeBytes, folder, (total ?? 0) - offset, `upload ${name}`);
  if (range !== null) requireNext(name, range, before);
  const digests = digestsOf(part, range === null ? undefined : before);
  if (offset === 0) await removeFile(join(place, name));
  await describeUnfinished(place, name, { total, digests });
  const { size, hashes } = await write(deps, join(place, name), part, offset, digests)
    .catch(async (error: unknown) => {
      // A file that is too large can never be completed, and a full disk stops the store.
      const hopeless = error instanceof AgentError &&
        (error.code === "too_large" || error.code === "storage_full");
      if (hopeless) await forgetUnfinished(place, name);
      deps.transfers.lost(name, messageOf(error));
      throw error;
    });
  if (total !== null && size < total) {
    const upload = { offset: size, total, digests };
    return { kind: "unfinished", upload };
  }
  const file = await verified(deps, place, name, hashes, digests).catch((error: unknown) => {
    deps.transfers.lost(name, messageOf(error));
    throw error;
  });
  return { kind: "arrived", result: file };
}

/** Refuses a part that does not continue the bytes so far. */
function requireNext(
  name: string,
  { from, total }: UploadRange,
  before: UnfinishedUpload | undefined,
): void {
  const offset = before?.offset ?? 0;
  const known = before?.total ?? total;
  if (offset > 0 && known !== total) {
    const message =
      `Cannot continue the upload of ${name}: it has ${total} bytes, the unfinished ` +
      `upload ${known}; delete that one to begin again`;
    throw new AgentError("conflict", message, { uploadOffset: offset });
  }
  if (from === offset) return;
  const message = `Cannot continue the upload of ${name} at byte ${from}, expected byte ${offset}`;
  throw new AgentError("conflict", message, { uploadOffset: offset });
}

/** The digests that this request and the earlier ones named. */
function digestsOf(
  { name, digests }: UploadPart,
  before: UnfinishedUpload | undefined,
): readonly Digest[] {
  const all = before === undefined || before.offset === 0 ? [] : [...before.digests];
  for (const digest of digests) {
    const same = all.find(({ algorithm }) => algorithm === digest.algorithm);
    if (same === undefined) all.push(digest);
    else if (same.value !== digest.value) {
      const message =
        `Cannot continue the upload of ${name}: its digest is ${digestText(digest)}, ` +
        `that of the unfinished upload ${digestText(same)}; delete that one to begin again`;
      const offset = before?.offset ?? 0;
      throw new AgentError("conflict", message, { uploadOffset: offset });
    }
  }
  return all;
}

/** Appends the body to the bytes so far, which stay when it breaks off. */
async function write(
  { folder, freeBytes, limits, hashing, transfers }: OpenUploads,
  path: string,
  part: UploadPart,
  offset: number,
  digests: readonly Digest[],
): Promise<{ readonly size: number; readonly hashes: Hashes | undefined }> {
  const { name, body, range, length } = part;
  const size = range?.total ?? length;
  const what = `upload ${name}`;
  const options = { path, from: offset, bytesMax: limits.uploadBytesMax, folder, freeBytes, what };
  return await whileOpen(await openFileWriter(options), async (file) => {
    // Hashed while written; a file in several parts is hashed at the end.
    const algorithms = digests.map(({ algorithm }) => algorithm);
    const hasher = offset === 0 ? hashing.open(algorithms) : undefined;
    try {
      transfers.moved({ key: name, name, done: file.size, size });
      for await (const bytes of partsOf(name, body, limits)) {
        await requireExpected(file, part, bytes.byteLength);
        await file.write(bytes);
        await hasher?.update(bytes);
        transfers.moved({ key: name, name, done: file.size, size });
      }
      requireWhole(part, file.size, offset);
      await file.sync();
      if (file.size === 0) throw new AgentError("malformed", `Cannot ${what}: the body is empty`);
      const whole = hasher !== undefined && file.size === (part.range?.total ?? file.size);
      return { size: file.size, hashes: whole ? await hasher.finish() : undefined };
    } finally {
      hasher?.[Symbol.dispose]();
    }
  });
}

/** Refuses a body that is longer than its Content-Range. */
async function requireExpected(
  file: FileWriter,
  { name, range }: UploadPart,
  bytes: number,
): Promise<void> {
  if (range === null || file.size + bytes <= range.to + 1) return;
  await file.sync();
  const message = `Cannot upload ${name}: the body has more bytes than Content-Range says, which ` +
    `ends at byte ${range.to}`;
  throw new AgentError("malformed", message);
}

function requireWhole({ name, range, length }: UploadPart, size: number, offset: number): void {
  const expected = range === null ? length : range.to + 1 - offset;
  if (expected === null || size - offset === expected) return;
  throw brokenBody(name, `the body ended after ${size - offset} of ${expected} bytes`);
}

/** Compares a complete file with its digests, and discards it if one differs. */
async function verified(
  { hashing }: UploadsDependencies,
  place: string,
  name: string,
  known: Hashes | undefined,
  digests: readonly Digest[],
): Promise<ArrivedFile> {
  const path = join(place, name);
  const hashes = known ??
    await whileOpen(hashing.open(digests.map(({ algorithm }) => algorithm)), async (hasher) => {
      await hashInto(hasher, path);
      return await hasher.finish();
    });
  const wrong = digests.find(({ algorithm, value }) => hashes[algorithm] !== value);
  if (wrong !== undefined) {
    await forgetUnfinished(place, name);
    const { algorithm, value } = wrong;
    const message = `Cannot keep ${name}: its ${algorithm} is ${hashes[algorithm]}, expected ` +
      `${value}; its bytes were discarded`;
    throw new AgentError("malformed", message);
  }
  const { size } = await Deno.lstat(path);
  return { path, size, sha256: hashes.sha256, level: digests.length === 0 ? "none" : "index" };
}
