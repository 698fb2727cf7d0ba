// Deno's files and folders on Node's.

import fs from "node:fs";
import process from "node:process";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { asDeno, asDenoLater, called, errors } from "./errors.ts";

const later = fs.promises;
/** Bytes that a stream of a file reads at once. */
const PIECE_BYTES = 64 * 1024;
/** Milliseconds between two tries to take a lock. */
const LOCK_RETRY_MS = 3;

// Captured: a guest takes the names of the platform away from itself.
const { ReadableStream, setTimeout, crypto } = globalThis;

/** Deno.SeekMode. */
export const SeekMode = { Start: 0, Current: 1, End: 2 } as const;

function pathOf(name: string | URL): string {
  return typeof name === "string" ? name : fileURLToPath(name);
}

/** What the program asks of a file. */
type FileFacts = Pick<
  Deno.FileInfo,
  | "isFile"
  | "isDirectory"
  | "isSymlink"
  | "isSocket"
  | "size"
  | "mtime"
  | "dev"
  | "ino"
  | "mode"
  | "nlink"
  | "uid"
  | "gid"
>;

function infoOf(stats: fs.Stats): FileFacts {
  return {
    isFile: stats.isFile(),
    isDirectory: stats.isDirectory(),
    isSymlink: stats.isSymbolicLink(),
    isSocket: stats.isSocket(),
    size: stats.size,
    mtime: stats.mtime,
    dev: stats.dev,
    ino: stats.ino,
    mode: stats.mode,
    nlink: stats.nlink,
    uid: stats.uid,
    gid: stats.gid,
  };
}

function entryOf(entry: fs.Dirent): Deno.DirEntry {
  return {
    name: entry.name,
    isFile: entry.isFile(),
    isDirectory: entry.isDirectory(),
    isSymlink: entry.isSymbolicLink(),
  };
}

function flagsOf(
  { read, write, append, create, createNew, truncate }: Deno.OpenOptions,
): number {
  const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY } = fs.constants;
  const writes = write === true || append === true;
  return (writes ? (read === true ? O_RDWR : O_WRONLY) : O_RDONLY) |
    (append === true ? O_APPEND : 0) | (create === true ? O_CREAT : 0) |
    (createNew === true ? O_CREAT | O_EXCL : 0) | (truncate === true ? O_TRUNC : 0);
}

/** An open file. */
export class FsFile {
  readonly #path: string;
  readonly #appends: boolean;
  #descriptor: number | undefined;
  #at = 0;
  #lock: string | undefined;

  constructor(descriptor: number, name: string, appends: boolean) {
    this.#descriptor = descriptor;
    this.#path = name;
    this.#appends = appends;
  }

  get #open(): number {
    if (this.#descriptor === undefined) throw new errors.BadResource("Bad resource ID");
    return this.#descriptor;
  }

  #read(count: number, buffer: Uint8Array): number | null {
    this.#at += count;
    return count === 0 && buffer.length > 0 ? null : count;
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    const open = this.#open;
    const count = await called<number>((done) =>
      fs.read(open, buffer, 0, buffer.length, this.#at, done)
    );
    return this.#read(count, buffer);
  }

