// Generates bootable ISO 9660 images piece by piece, so that their size costs no memory. The same input gives the
// same bytes. Names are of interchange level 1, in one level of folders; the samples need no more. Every part gets
// its sectors before any byte is generated:
//
//   sector 0   system area, empty       19   path table, little-endian
//         16   primary descriptor        .   path table, big-endian
//         17   boot record               .   directories, root first
//         18   end of descriptors        .   boot program, boot catalog, files

import { AgentError } from "../../domain/error.ts";
import type { Instant } from "../../domain/instant.ts";
import {
  bootCatalog,
  bootRecord,
  descriptorTerminator,
  directoryRecord,
  directoryRecordBytes,
  type Extent,
  PARENT_NAME,
  pathTableRecord,
  pathTableRecordBytes,
  primaryVolumeDescriptor,
  SECTOR_BYTES,
  SELF_NAME,
} from "./iso_record.ts";

/** Bytes that can be generated repeatedly, always the same. */
export interface Content {
  /** Bytes in all. */
  readonly size: number;
  chunks(): Iterable<Uint8Array<ArrayBuffer>>;
}

/** Digests of some content, lower-case hex. */
export interface ContentDigests {
  readonly sha256: string;
  readonly sha512: string;
}

/** Hashing gives the event loop a turn after this many bytes. */
const TURN_BYTES = 4 << 20; // 4 MiB, about 10 ms

/** Content that is held in memory. */
export function contentOf(bytes: Uint8Array<ArrayBuffer>): Content {
  return { size: bytes.length, chunks: () => [bytes] };
}

