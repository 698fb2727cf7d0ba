// Unfinished uploads on the disk: the bytes so far, with the expected size and digests. They are kept for a
// day after the last byte.

import { join } from "@std/path";
import { type Digest, digestText, parseDigest } from "../../domain/digest.ts";
import { AgentError } from "../../domain/error.ts";
import { HOUR_MS } from "../../domain/instant.ts";
import { isJsonObject } from "../../domain/json.ts";
import { fileInfo } from "../../runtime/regular_file.ts";
import { removeFile } from "./partial.ts";

/** Age at which an unfinished upload is removed, milliseconds since its last byte. */
export const UNFINISHED_MS_MAX = 24 * HOUR_MS;
/** Unfinished uploads that are kept. */
const UNFINISHED_MAX = 64;
/** `Retry-After` when there are too many, seconds. */
const PLACE_SECONDS = 60;

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

/** Removes the bytes and their description. */
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
  if (await fileInfo(place) === undefined) return gone;
  for await (const entry of Deno.readDir(place)) {
    const name = entry.name.replace(/\.(json|new)$/, "");
    if (writing.has(name)) continue;
    // The age is that of the bytes; the description is written once, before the first of them.
    const info = await fileInfo(join(place, name)) ?? await fileInfo(join(place, entry.name));
    const touchedMs = info?.mtime?.getTime() ?? nowMs;
    // Checked again, since a request may have taken the name meanwhile.
    if (nowMs - touchedMs <= UNFINISHED_MS_MAX || writing.has(name)) continue;
    gone.push(name);
    await forgetUnfinished(place, name);
  }
  return gone;
}
