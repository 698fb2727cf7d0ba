// Files of the managed host. Every operation works on exactly the name it is given: it follows no link,
// opens nothing existing for writing, and never waits for a FIFO. zone/root.ts decides the order of
// operations.

import { DIGEST_ALGORITHMS, type DigestAlgorithm } from "../domain/digest.ts";
import { AgentError, isNoSpace, messageOf } from "../domain/error.ts";
import { checkAborted } from "../runtime/wait.ts";
import { runCommand } from "./program.ts";
import { moveWithin, removeWithin, type TailRequest, tailWithin } from "./folder_script.ts";
import { openRegularFile, syncFolder } from "../runtime/regular_file.ts";

/** What is at a path; for a link, the link itself, not its target. */
export interface FileStatus {
  readonly kind: "file" | "folder" | "link" | "other";
  /**
   * Differs only for different files. On this host it is unique to a file; over ssh, files of the same kind
   * and owner share it.
   */
  readonly identity: string;
  /** Size of the file, bytes. */
  readonly size: number;
  /** Hard links; 1 where that cannot be known. */
  readonly links: number;
  readonly mode: number;
  /** Numeric id of its user. */
  readonly owner: number;
}

/** A file made by HostFiles.create() that is still being written. */
export interface HostFileWriter {
  readonly status: FileStatus;
  /** Appends all of these bytes. */
  write(bytes: Uint8Array): Promise<void>;
  /** Sets the mode, waits until the bytes are on the disk, and returns the status. */
  finish(mode: number): Promise<FileStatus>;
  close(): Promise<void>;
}

/**
 * The files of one host. Errors of the operating system are thrown as AgentError `storage_full` or `host`.
 */
export interface HostFiles {
  /** Whether written bytes must be read back on the host before they count. */
  readonly rereadsCopies: boolean;
  /** Null for a path that does not exist. */
  status(path: string): Promise<FileStatus | null>;
  /** Bytes that may still be written below a folder, quotas included. */
  freeBytes(folder: string): Promise<number>;
  /** Creates a new file. @throws {AgentError} `conflict` when the path exists */
  create(path: string): Promise<HostFileWriter>;
  /**
   * Digests of a regular file; null for anything else, and for a file with several hard links if status()
   * cannot count them.
   */
  digests(
    path: string,
    algorithms: readonly DigestAlgorithm[],
    signal?: AbortSignal,
  ): Promise<Digests | null>;
  /**
   * Moves a file of the folder above into this folder, replacing a regular file of that name. The folder is
   * entered first and never left, so no link that replaces it can lead the file elsewhere.
   * @throws {AgentError} `conflict` when the path leads elsewhere, or something else has the name
   */
  moveWithin(move: { folder: string; name: string; temporary: string }): Promise<void>;
  /** Removes a name in a folder in the same way; false when it does not exist. */
  removeWithin(removal: { folder: string; name: string }): Promise<boolean>;
  /** Reads the end of a regular file in the same way; null when there is none. */
  tailWithin(request: TailRequest): Promise<string | null>;
  /** Removes a name; false when it does not exist. @throws {AgentError} `conflict` for a folder */
  remove(path: string): Promise<boolean>;
  /** Waits until the names in a folder are on the disk. */
  sync(folder: string): Promise<void>;
}

/** The files of this host. */
export function localFiles(): HostFiles {
  return {
    rereadsCopies: false,
    status: (path) => reported("look at", path, () => statusOf(path)),
    freeBytes: (folder) => reported("ask for the free space of", folder, () => freeBytesOf(folder)),
    create: (path) => createFile(path),
    digests: (path, algorithms, signal) =>
      reported("read", path, () => digestsOf(path, algorithms, signal)),
    moveWithin: (move) => moveWithin(runCommand, move),
    removeWithin: (removal) => removeWithin(runCommand, removal),
    tailWithin: (request) => tailWithin(runCommand, request),
    remove: (path) => reported("remove", path, () => removeName(path)),
    sync: (folder) => reported("write", folder, () => syncFolder(folder)),
  };
}

/** Runs an operation and throws errors of the operating system as AgentError. */
async function reported<T>(verb: string, path: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    if (cause instanceof AgentError) throw cause;
    const code = isNoSpace(cause) ? "storage_full" : "host";
    const message = `Cannot ${verb} ${JSON.stringify(path)}: ${messageOf(cause)}`;
    throw new AgentError(code, message, { cause });
  }
}

async function statusOf(path: string): Promise<FileStatus | null> {
  try {
    const info = await Deno.lstat(path);
    return {
      kind: info.isSymlink ? "link" : info.isDirectory ? "folder" : info.isFile ? "file" : "other",
      identity: `${info.dev}:${info.ino}`,
      size: info.size,
      links: info.nlink ?? 0,
      mode: (info.mode ?? 0) & 0o7777,
      owner: info.uid ?? -1,
    };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    // Part of the path is a regular file, so nothing is below it.
    if (error instanceof Deno.errors.NotADirectory) return null;
    throw error;
  }
}

