// A file that is made once and kept from one start to the next, but never trusted: whether it still
// has the promised bytes is looked at every time.

import { basename, dirname } from "@std/path";
import { type Content, digestsOf } from "./content.ts";

/** Bytes read at a time. */
const READ_BYTES = 256 << 10; // 256 KiB

/** An open file with the promised bytes. */
export interface KeptFile {
  readonly file: Deno.FsFile;
  /** Whether it was written now: it was missing, or its bytes were others. */
  readonly made: boolean;
}

/**
 * Opens the file at a path for reading, with the content of this digest. A file that is missing or
 * different is made under another name and renamed, so that nobody meets a part of it.
 * @param sha256 of the content, lower-case hex
 */
export async function openKeptFile(
  path: string,
  content: Content,
  sha256: string,
  signal?: AbortSignal,
): Promise<KeptFile> {
  const found = await openIfThere(path);
  try {
    if (found !== undefined && await hasContent(found, content.size, sha256, signal)) {
      return { file: found, made: false };
    }
  } catch (error) {
    found?.close();
    throw error;
  }
  found?.close();
  return { file: await makeFile(path, content, signal), made: true };
}

async function openIfThere(path: string): Promise<Deno.FsFile | undefined> {
  try {
    return await Deno.open(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function hasContent(
  file: Deno.FsFile,
  size: number,
  sha256: string,
  signal?: AbortSignal,
): Promise<boolean> {
  if ((await file.stat()).size !== size) return false;
  return (await digestsOf(fileChunks(file), signal)).sha256 === sha256;
}

async function* fileChunks(file: Deno.FsFile): AsyncGenerator<Uint8Array> {
  const buffer = new Uint8Array(READ_BYTES);
  for (let count = await file.read(buffer); count !== null; count = await file.read(buffer)) {
    yield buffer.subarray(0, count);
  }
}

async function makeFile(
  path: string,
  content: Content,
  signal?: AbortSignal,
): Promise<Deno.FsFile> {
  await Deno.mkdir(dirname(path), { recursive: true });
  const part = await Deno.makeTempFile({ dir: dirname(path), prefix: `${basename(path)}.` });
  const file = await Deno.open(part, { read: true, write: true });
  try {
    for (const chunk of content.chunks()) {
      signal?.throwIfAborted();
      await writeAll(file, chunk);
    }
    await file.sync();
    await Deno.rename(part, path);
    return file;
  } catch (error) {
    file.close();
    await Deno.remove(part);
    throw error;
  }
}

/** A write may take only a part of the bytes. */
async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}
