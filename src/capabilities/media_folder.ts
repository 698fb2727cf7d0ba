// Media that are files of the agent's host: found in one of the folders that the operator named,
// read whole, and known by their digest from then on.

import { join } from "@std/path";
import { type Digest, requireDigest } from "../domain/digest.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import { parseMediaName, safeMediaName } from "../domain/machine/media.ts";
import { openPlainFile, type PlainFile } from "../host/plain_file.ts";
import type { Hashes } from "../mirror/media/hash.ts";
import type { KnownFiles } from "../mirror/media/known_files.ts";
import type { Medium } from "../mirror/media/medium.ts";

/** How a file is read: until the signal fires, telling bytes done and bytes in total. */
export interface ReadOptions {
  readonly hash: KnownFiles["hash"];
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
}

/**
 * Finds a file by its path and reads it for its digests.
 * @throws {AgentError} `forbidden` when it lies outside the folders, whatever links lead to it;
 * `not_found`; `invalid_argument` when it is no plain file; `digest_mismatch`; `aborted`
 */
export async function findFile(
  mediaDirs: readonly string[],
  request: { readonly path: string; readonly digest?: Digest; readonly any?: boolean },
  options: ReadOptions,
): Promise<Medium> {
  const path = await resolvedPath(mediaDirs, request.path);
  const file = await open(path, request.path);
  try {
    const found = await hash(file, request, options);
    if (request.digest !== undefined) {
      requireDigest(JSON.stringify(request.path), found, request.digest);
    }
    // The name of the file that was asked for, not of what a link leads to.
    const safe = safeMediaName(request.path);
    const name = request.any === true ? safe : parseMediaName(safe, "media.path");
    const label = `file ${request.path}`;
    // The operator put the file there; what it is to be, only a digest tells.
    const level = request.digest === undefined ? "none" : "index";
    return { source: "path", path, name, size: file.size, sha256: found.sha256, label, level };
  } finally {
    await file.close();
  }
}

/**
 * Where a path leads once every link is followed, which must be inside one of the folders. A name
 * without a slash is looked for in the folders, in their order.
 */
async function resolvedPath(mediaDirs: readonly string[], path: string): Promise<string> {
  if (path.includes("/")) return await pathWithin(mediaDirs, path);
  for (const folder of mediaDirs) {
    if (await realPath(join(folder, path)) !== undefined) {
      return await pathWithin(mediaDirs, join(folder, path));
    }
  }
  throw new AgentError(
    "not_found",
    `Cannot use medium ${JSON.stringify(path)}: it is in no media folder (there are ${
      mediaDirs.join(", ") || "none"
    })`,
  );
}

async function pathWithin(mediaDirs: readonly string[], asked: string): Promise<string> {
  const cannot = `Cannot use medium ${JSON.stringify(asked)}`;
  // The answer is the same for a file outside that exists and one that does not: tasks may not
  // learn what else is on the host.
  const outside = new AgentError(
    "forbidden",
    `${cannot}: it is not in a media folder (there are ${mediaDirs.join(", ") || "none"})`,
  );
  const folders = await Promise.all(mediaDirs.map(realPath));
  const known = folders.filter((folder) => folder !== undefined);
  if (![...mediaDirs, ...known].some((folder) => isWithin(folder, asked))) throw outside;
  const path = await realPath(asked);
  if (path === undefined) throw new AgentError("not_found", `${cannot}: it is not there`);
  if (!known.some((folder) => isWithin(folder, path))) throw outside;
  return path;
}

function isWithin(folder: string, path: string): boolean {
  return path.startsWith(join(folder, "/")) && path.length > folder.length + 1;
}

async function realPath(path: string): Promise<string | undefined> {
  try {
    return await Deno.realPath(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    const message = `Cannot use medium ${JSON.stringify(path)}: ${messageOf(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}

async function open(path: string, asked: string): Promise<PlainFile> {
  const cannot = `Cannot use medium ${JSON.stringify(asked)}`;
  let file: PlainFile | null;
  try {
    file = await openPlainFile(path);
  } catch (error) {
    throw new AgentError("not_found", `${cannot}: ${messageOf(error)}`, { cause: error });
  }
  if (file === null) throw new AgentError("invalid_argument", `${cannot}: it is no plain file`);
  if (file.size > 0) return file;
  await file.close();
  throw new AgentError("invalid_argument", `${cannot}: it is empty`);
}

async function hash(
  file: PlainFile,
  { path, digest }: { readonly path: string; readonly digest?: Digest },
  { signal, onProgress, hash }: ReadOptions,
): Promise<Hashes> {
  let done = 0;
  const read = async function* () {
    for await (const part of file.parts()) {
      if (signal.aborted) {
        throw new AgentError("aborted", `Cannot read medium ${JSON.stringify(path)}: given up`);
      }
      yield part;
      done += part.length;
      onProgress(done, file.size);
    }
  };
  // SHA-512 costs five times as much as the other one, so it is only computed to be compared.
  const hashes = await hash(read(), digest === undefined ? [] : [digest.algorithm]);
  if (done !== file.size) {
    const message = `Cannot use medium ${JSON.stringify(path)}: it changed while it was read`;
    throw new AgentError("conflict", message);
  }
  return hashes;
}
