// Deno's files and folders on Node's.

import fs from "node:fs";
import process from "node:process";
import os from "node:os";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { asDeno, asDenoLater, called, errors } from "./errors.ts";

const later = fs.promises;
/** Bytes that a stream of a file reads at once. */
const PIECE_BYTES = 64 * 1024;
/** Milliseconds between two tries to take a lock. */
const LOCK_RETRY_MS = 3;
/** What SQLite says of a database that another process has locked, and of one whose file is gone. */
const NOT_NOW: readonly unknown[] = [5, 1802];

/** Deno.SeekMode. */
export const SeekMode = { Start: 0, Current: 1, End: 2 } as const;

function pathOf(name: string | URL): string {
  return typeof name === "string" ? name : fileURLToPath(name);
}

/** What the program asks of a file. */
function infoOf(stats: fs.Stats) {
  const { size, mtime, dev, ino, mode, nlink, uid, gid } = stats;
  const [isFile, isDirectory] = [stats.isFile(), stats.isDirectory()];
  const [isSymlink, isSocket] = [stats.isSymbolicLink(), stats.isSocket()];
  return { isFile, isDirectory, isSymlink, isSocket, size, mtime, dev, ino, mode, nlink, uid, gid };
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
  #unlock: (() => void) | undefined;

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

  async stat(): Promise<ReturnType<typeof infoOf>> {
    return infoOf(await called<fs.Stats>((done) => fs.fstat(this.#open, done)));
  }

  statSync(): ReturnType<typeof infoOf> {
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
   * Node has no flock(2): a database beside the file is locked, which its process cannot leave locked. That of a
   * folder is in the folder. It is gone again once the lock is.
   */
  async lock(): Promise<void> {
    const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
    const name = `${this.#path}${(await this.stat()).isDirectory ? "/" : ""}.held`;
    // Open until the end: closing it would end the locks that this process has on it.
    const file = fs.openSync(name, "a", 0o600);
    const lock = new DatabaseSync(name);
    const there = () =>
      fs.statSync(name, { throwIfNoEntry: false })?.ino === fs.fstatSync(file).ino;
    while (there() && !tookLock(lock)) await new Promise((go) => setTimeout(go, LOCK_RETRY_MS));
    this.#unlock = () => {
      if (there()) fs.rmSync(name);
      lock.close();
      fs.closeSync(file);
    };
    if (there()) return;
    // What is gone was somebody else's lock: whoever comes now makes another.
    this.#unlock();
    await this.lock();
  }

  close(): void {
    const open = this.#open;
    this.#unlock?.();
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

function tookLock(database: DatabaseSync): boolean {
  try {
    database.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    // Whatever was thrown, only an error of SQLite has such a code.
    if (NOT_NOW.includes((error as { errcode?: unknown }).errcode)) return false;
    throw error;
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

/** A function of Node that takes the name of a file first, as one of Deno's. */
function named<Rest extends unknown[], T>(run: (name: string, ...rest: Rest) => Promise<T>) {
  return (name: string | URL, ...rest: Rest): Promise<T> =>
    asDenoLater(() => run(pathOf(name), ...rest));
}

/** The same for one that answers at once. */
function namedSync<Rest extends unknown[], T>(run: (name: string, ...rest: Rest) => T) {
  return (name: string | URL, ...rest: Rest): T => asDeno(() => run(pathOf(name), ...rest));
}

const remove = named(async (name, options: Deno.RemoveOptions = {}) => {
  const isFolder = (await later.lstat(name)).isDirectory();
  if (isFolder && options.recursive === true) await later.rm(name, { recursive: true });
  else await (isFolder ? later.rmdir(name) : later.unlink(name));
});

const removeSync = namedSync((name, options: Deno.RemoveOptions = {}) => {
  const isFolder = fs.lstatSync(name).isDirectory();
  if (isFolder && options.recursive === true) return fs.rmSync(name, { recursive: true });
  return isFolder ? fs.rmdirSync(name) : fs.unlinkSync(name);
});

async function* entries(name: string): AsyncGenerator<Deno.DirEntry> {
  const folder = await asDenoLater(() => later.opendir(name));
  for await (const entry of folder) yield entryOf(entry);
}

type Data = string | Uint8Array | ReadableStream<Uint8Array>;

const writeFile = named((name, data: Data, options: Deno.WriteFileOptions = {}) =>
  later.writeFile(name, data, writing(options))
);

/** Deno's functions for files and folders, as far as the agent uses them. */
export const files = {
  open,
  remove,
  removeSync,
  writeFile,
  writeTextFile: writeFile,
  stat: named(async (name) => infoOf(await later.stat(name))),
  statSync: namedSync((name) => infoOf(fs.statSync(name))),
  lstat: named(async (name) => infoOf(await later.lstat(name))),
  lstatSync: namedSync((name) => infoOf(fs.lstatSync(name))),
  readFile: named(async (name, options: Deno.ReadFileOptions = {}) =>
    new Uint8Array(await later.readFile(name, { ...options }))
  ),
  readTextFile: named((name, options: Deno.ReadFileOptions = {}) =>
    later.readFile(name, { ...options, encoding: "utf8" })
  ),
  mkdir: named(async (name, options: Deno.MkdirOptions = {}) =>
    void await later.mkdir(name, { ...options })
  ),
  mkdirSync: namedSync((name, options: Deno.MkdirOptions = {}) =>
    void fs.mkdirSync(name, { ...options })
  ),
  copyFileSync: namedSync((from, to: string | URL) => fs.copyFileSync(from, pathOf(to))),
  rename: named((from, to: string | URL) => later.rename(from, pathOf(to))),
  link: named(later.link),
  realPath: named((name) => later.realpath(name)),
  realPathSync: namedSync((name) => fs.realpathSync(name)),
  chmod: named(later.chmod),
  chown: named(async (name, uid: number | null, gid: number | null) => {
    const found = await later.stat(name);
    await later.chown(name, uid ?? found.uid, gid ?? found.gid);
  }),
  readDir: (name: string | URL): AsyncIterable<Deno.DirEntry> => entries(pathOf(name)),
  readDirSync: namedSync((name) => fs.readdirSync(name, { withFileTypes: true }).map(entryOf)),
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
