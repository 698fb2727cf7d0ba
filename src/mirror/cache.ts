// Verified files, each in a folder named by its own SHA-256. A note by the digest that was asked for
// leads to the file, since that digest may be another one, or that of the compressed file.
//
//   sha256-<hex>/<name>   files; a name appears here only after the bytes were verified
//   keys/<key>.json       notes
//   partial/              unfinished downloads, see partial.ts

import { dirname, join } from "@std/path";
import { type Digest, requireDigest } from "../domain/digest.ts";
import { isJsonObject } from "../domain/json.ts";
import type { Hashes } from "./hash.ts";
import { removeFile } from "./partial.ts";
import { closing } from "../closing.ts";

/** A file of the cache. */
export interface CachedFile {
  readonly path: string;
  readonly size: number;
  /** Of the file as it is used. */
  readonly sha256: string;
  /** Of the file as it was downloaded. */
  readonly downloaded: Hashes;
}

/** The verified files, by what was asked for. */
export interface Cache {
  readonly partialFolder: string;
  /** Makes the folders. */
  prepare(): Promise<void>;
  /**
   * The file that was kept under a key, when it is still there in its full size.
   * @throws {AgentError} `digest_mismatch` when it lacks a digest that is asked for now
   */
  find(key: string, digests: readonly Digest[]): Promise<CachedFile | undefined>;
  /** Gives a verified file, which is on the disk, its name. */
  keep(
    key: string,
    from: string,
    file: Omit<CachedFile, "path"> & { readonly name: string },
  ): Promise<CachedFile>;
}

/** Opens a cache; nothing is touched yet. */
export function openCache(folder: string): Cache {
  const keyPath = (key: string) => join(folder, "keys", `${key}.json`);
  const partialFolder = join(folder, "partial");
  return {
    partialFolder,
    async prepare() {
      await Deno.mkdir(partialFolder, { recursive: true, mode: 0o700 });
      await Deno.mkdir(join(folder, "keys"), { recursive: true, mode: 0o700 });
    },
    async find(key, digests) {
      const note = await readNote(keyPath(key));
      if (note === undefined) return undefined;
      const path = join(folder, `sha256-${note.sha256}`, note.name);
      if (await sizeOf(path) !== note.size) {
        await removeFile(keyPath(key));
        return undefined;
      }
      for (const digest of digests) requireDigest(`the cached ${path}`, note.downloaded, digest);
      return { path, size: note.size, sha256: note.sha256, downloaded: note.downloaded };
    },
    async keep(key, from, { name, size, sha256, downloaded }) {
      const path = join(folder, `sha256-${sha256}`, name);
      await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await Deno.chmod(from, 0o444);
      await Deno.rename(from, path);
      await syncFolder(dirname(path));
      const note: Note = { name, size, sha256, downloaded };
      const draft = `${keyPath(key)}.new`;
      await Deno.writeTextFile(draft, JSON.stringify(note));
      await Deno.rename(draft, keyPath(key));
      return { path, size, sha256, downloaded };
    },
  };
}

interface Note {
  readonly name: string;
  readonly size: number;
  readonly sha256: string;
  readonly downloaded: Hashes;
}

async function readNote(path: string): Promise<Note | undefined> {
  let value: unknown;
  try {
    value = JSON.parse(await Deno.readTextFile(path));
  } catch (error) {
    // A note that was cut by a crash is as good as none.
    if (error instanceof Deno.errors.NotFound || error instanceof SyntaxError) return undefined;
    throw error;
  }
  if (!isJsonObject(value) || !isJsonObject(value.downloaded)) return undefined;
  const { name, size, sha256, downloaded } = value;
  const whole = typeof name === "string" && /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name) &&
    typeof size === "number" && typeof sha256 === "string" && /^[0-9a-f]{64}$/.test(sha256) &&
    typeof downloaded.sha256 === "string" && typeof downloaded.sha512 === "string";
  if (!whole) return undefined;
  return {
    name,
    size,
    sha256,
    downloaded: { sha256: String(downloaded.sha256), sha512: String(downloaded.sha512) },
  };
}

async function sizeOf(path: string): Promise<number | undefined> {
  try {
    const info = await Deno.lstat(path);
    return info.isFile ? info.size : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** A rename survives power loss only when its folder has been written too. */
async function syncFolder(path: string): Promise<void> {
  await closing(await Deno.open(path, { read: true }), (folder) => folder.sync());
}