async function freeBytesOf(folder: string): Promise<number> {
  const { statfs } = await import("node:fs/promises");
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

async function createFile(path: string): Promise<HostFileWriter> {
  const { open } = await import("node:fs/promises");
  const { constants: { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } } = await import("node:fs");
  const handle = await reported("create", path, async () => {
    try {
      return await open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o400);
    } catch (cause) {
      if (!(cause instanceof Error && "code" in cause && cause.code === "EEXIST")) throw cause;
      const message = `Cannot create ${JSON.stringify(path)}: it already exists`;
      throw new AgentError("conflict", message, { cause });
    }
  });
  // By handle, since the name may refer to another file by the next call.
  const status = async (): Promise<FileStatus> => {
    const info = await handle.stat();
    return {
      kind: "file",
      identity: `${info.dev}:${info.ino}`,
      size: info.size,
      links: info.nlink,
      mode: info.mode & 0o7777,
      owner: info.uid,
    };
  };
  const first = await reported("look at", path, status).catch(async (error) => {
    await handle.close();
    throw error;
  });
  const ahead = openSyncAhead(() => handle.datasync());
  return {
    status: first,
    write: (bytes) =>
      reported("write", path, async () => {
        for (let done = 0; done < bytes.length;) {
          done += (await handle.write(bytes, done, bytes.length - done)).bytesWritten;
        }
        ahead.wrote(bytes.length);
      }),
    finish: (mode) =>
      reported("write", path, async () => {
        await ahead.ended();
        await handle.chmod(mode);
        await handle.sync();
        return await status();
      }),
    close: async () => {
      // The handle must stay open during a sync; finish() reports its error.
      await ahead.ended().catch(() => {});
      await handle.close();
    },
  };
}

async function digestsOf(
  path: string,
  algorithms: readonly DigestAlgorithm[],
  signal: AbortSignal | undefined,
): Promise<Digests | null> {
  const { createHash } = await import("node:crypto");
  const source = await openRegularFile(path);
  if (source === null) return null;
  try {
    const hashes = algorithms.map((algorithm) => [algorithm, createHash(algorithm)] as const);
    for await (const bytes of source.parts()) {
      checkAborted(`Cannot read ${JSON.stringify(path)}`, signal);
      for (const [, hash] of hashes) hash.update(bytes);
    }
    return Object.fromEntries(hashes.map(([algorithm, hash]) => [algorithm, hash.digest("hex")]));
  } finally {
    await source.close();
  }
}

async function removeName(path: string): Promise<boolean> {
  const status = await statusOf(path);
  if (status === null) return false;
  // Deno.remove() would also remove an empty folder.
  if (status.kind === "folder") {
    throw new AgentError("conflict", `Cannot remove ${JSON.stringify(path)}: it is a folder`);
  }
  try {
    await Deno.remove(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Least bytes between two syncs. */
const AHEAD_BYTES = 32 * 1024 * 1024;

/**
 * The syncs of one long file while it is still being written, so that the sync at its end is short. Linux keeps written
 * bytes in memory for seconds. File systems of illumos write early anyway; there a sync would only cost a second copy in
 * their log.
 */
interface SyncAhead {
  /**
   * Counts written bytes.
   * @throws the error of an earlier sync: the system reports it once
   */
  wrote(bytes: number): void;
  /** Waits for the running sync. @throws the error of any sync */
  ended(): Promise<void>;
}

/**
 * Opens the syncs of a file.
 * @param sync waits until all bytes written so far are on the disk
 */
export function openSyncAhead(
  sync: () => Promise<void>,
  os: typeof Deno.build.os = Deno.build.os,
): SyncAhead {
  let unsynced = 0;
  let underWay: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;
  const check = () => {
    if (failure !== undefined) throw failure.error;
  };
  const begin = async () => {
    unsynced = 0;
    try {
      await sync();
    } catch (error) {
      failure = { error };
    }
    underWay = undefined;
  };
  return {
    wrote(bytes) {
      check();
      unsynced += bytes;
      if (os === "linux" && unsynced >= AHEAD_BYTES) underWay ??= begin();
    },
    async ended() {
      await underWay;
      check();
    },
  };
}

/** Computed digests, in lower-case hexadecimal. */
export type Digests = Readonly<Partial<Record<DigestAlgorithm, string>>>;

/** Digests that a file must have, in hexadecimal; every given one must match. */
export interface PromisedDigests {
  sha256?: string;
  sha512?: string;
}

/** The first expected digest that does not match; null when all do. */
export function brokenPromise(promised: PromisedDigests, found: Digests): DigestAlgorithm | null {
  const broken = DIGEST_ALGORITHMS.find((algorithm) => {
    const digest = promised[algorithm];
    return digest !== undefined && digest.toLowerCase() !== found[algorithm];
  });
  return broken ?? null;
}