  readSync(buffer: Uint8Array): number | null {
    const count = asDeno(() => fs.readSync(this.#open, buffer, 0, buffer.length, this.#at));
    return this.#read(count, buffer);
  }

  async write(bytes: Uint8Array): Promise<number> {
    const open = this.#open;
    const at = this.#appends ? null : this.#at;
    const count = await called<number>((done) => fs.write(open, bytes, 0, bytes.length, at, done));
    this.#at += count;
    return count;
  }

  writeSync(bytes: Uint8Array): number {
    const at = this.#appends ? null : this.#at;
    const count = asDeno(() => fs.writeSync(this.#open, bytes, 0, bytes.length, at));
    this.#at += count;
    return count;
  }

  async seek(offset: number | bigint, whence: Deno.SeekMode): Promise<number> {
    return this.#seek(offset, whence, whence === SeekMode.End ? (await this.stat()).size : 0);
  }

  seekSync(offset: number | bigint, whence: Deno.SeekMode): number {
    return this.#seek(offset, whence, whence === SeekMode.End ? this.statSync().size : 0);
  }

  #seek(offset: number | bigint, whence: Deno.SeekMode, size: number): number {
    const base = whence === SeekMode.Start ? 0 : whence === SeekMode.Current ? this.#at : size;
    return this.#at = base + Number(offset);
  }

  async stat(): Promise<FileFacts> {
    return infoOf(await called<fs.Stats>((done) => fs.fstat(this.#open, done)));
  }

  statSync(): FileFacts {
    return asDeno(() => infoOf(fs.fstatSync(this.#open)));
  }

  async sync(): Promise<void> {
    await called<void>((done) => fs.fsync(this.#open, (error) => done(error)));
  }

  async syncData(): Promise<void> {
    await called<void>((done) => fs.fdatasync(this.#open, (error) => done(error)));
  }

  async truncate(size = 0): Promise<void> {
    await called<void>((done) => fs.ftruncate(this.#open, size, (error) => done(error)));
  }

  /**
   * Node has no flock(2): the lock is a folder beside the file, which holds the id of its process. One of a
   * process that is gone is taken away.
   */
  async lock(): Promise<void> {
    const folder = `${this.#path}.held`;
    while (!takeLock(folder)) {
      await new Promise<void>((resolve) => void setTimeout(resolve, LOCK_RETRY_MS));
    }
    this.#lock = folder;
  }

  #release(): void {
    if (this.#lock !== undefined) fs.rmSync(this.#lock, { recursive: true, force: true });
    this.#lock = undefined;
  }

  close(): void {
    const open = this.#open;
    this.#release();
    this.#descriptor = undefined;
    asDeno(() => fs.closeSync(open));
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== undefined) this.close();
  }

  get readable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    return new ReadableStream({
      type: "bytes",
      pull: async (controller) => {
        const buffer = new Uint8Array(PIECE_BYTES);
        const count = await this.read(buffer);
        if (count !== null) return controller.enqueue(buffer.subarray(0, count));
        this.close();
        controller.close();
        controller.byobRequest?.respond(0);
      },
      cancel: () => this.close(),
    });
  }
}

/** Whether this process has it now. */
function takeLock(folder: string): boolean {
  try {
    fs.mkdirSync(folder);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") {
      if (isStale(folder)) fs.rmSync(folder, { recursive: true, force: true });
      return false;
    }
    throw error;
  }
  fs.writeFileSync(`${folder}/pid`, `${process.pid}`);
  return true;
}

function isStale(folder: string): boolean {
  try {
    const pid = Number(fs.readFileSync(`${folder}/pid`, "utf8"));
    if (pid > 0) process.kill(pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "ESRCH";
  }
}

async function open(name: string | URL, options: Deno.OpenOptions = { read: true }) {
  const { mode = 0o666, append = false } = options;
  const file = pathOf(name);
  const descriptor = await called<number>((done) => fs.open(file, flagsOf(options), mode, done));
  return new FsFile(descriptor, file, append);
}

function writing({ append, createNew, mode, signal }: Deno.WriteFileOptions) {
  return {
    flag: append === true ? "a" : createNew === true ? "wx" : "w",
    ...(mode === undefined ? {} : { mode }),
    ...(signal === undefined ? {} : { signal }),
  };
}

function temporary({ dir, prefix = "" }: Deno.MakeTempOptions = {}): string {
  return path.join(dir ?? os.tmpdir(), prefix);
}

async function remove(name: string | URL, options: Deno.RemoveOptions = {}): Promise<void> {
  const file = pathOf(name);
  await asDenoLater(async () => {
    const isFolder = (await later.lstat(file)).isDirectory();
    if (isFolder && options.recursive === true) return await later.rm(file, { recursive: true });
    await (isFolder ? later.rmdir(file) : later.unlink(file));
  });
}

function removeSync(name: string | URL, options: Deno.RemoveOptions = {}): void {
  const file = pathOf(name);
  asDeno(() => {
    const isFolder = fs.lstatSync(file).isDirectory();
    if (isFolder && options.recursive === true) return fs.rmSync(file, { recursive: true });
    return isFolder ? fs.rmdirSync(file) : fs.unlinkSync(file);
  });
}

async function* entries(name: string): AsyncGenerator<Deno.DirEntry> {
  const folder = await asDenoLater(() => later.opendir(name));
  for await (const entry of folder) yield entryOf(entry);
}

/** Deno's functions for files and folders, as far as the agent uses them. */
export const files = {
  open,
  remove,
  removeSync,
  stat: (name: string | URL) => asDenoLater(async () => infoOf(await later.stat(pathOf(name)))),
  statSync: (name: string | URL) => asDeno(() => infoOf(fs.statSync(pathOf(name)))),
  lstat: (name: string | URL) => asDenoLater(async () => infoOf(await later.lstat(pathOf(name)))),
  lstatSync: (name: string | URL) => asDeno(() => infoOf(fs.lstatSync(pathOf(name)))),
  readFile: (name: string | URL, options: Deno.ReadFileOptions = {}) =>
    asDenoLater(async () => new Uint8Array(await later.readFile(pathOf(name), { ...options }))),
  readTextFile: (name: string | URL, options: Deno.ReadFileOptions = {}) =>
    asDenoLater(() => later.readFile(pathOf(name), { ...options, encoding: "utf8" })),
  writeFile: (
    name: string | URL,
    data: Uint8Array | ReadableStream<Uint8Array>,
    options: Deno.WriteFileOptions = {},
  ) => asDenoLater(() => later.writeFile(pathOf(name), data, writing(options))),
  writeTextFile: (name: string | URL, data: string, options: Deno.WriteFileOptions = {}) =>
    asDenoLater(() => later.writeFile(pathOf(name), data, writing(options))),
  mkdir: async (name: string | URL, options: Deno.MkdirOptions = {}) => {
    await asDenoLater(() => later.mkdir(pathOf(name), { ...options }));
  },
  mkdirSync: (name: string | URL, options: Deno.MkdirOptions = {}) => {
    asDeno(() => fs.mkdirSync(pathOf(name), { ...options }));
  },
  rename: (from: string | URL, to: string | URL) =>
    asDenoLater(() => later.rename(pathOf(from), pathOf(to))),
  link: (from: string, to: string) => asDenoLater(() => later.link(from, to)),
  realPath: (name: string | URL) => asDenoLater(() => later.realpath(pathOf(name))),
  realPathSync: (name: string | URL) => asDeno(() => fs.realpathSync(pathOf(name))),
  chmod: (name: string | URL, mode: number) => asDenoLater(() => later.chmod(pathOf(name), mode)),
  chown: (name: string | URL, uid: number | null, gid: number | null) =>
    asDenoLater(async () => {
      const found = await later.stat(pathOf(name));
      await later.chown(pathOf(name), uid ?? found.uid, gid ?? found.gid);
    }),
  readDir: (name: string | URL): AsyncIterable<Deno.DirEntry> => entries(pathOf(name)),
  readDirSync: (name: string | URL): Iterable<Deno.DirEntry> =>
    asDeno(() => fs.readdirSync(pathOf(name), { withFileTypes: true }).map(entryOf)),
  makeTempDir: (options?: Deno.MakeTempOptions) =>
    asDenoLater(() => later.mkdtemp(temporary(options))),
  makeTempDirSync: (options?: Deno.MakeTempOptions) =>
    asDeno(() => fs.mkdtempSync(temporary(options))),
  makeTempFile: (options?: Deno.MakeTempOptions) =>
    asDenoLater(async () => {
      const name = `${temporary(options)}${crypto.randomUUID()}${options?.suffix ?? ""}`;
      await later.writeFile(name, "", { flag: "wx", mode: 0o600 });
      return name;
    }),
};
