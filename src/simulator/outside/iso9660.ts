// Makes bootable ISO 9660 images, piece by piece from a layout. The same input gives the same
// bytes. Names are of interchange level 1, in folders of one level; the samples need no more.

import { AgentError } from "../../domain/error.ts";
import type { Instant } from "../../domain/instant.ts";
import { type Content, contentOf } from "./content.ts";
import { BOOT_FOLDER, type Folder, type IsoFile, type IsoLayout, isoLayout } from "./iso_layout.ts";
import {
  bootRecord,
  descriptorTerminator,
  directoryRecord,
  PARENT_NAME,
  pathTableRecord,
  primaryVolumeDescriptor,
  SECTOR_BYTES,
  SELF_NAME,
} from "./iso_record.ts";

/** What goes into an image. */
export interface IsoImage {
  /** 1 to 32 characters of A-Z, 0-9 and underscore. */
  readonly volume: string;
  /** Stands at the volume and at every file, so that no clock gets into the bytes. */
  readonly date: Instant;
  /** The program that a BIOS starts, 1 to 2048 bytes. */
  readonly boot: Uint8Array<ArrayBuffer>;
  /** No two of the same path, none in the folder `BOOT`, which is made here. */
  readonly files: readonly IsoFile[];
}

/** The largest file of one extent, bytes: its size is a number of 32 bits. */
const FILE_BYTES_MAX = 2 ** 32 - 1;
const VOLUME = /^[A-Z0-9_]{1,32}$/;
const FILE_PATH = /^(?:[A-Z0-9_]{1,8}\/)?[A-Z0-9_]{1,8}\.[A-Z0-9_]{1,3}$/;

/**
 * A bootable ISO 9660 image (El Torito, no emulation).
 * @throws {AgentError} `invalid_argument` when a name or a size cannot stand in such an image
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

/** What is wrong with the parts of an image, if anything is. */
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
    // Every folder, root too, has root as its parent, which is the first in the table.
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
    // No record crosses from one sector into the next.
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
      `Cannot make ISO image: ${path} has ${made} bytes, ${content.size} were announced`,
    );
  }
  const end = Math.max(SECTOR_BYTES, sectorEnd(made));
  if (end > made) yield new Uint8Array(end - made);
}

/** The end of the sector in which as many bytes end. */
function sectorEnd(bytes: number): number {
  return Math.ceil(bytes / SECTOR_BYTES) * SECTOR_BYTES;
}
