// Unfinished files on the disk. Downloads: the bytes so far and the server's validators, to resume later; nobody else
// gets these files. Uploads: the bytes so far with the expected size and digests.

import { join } from "@std/path";
import { type Digest, digestText, parseDigest } from "../../domain/digest.ts";
import { AgentError, systemReason } from "../../domain/error.ts";
import { HOUR_MS } from "../../domain/instant.ts";
import { isJsonObject } from "../../domain/json.ts";
import { absent, fileInfo } from "../../runtime/regular_file.ts";
import { keptValidator } from "../web/upstream.ts";
import { writeFailure } from "./disk.ts";

/** Unfinished downloads that are kept. */
export const PARTIALS_MAX = 8;
/** Age at which an unfinished download is removed, milliseconds. */
export const PARTIAL_AGE_MS_MAX = 7 * 24 * 3600 * 1000;

const OUTPUT_ENDING = ".out";

/** Where the bytes so far come from. */
interface PartialOrigin {
  readonly url: string;
  /** A strong entity tag or a date that the server will compare; null when it sent neither. */
  readonly validator: string | null;
}

/** The files of an unfinished download, which a later attempt resumes. */
export interface Partial {
  /** The bytes so far; may be missing. */
  readonly path: string;
  /** Where decompression writes; may be missing. */
  readonly outputPath: string;
  /**
   * Bytes so far, if they come from `url` and the server can check whether they are still current.
   */
  resumable(url: string): Promise<{ size: number; validator: string } | undefined>;
  /** Discards the bytes so far and records the origin of the next ones. */
  begin(origin: PartialOrigin): Promise<void>;
  remove(): Promise<void>;
}

/** @param key a safe file name */
export function openPartial(folder: string, key: string): Partial {
  const path = join(folder, key);
  const originPath = `${path}.json`;
  const outputPath = path + OUTPUT_ENDING;
  return {
    path,
    outputPath,
    async resumable(url) {
      const origin = await readOrigin(originPath);
      if (origin?.url !== url || origin.validator === null) return undefined;
      const info = await fileInfo(path);
      if (info === undefined || !info.isFile || info.size === 0) return undefined;
      return { size: info.size, validator: origin.validator };
    },
    async begin(origin) {
      await removeFile(path);
      await Deno.writeTextFile(originPath, JSON.stringify(origin));
    },
    async remove() {
      await Promise.all([path, originPath, outputPath].map(removeFile));
    },
  };
}

/**
 * The validator for `If-Range`: a strong entity tag, or a date old enough to be strong.
 * @see RFC 9110, sections 8.8.2.2 and 13.1.5
 */
export function rangeValidator(headers: Headers): string | null {
  const etag = headers.get("etag");
  if (etag !== null) return /^"[^"]*"$/.test(etag) ? keptValidator(etag) : null;
  const modified = keptValidator(headers.get("last-modified"));
  const ageMs = Date.parse(headers.get("date") ?? "") - Date.parse(modified ?? "");
  return modified !== null && ageMs >= 1000 ? modified : null;
}

/**
 * Removes unfinished decompressions of a killed agent: those are never resumed.
 * @throws {Error} of the system when the folder is missing, or a file cannot be removed
 */
export async function removeOutputs(folder: string): Promise<void> {
  for await (const { name } of Deno.readDir(folder)) {
    if (name.endsWith(OUTPUT_ENDING)) await removeFile(join(folder, name));
  }
}

/**
 * Removes what is too old and, beyond {@linkcode PARTIALS_MAX}, the least recently touched.
 * @throws {Error} of the system when the folder is missing, or a file cannot be removed
 */
export async function sweepPartials(
  folder: string,
  nowMs: number,
  isActive: (key: string) => boolean,
): Promise<void> {
  const idle = new Map<string, number>();
  for await (const entry of Deno.readDir(folder)) {
    const key = entry.name.replace(/\.(json|out)$/, "");
    if (isActive(key)) continue;
    const info = await fileInfo(join(folder, entry.name));
    // A download that has just ended has removed its files.
    if (info === undefined) continue;
    idle.set(key, Math.max(info.mtime?.getTime() ?? 0, idle.get(key) ?? 0));
  }
  const newest = [...idle].sort(([, a], [, b]) => b - a);
  for (const [place, [key, mtime]] of newest.entries()) {
    if (place < PARTIALS_MAX && nowMs - mtime <= PARTIAL_AGE_MS_MAX) continue;
    await openPartial(folder, key).remove();
  }
}