/** Both digests in one pass. */
export async function digestsOf(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<ContentDigests> {
  // Web Crypto only hashes whole buffers. Imported here, since at start-up it would cost milliseconds.
  const { createHash } = await import("node:crypto");
  const [sha256, sha512] = [createHash("sha256"), createHash("sha512")];
  let untilTurn = TURN_BYTES;
  for await (const chunk of chunks) {
    sha256.update(chunk);
    sha512.update(chunk);
    untilTurn -= chunk.length;
    if (untilTurn > 0) continue;
    await new Promise((resolve) => setTimeout(resolve));
    signal?.throwIfAborted();
    untilTurn = TURN_BYTES;
  }
  return { sha256: sha256.digest("hex"), sha512: sha512.digest("hex") };
}

/** The content of an image. */
export interface IsoImage {
  /** 1 to 32 characters of A-Z, 0-9 and underscore. */
  readonly volume: string;
  /** The date of the volume and of every file, so that the bytes do not depend on a clock. */
  readonly date: Instant;
  /** The program that a BIOS starts, 1 to 2048 bytes. */
  readonly boot: Uint8Array<ArrayBuffer>;
  /** Paths are unique, and none is in the folder `BOOT`, which is added. */
  readonly files: readonly IsoFile[];
}

/** The largest file in one extent, bytes: its size is a 32-bit number. */
const FILE_BYTES_MAX = 2 ** 32 - 1;
const VOLUME = /^[A-Z0-9_]{1,32}$/;
const FILE_PATH = /^(?:[A-Z0-9_]{1,8}\/)?[A-Z0-9_]{1,8}\.[A-Z0-9_]{1,3}$/;

/**
 * A bootable ISO 9660 image (El Torito, no emulation).
 * @throws {AgentError} `invalid_argument` when an image cannot have such a name or size
 * @see ECMA-119; El Torito Bootable CD-ROM Format Specification 1.0
 */
export function isoImage(image: IsoImage): Content {
  const fault = imageFault(image);
  if (fault !== undefined) {
    throw new AgentError("invalid_argument", `Cannot make ISO image: ${fault}`);
  }
  const layout = isoLayout(contentOf(image.boot), image.files);
  return { size: layout.sectors * SECTOR_BYTES, chunks: () => imageChunks(image, layout) };
}

/** What is wrong with the parts of an image, if anything. */
function imageFault({ volume, boot, files }: IsoImage): string | undefined {
  if (!VOLUME.test(volume)) {
    return `volume name is ${JSON.stringify(volume)}, expected 1 to 32 characters of A-Z, 0-9, _`;
  }
  if (boot.length === 0 || boot.length > SECTOR_BYTES) {
    return `boot program has ${boot.length} bytes, expected 1 to ${SECTOR_BYTES}`;
  }
  const paths = new Set<string>();
  for (const { path, content } of files) {
    const named = `path ${JSON.stringify(path)}`;
    if (!FILE_PATH.test(path)) return `${named} is not like NAME.EXT or FOLDER/NAME.EXT`;
    if (path.startsWith(`${BOOT_FOLDER}/`)) return `${named} is in the folder of the boot program`;
    if (paths.has(path)) return `${named} is given twice`;
    if (content.size > FILE_BYTES_MAX) {
      return `${named} has ${content.size} bytes, expected at most ${FILE_BYTES_MAX}`;
    }
    paths.add(path);
  }
  return undefined;
}

/** The image from its first sector to its last; each chunk begins where the one before ended. */
function* imageChunks(image: IsoImage, layout: IsoLayout): Generator<Uint8Array<ArrayBuffer>> {
  yield new Uint8Array(16 * SECTOR_BYTES); // system area
  yield primaryVolumeDescriptor({
    name: image.volume,
    date: image.date,
    sectors: layout.sectors,
    pathTableBytes: layout.pathTableBytes,
    pathTableSectors: layout.pathTableSectors,
    root: layout.root.extent,
  });
  yield bootRecord(layout.catalogSector);
  yield descriptorTerminator();
  yield pathTable(layout, true);
  yield pathTable(layout, false);
  yield folderRecords(layout.root, layout, image.date);
  for (const folder of layout.folders) yield folderRecords(folder, layout, image.date);
  for (const { content, path } of layout.files) yield* fileChunks(content, path);
}

function pathTable(layout: IsoLayout, littleEndian: boolean): Uint8Array<ArrayBuffer> {
  const table = new Uint8Array(sectorEnd(layout.pathTableBytes));
  let at = 0;
  for (const { name, extent } of [layout.root, ...layout.folders]) {
    // The parent of every folder, root included, is root, the first in the table.
    const record = pathTableRecord(name, extent.sector, 1, littleEndian);
    table.set(record, at);
    at += record.length;
  }
  return table;
}

function folderRecords(folder: Folder, layout: IsoLayout, date: Instant): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(folder.extent.size);
  const entries = [
    { name: SELF_NAME, kind: "directory", extent: folder.extent } as const,
    { name: PARENT_NAME, kind: "directory", extent: layout.root.extent } as const,
    ...folder.entries,
  ];
  let at = 0;
  for (const { name, kind, extent } of entries) {
    const record = directoryRecord(name, kind, extent, date);
    // No record crosses a sector boundary.
    if (SECTOR_BYTES - at % SECTOR_BYTES < record.length) at = sectorEnd(at);
    bytes.set(record, at);
    at += record.length;
  }
  return bytes;
}

/** A file and the zeros up to the next sector. */
function* fileChunks(content: Content, path: string): Generator<Uint8Array<ArrayBuffer>> {
  let made = 0;
  for (const chunk of content.chunks()) {
    made += chunk.length;
    yield chunk;
  }
  if (made !== content.size) {
    throw new AgentError(
      "internal",
      `Cannot make ISO image: ${path} has ${made} bytes, expected ${content.size}`,
    );
  }
  const end = Math.max(SECTOR_BYTES, sectorEnd(made));
  if (end > made) yield new Uint8Array(end - made);
}

/** Rounds a number of bytes up to whole sectors. */
function sectorEnd(bytes: number): number {
  return Math.ceil(bytes / SECTOR_BYTES) * SECTOR_BYTES;
}

/** A file of an image: `README.TXT`, or `DOCS/README.TXT` in a folder. */
interface IsoFile {
  readonly path: string;
  readonly content: Content;
}

/** A name in a folder, and the place of its content. */
interface FolderEntry {
  readonly name: string;
  readonly kind: "file" | "directory";
  readonly extent: Extent;
}

interface Folder {
  readonly name: string;
  readonly extent: Extent;
  /** Sorted as section 9.3 of ECMA-119 requires; without the entries for the folder itself and its parent. */
  readonly entries: readonly FolderEntry[];
}

