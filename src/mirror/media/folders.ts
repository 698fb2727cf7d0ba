// Media that are files on the agent's host: found in one of the operator's folders, read whole, and known by
// their digest from then on.

import { join } from "@std/path";
import { type Digest, requireDigest } from "../../domain/digest.ts";
import { AgentError, systemReason } from "../../domain/error.ts";
import { parseMediaName, safeMediaName } from "../../domain/machine/media.ts";
import { openRegularFile, type RegularFile } from "../../runtime/regular_file.ts";
import type { Hashes } from "./hash.ts";
import type { KnownFiles } from "./known_files.ts";
import { requireBootableFile } from "./file_format.ts";
import type { Medium } from "./wanted_file.ts";

/** The folder of unfinished uploads, below the upload folder: nothing in it is a medium yet. */
export const UNFINISHED_FOLDER = ".zonewright-uploads";

/** A file of a media folder, as a request names it. */
interface FileRequest {
  /** An absolute path, or the name of a file in one of the folders. */
  readonly path: string;
  readonly digest?: Digest;
  /** Accepts a file that no machine boots, too. */
  readonly any?: boolean;
}

/** Options of a read; progress counts bytes done and total bytes. */
interface ReadOptions {
  readonly hash: KnownFiles["hash"];
  readonly signal: AbortSignal;
  readonly onProgress: (done: number, total: number) => void;
  /** Called with the path of the file before it is read. */
  readonly onOpen?: (path: string) => void;
}

/** What the first bytes of a file in a media folder show, before it is read whole. */
interface LookedAt {
  readonly path: string;
  readonly name: string;
  readonly size: number;
}

/**
 * Finds a file by path, checks its first bytes, and hashes it.
 * @throws {AgentError} `forbidden` when it lies outside the folders, links followed; `not_found`;
 *   `invalid_argument` when it is not a regular file, or not what its name says; `digest_mismatch`;
 *   `aborted`
 */
export async function findFile(
  mediaDirs: readonly string[],
  request: FileRequest,
  options: ReadOptions,
): Promise<Medium> {
  return await opened(mediaDirs, request, async (file, { path, name, size }) => {
    options.onOpen?.(path);
    const found = await hash(file, request, options);
    if (request.digest !== undefined) {
      requireDigest(JSON.stringify(request.path), found, request.digest);
    }
    const label = `file ${request.path}`;
    // The operator put the file there; only a digest says what it should be.
    const level = request.digest === undefined ? "none" : "index";
    return { source: "path", path, name, size, sha256: found.sha256, label, level };
  });
}

/** Finds a file by path and checks only its first bytes. @throws {AgentError} as findFile() */
export async function lookAtFile(
  mediaDirs: readonly string[],
  request: FileRequest,
): Promise<LookedAt> {
  return await opened(mediaDirs, request, (_, looked) => Promise.resolve(looked));
}

async function opened<T>(
  mediaDirs: readonly string[],
  request: FileRequest,
  use: (file: RegularFile, looked: LookedAt) => Promise<T>,
): Promise<T> {
  const path = await resolvedPath(mediaDirs, request.path);
  const file = await open(path, request.path);
  try {
    // From the requested name, not from that of a link's target.
    const safe = safeMediaName(request.path);
    const any = request.any === true;
    const name = any ? safe : parseMediaName(safe, "media.path");
    if (!any) await requireBootableFile(name, `file ${request.path}`, file);
    return await use(file, { path, name, size: file.size });
  } finally {
    await file.close();
  }
}

/**
 * Follows every link of a path, which must end inside one of the folders. A name without a slash is looked up
 * in the folders, in order.
 */
async function resolvedPath(mediaDirs: readonly string[], path: string): Promise<string> {
  if (path.includes("/")) return await pathWithin(mediaDirs, path);
  for (const folder of mediaDirs) {
    if (await realPath(join(folder, path)) !== undefined) {
      return await pathWithin(mediaDirs, join(folder, path));
    }
  }
  const message = `Cannot use medium ${JSON.stringify(path)}: it is in no media folder, ` +
    expectedFolders(mediaDirs);
  throw new AgentError("not_found", message, { about: { kind: "medium", name: path } });
}

/** Where a medium may be, and how an operator adds a folder. */
function expectedFolders(mediaDirs: readonly string[]): string {
  return mediaDirs.length === 0
    ? "expected one, and the agent has none: start it with --media-dir DIR"
    : `expected ${mediaDirs.join(" or ")}; --media-dir of the agent adds one`;
}

async function pathWithin(mediaDirs: readonly string[], asked: string): Promise<string> {
  const cannot = `Cannot use medium ${JSON.stringify(asked)}`;
  const about = { kind: "medium", name: asked } as const;
  // Files outside get the same answer whether they exist or not, so that tasks cannot explore the host.
  const outside = new AgentError(
    "forbidden",
    `${cannot}: it is not in a media folder: ${expectedFolders(mediaDirs)}`,
    { about },
  );
  const folders = await Promise.all(mediaDirs.map(realPath));
  const known = folders.filter((folder) => folder !== undefined);
  if (![...mediaDirs, ...known].some((folder) => isWithin(folder, asked))) throw outside;
  const path = await realPath(asked);
  if (path === undefined) {
    throw new AgentError("not_found", `${cannot}: it does not exist`, { about });
  }
  if (!known.some((folder) => isWithin(folder, path))) throw outside;
  if (path.includes(`/${UNFINISHED_FOLDER}/`)) throw outside;
  return path;
}

/** Whether a path is below a folder, judged by the text alone. */
export function isWithin(folder: string, path: string): boolean {
  return path.startsWith(join(folder, "/")) && path.length > folder.length + 1;
}

/**
 * A path without links; undefined when nothing is there.
 * @throws {AgentError} `invalid_argument` when it cannot be followed
 */
export async function realPath(path: string): Promise<string | undefined> {
  try {
    return await Deno.realPath(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    const message = `Cannot use medium ${JSON.stringify(path)}: ${systemReason(error)}`;
    throw new AgentError("invalid_argument", message, { cause: error });
  }
}

async function open(path: string, asked: string): Promise<RegularFile> {
  const cannot = `Cannot use medium ${JSON.stringify(asked)}`;
  let file: RegularFile | null;
  try {
    file = await openRegularFile(path);
  } catch (error) {
    throw new AgentError("not_found", `${cannot}: ${systemReason(error)}`, {
      cause: error,
      about: { kind: "medium", name: asked },
    });
  }
  if (file === null) {
    throw new AgentError("invalid_argument", `${cannot}: it is not a regular file`);
  }
  if (file.size > 0) return file;
  await file.close();
  throw new AgentError("invalid_argument", `${cannot}: it is empty`);
}

async function hash(
  file: RegularFile,
  { path, digest }: { readonly path: string; readonly digest?: Digest },
  { signal, onProgress, hash }: ReadOptions,
): Promise<Hashes> {
  let done = 0;
  const read = async function* () {
    for await (const part of file.parts()) {
      if (signal.aborted) {
        throw new AgentError(
          "aborted",
          `Cannot read medium ${JSON.stringify(path)}: the task was aborted`,
        );
      }
      yield part;
      done += part.length;
      onProgress(done, file.size);
    }
  };
  // SHA-512 costs five times as much, so it is computed only for a comparison.
  const hashes = await hash(read(), digest === undefined ? [] : [digest.algorithm]);
  if (done !== file.size) {
    const message = `Cannot use medium ${JSON.stringify(path)}: it changed while it was read`;
    throw new AgentError("conflict", message);
  }
  return hashes;
}