async function readOrigin(path: string): Promise<PartialOrigin | undefined> {
  try {
    const value: unknown = JSON.parse(await Deno.readTextFile(path));
    if (!isJsonObject(value) || typeof value.url !== "string") return undefined;
    return {
      url: value.url,
      validator: typeof value.validator === "string" ? keptValidator(value.validator) : null,
    };
  } catch (error) {
    // A record that a crash cut short counts as missing.
    if (error instanceof Deno.errors.NotFound || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Removes a file that may be missing. @throws {Error} of the system, unless it is missing */
export async function removeFile(path: string): Promise<void> {
  await Deno.remove(path).catch(absent);
}

/** Age at which an unfinished upload is removed, milliseconds since its last byte. */
export const UNFINISHED_MS_MAX = 24 * HOUR_MS;
/** Unfinished uploads that are kept. */
const UNFINISHED_MAX = 64;
/** `Retry-After` when there are too many, seconds. */
const PLACE_SECONDS = 60;

/** Locked by the agent that uses an upload folder. */
const LOCK_FILE = "agent.lock";

/** Locks a file, which it creates, until this process ends. @returns whether no other process has it */
export type LockFile = (path: string) => Promise<boolean>;

/**
 * Takes an upload folder for this process, the first time: two agents that write the same file would mix its bytes.
 * @param place the folder of unfinished uploads in it, created when missing
 * @returns what throws AgentError `conflict` for a folder that another agent has, or that this one cannot use;
 *   `storage_full`
 */
export function openFolderLock(
  { folder, lock }: { readonly folder: string; readonly lock: LockFile },
  place: string,
): () => Promise<void> {
  const take = async () => {
    if (await usable(folder, () => lock(join(place, LOCK_FILE)))) return;
    const message = `Cannot change uploads in ${folder} (setting upload_dir): another agent uses ` +
      "it, expected a folder for each agent";
    throw new AgentError("conflict", message);
  };
  let taken: Promise<void> | undefined;
  return async () => {
    await preparePlace(folder, place);
    taken ??= take().catch((error) => {
      taken = undefined;
      throw error;
    });
    await taken;
  };
}

async function preparePlace(folder: string, place: string): Promise<void> {
  await usable(folder, () => Deno.mkdir(place, { recursive: true, mode: 0o700 }));
  if ((await fileInfo(place))?.isDirectory === true) return;
  throw new AgentError("conflict", `Cannot upload into ${folder}: ${place} is not a folder`);
}

/** Makes something in an upload folder. @throws {AgentError} `conflict` when the system refuses it; `storage_full` */
async function usable<T>(folder: string, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (cause) {
    const failure = writeFailure(cause, `upload into ${folder}`);
    if (failure instanceof AgentError) throw failure;
    const message = `Cannot upload into ${folder} (setting upload_dir): ${systemReason(cause)}`;
    throw new AgentError("conflict", message, { cause });
  }
}

/** An upload whose file is not complete. */
export interface UnfinishedUpload {
  readonly offset: number;
  /** Bytes of the complete file; null when unknown. */
  readonly total: number | null;
  /** Expected digests of the complete file. */
  readonly digests: readonly Digest[];
}

/** The unfinished upload of a name. */
export async function findUnfinished(
  place: string,
  name: string,
): Promise<UnfinishedUpload | undefined> {
  const info = await fileInfo(join(place, name));
  if (info === undefined) return undefined;
  // Only this agent writes here, so anything else is removed.
  if (!info.isFile) await Deno.remove(join(place, name), { recursive: true });
  const said = info.isFile ? await readDescription(place, name) : undefined;
  return said === undefined ? undefined : { offset: info.size, ...said };
}

async function readDescription(
  place: string,
  name: string,
): Promise<Omit<UnfinishedUpload, "offset"> | undefined> {
  try {
    const value: unknown = JSON.parse(await Deno.readTextFile(join(place, `${name}.json`)));
    if (!isJsonObject(value) || !Array.isArray(value.digests)) return undefined;
    const digests = value.digests.map((one) => parseDigest(one, "digest"));
    return { total: typeof value.total === "number" ? value.total : null, digests };
  } catch (error) {
    // A record that a crash cut short counts as missing.
    const none = error instanceof Deno.errors.NotFound || error instanceof SyntaxError ||
      error instanceof AgentError;
    if (none) return undefined;
    throw error;
  }
}

/** Saves the expected size and digests, before any bytes are written. */
export async function describeUnfinished(
  place: string,
  name: string,
  { total, digests }: { readonly total: number | null; readonly digests: readonly Digest[] },
): Promise<void> {
  const text = JSON.stringify({ total, digests: digests.map(digestText) });
  // Renamed into place, since half a description would make the upload start over.
  await Deno.writeTextFile(join(place, `${name}.new`), text);
  await Deno.rename(join(place, `${name}.new`), join(place, `${name}.json`));
}

/** Removes the bytes and their description. @throws {Error} of the system, unless they are missing */
export async function forgetUnfinished(place: string, name: string): Promise<void> {
  await removeFile(join(place, name));
  await removeFile(join(place, `${name}.json`));
}

/** Refuses a new upload when too many are unfinished. @throws {AgentError} `overloaded` */
export async function requirePlace(place: string, name: string): Promise<void> {
  let unfinished = 0;
  for await (const entry of Deno.readDir(place)) unfinished += entry.name.endsWith(".json") ? 1 : 0;
  if (unfinished < UNFINISHED_MAX) return;
  const message = `Cannot upload ${name}: ${unfinished} unfinished uploads are kept; finish or ` +
    "delete one of them";
  throw new AgentError("overloaded", message, { retryAfterSeconds: PLACE_SECONDS });
}

/**
 * Removes uploads that have received nothing for a day, and those without a description.
 * @param writing names in use by requests; may grow during the call
 * @returns the removed names
 */
export async function sweepUnfinished(
  place: string,
  nowMs: number,
  writing: ReadonlySet<string>,
): Promise<readonly string[]> {
  const gone: string[] = [];
  for await (const entry of Deno.readDir(place)) {
    if (entry.name === LOCK_FILE) continue;
    const name = entry.name.replace(/\.(json|new)$/, "");
    if (writing.has(name)) continue;
    // The age counts from the last byte; the description is written once, before the first byte.
    const info = await fileInfo(join(place, name)) ?? await fileInfo(join(place, entry.name));
    const touchedMs = info?.mtime?.getTime() ?? nowMs;
    // Checked again, since a request may have taken the name by now.
    if (nowMs - touchedMs <= UNFINISHED_MS_MAX || writing.has(name)) continue;
    gone.push(name);
    await forgetUnfinished(place, name);
  }
  return gone;
}