/** Where everything is in an image. */
interface IsoLayout {
  /** Size of the whole image, sectors. */
  readonly sectors: number;
  readonly pathTableBytes: number;
  /** First sectors of the path tables in little-endian and big-endian order. */
  readonly pathTableSectors: readonly [number, number];
  readonly root: Folder;
  /** The folders in root, sorted by name. */
  readonly folders: readonly Folder[];
  /** In the order of their sectors. */
  readonly files: readonly (IsoFile & { readonly extent: Extent })[];
  readonly catalogSector: number;
}

/** A folder with the boot program and the boot catalog as files, so that every sector is accounted for. */
const BOOT_FOLDER = "BOOT";
/** The sectors before the path tables: the system area and three descriptors. */
const LEADING_SECTORS = 19;

/** Plans an image: the boot program, then these files in order. */
function isoLayout(boot: Content, files: readonly IsoFile[]): IsoLayout {
  let next = LEADING_SECTORS;
  const place = (size: number): Extent => {
    const extent = { sector: next, size };
    next += Math.max(1, Math.ceil(size / SECTOR_BYTES)); // an empty file takes a sector too
    return extent;
  };
  const [programPath, catalogPath] = [`${BOOT_FOLDER}/BOOT.BIN`, `${BOOT_FOLDER}/BOOT.CAT`];
  const paths = [programPath, catalogPath, ...files.map(({ path }) => path)];
  const folderNames = [...new Set(paths.map(folderOf))].filter((name) => name !== "").sort();

  const pathTableBytes = [SELF_NAME, ...folderNames]
    .reduce((bytes, name) => bytes + pathTableRecordBytes(name), 0);
  const pathTableSectors = [place(pathTableBytes).sector, place(pathTableBytes).sector] as const;
  const rootExtent = place(folderBytes([...folderNames, ...namesIn("", paths)]));
  const folderEntries = folderNames.map((name): FolderEntry => (
    { name, kind: "directory", extent: place(folderBytes(namesIn(name, paths))) }
  ));
  // The catalog contains the sector of the program, so the program is placed first.
  const program = { path: programPath, content: boot, extent: place(boot.size) };
  const catalog = { path: catalogPath, content: contentOf(bootCatalog(program.extent)) };
  const placed = [
    program,
    ...[catalog, ...files].map((file) => ({ ...file, extent: place(file.content.size) })),
  ];

  const fileEntries = (folder: string): FolderEntry[] =>
    placed.filter(({ path }) => folderOf(path) === folder)
      .map(({ path, extent }) => ({ name: recordName(path), kind: "file", extent }));
  return {
    sectors: next,
    pathTableBytes,
    pathTableSectors,
    root: {
      name: SELF_NAME,
      extent: rootExtent,
      entries: [...folderEntries, ...fileEntries("")].sort(byName),
    },
    folders: folderEntries.map(({ name, extent }) => (
      { name, extent, entries: fileEntries(name).sort(byName) }
    )),
    files: placed,
    catalogSector: program.extent.sector + 1,
  };
}

/** The folder of a path, empty for root. */
function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.indexOf("/")));
}

/** The name of a file in its record, with version 1. */
function recordName(path: string): string {
  return `${path.slice(path.indexOf("/") + 1)};1`;
}

function namesIn(folder: string, paths: readonly string[]): string[] {
  return paths.filter((path) => folderOf(path) === folder).map(recordName);
}

/** Ignores versions, since a semicolon would sort after the digits of a longer name. */
function byName(a: FolderEntry, b: FolderEntry): number {
  return a.name.replace(/;1$/, "") < b.name.replace(/;1$/, "") ? -1 : 1;
}

/** Size of a folder, bytes: whole sectors, since no record crosses a sector boundary. */
function folderBytes(names: readonly string[]): number {
  let [sectors, used] = [1, 0];
  for (const name of [SELF_NAME, PARENT_NAME, ...names]) {
    const bytes = directoryRecordBytes(name);
    if (used + bytes > SECTOR_BYTES) [sectors, used] = [sectors + 1, 0];
    used += bytes;
  }
  return sectors * SECTOR_BYTES;
}
