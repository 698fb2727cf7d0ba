// Unfinished downloads: the bytes so far, and the server's validators, to resume later. Nobody else gets
// these files.

import { join } from "@std/path";
import { isJsonObject } from "../../domain/json.ts";
import { absent, fileInfo } from "../../runtime/regular_file.ts";
import { keptValidator } from "../web/upstream.ts";

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

/** Removes unfinished decompressions of a killed agent: those are never resumed. */
export async function removeOutputs(folder: string): Promise<void> {
  for await (const { name } of Deno.readDir(folder)) {
    if (name.endsWith(OUTPUT_ENDING)) await removeFile(join(folder, name));
  }
}

/** Removes what is too old and, beyond {@linkcode PARTIALS_MAX}, the least recently touched. */
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

/** Removes a file that may be missing. */
export async function removeFile(path: string): Promise<void> {
  await Deno.remove(path).catch(absent);
}
