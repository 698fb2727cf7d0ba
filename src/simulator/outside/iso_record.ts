// The records of an ISO 9660 image as bytes: numbers in both byte orders, dates, directory and path table
// records, volume descriptors, the boot catalog. Numbers such as "9.1" name sections of ECMA-119, which is
// the freely published text of ISO 9660.

import type { Instant } from "../../domain/instant.ts";

/** Size of a logical sector and of a logical block, bytes. */
export const SECTOR_BYTES = 2048;

/** The place of something: its first sector and its size in bytes. */
export interface Extent {
  readonly sector: number;
  readonly size: number;
}

/** The names of root and of its parent in a directory: single bytes, not text (6.8.2.2). */
export const SELF_NAME = "\x00";
/** The name of the parent; see {@linkcode SELF_NAME}. */
export const PARENT_NAME = "\x01";

/** Size of a directory record with a name of this many characters (9.1), bytes; always even. */
export function directoryRecordBytes(name: string): number {
  return 33 + name.length + (name.length % 2 === 0 ? 1 : 0);
}

/** One entry of a directory (9.1). */
export function directoryRecord(
  name: string,
  kind: "file" | "directory",
  extent: Extent,
  date: Instant,
): Uint8Array<ArrayBuffer> {
  const record = new Uint8Array(directoryRecordBytes(name));
  record[0] = record.length;
  putBoth32(record, 2, extent.sector);
  putBoth32(record, 10, extent.size);
  record.set(shortDate(date), 18);
  record[25] = kind === "directory" ? 2 : 0;
  putBoth16(record, 28, 1); // volume sequence number
  record[32] = name.length;
  putText(record, 33, name);
  return record;
}

/** One directory in a path table (9.4); `parent` is the parent's place in the table, from 1. */
export function pathTableRecord(
  name: string,
  sector: number,
  parent: number,
  littleEndian: boolean,
): Uint8Array<ArrayBuffer> {
  const record = new Uint8Array(pathTableRecordBytes(name));
  const view = new DataView(record.buffer);
  record[0] = name.length;
  view.setUint32(2, sector, littleEndian);
  view.setUint16(6, parent, littleEndian);
  putText(record, 8, name);
  return record;
}

/** Size of a path table record (9.4), bytes; always even. */
export function pathTableRecordBytes(name: string): number {
  return 8 + name.length + name.length % 2;
}

/** What the primary volume descriptor says about the image. */
interface Volume {
  /** At most 32 characters of A-Z, 0-9 and underscore. */
  readonly name: string;
  readonly date: Instant;
  /** Size of the whole image, sectors. */
  readonly sectors: number;
  readonly pathTableBytes: number;
  /** First sectors of the path tables in little-endian and big-endian order. */
  readonly pathTableSectors: readonly [number, number];
  readonly root: Extent;
}

/** The primary volume descriptor (8.4), one sector. */
export function primaryVolumeDescriptor(volume: Volume): Uint8Array<ArrayBuffer> {
  const sector = volumeDescriptor(1);
  const view = new DataView(sector.buffer);
  putText(sector, 8, "".padEnd(32)); // system
  putText(sector, 40, volume.name.padEnd(32));
  putBoth32(sector, 80, volume.sectors);
  putBoth16(sector, 120, 1); // volumes in the set
  putBoth16(sector, 124, 1); // this volume's place in it
  putBoth16(sector, 128, SECTOR_BYTES);
  putBoth32(sector, 132, volume.pathTableBytes);
  view.setUint32(140, volume.pathTableSectors[0], true);
  view.setUint32(148, volume.pathTableSectors[1], false);
  sector.set(directoryRecord(SELF_NAME, "directory", volume.root, volume.date), 156);
  // Volume set, publisher, preparer and application, then three names of files: all left blank
  // but the application.
  putText(sector, 190, "".padEnd(384) + "ZONEWRIGHT".padEnd(128) + "".padEnd(111));
  putText(sector, 813, longDate(volume.date)); // created
  putText(sector, 830, longDate(volume.date)); // modified
  putText(sector, 847, `${"0".repeat(16)}\0`); // expires: never
  putText(sector, 864, longDate(volume.date)); // effective
  sector[881] = 1; // version of the file structure
  return sector;
}

/** The descriptor that points a BIOS to the boot catalog, one sector. @see El Torito, figure 7 */
export function bootRecord(catalogSector: number): Uint8Array<ArrayBuffer> {
  const sector = volumeDescriptor(0);
  putText(sector, 7, "EL TORITO SPECIFICATION");
  new DataView(sector.buffer).setUint32(71, catalogSector, true);
  return sector;
}

/** The end of the volume descriptors (8.3), one sector. */
export function descriptorTerminator(): Uint8Array<ArrayBuffer> {
  return volumeDescriptor(255);
}

/** A BIOS counts the boot program in sectors of a disk, 512 bytes each: 4 to a sector of the CD. */
const DISK_SECTORS = 4;

/**
 * A boot catalog whose only entry boots an x86 program without emulating a disk.
 * @see El Torito, figures 2 (validation entry) and 3 (default entry)
 */
export function bootCatalog(program: Extent): Uint8Array<ArrayBuffer> {
  const catalog = new Uint8Array(SECTOR_BYTES);
  const view = new DataView(catalog.buffer);
  catalog[0] = 1; // validation entry; the platform, x86, is 0
  putText(catalog, 4, "ZONEWRIGHT");
  catalog.set([0x55, 0xaa], 30);
  let sum = 0;
  for (let at = 0; at < 32; at += 2) sum += view.getUint16(at, true);
  view.setUint16(28, -sum & 0xffff, true); // the words of the entry add up to 0
  catalog[32] = 0x88; // bootable; media type 0, no emulation, at the default load address
  // Whole CD sectors: some BIOSes refuse to load part of one.
  view.setUint16(38, Math.ceil(program.size / SECTOR_BYTES) * DISK_SECTORS, true);
  view.setUint32(40, program.sector, true);
  return catalog;
}

function volumeDescriptor(type: number): Uint8Array<ArrayBuffer> {
  const sector = new Uint8Array(SECTOR_BYTES);
  sector[0] = type;
  putText(sector, 1, "CD001");
  sector[6] = 1;
  return sector;
}

/** A date of a directory record (9.1.5): seven numbers, in UTC. */
function shortDate(date: Instant): number[] {
  const at = new Date(date);
  return [
    at.getUTCFullYear() - 1900,
    at.getUTCMonth() + 1,
    at.getUTCDate(),
    at.getUTCHours(),
    at.getUTCMinutes(),
    at.getUTCSeconds(),
    0, // offset from UTC
  ];
}

/** A date of a volume descriptor (8.4.26.1): 16 digits down to hundredths, then the offset 0. */
function longDate(date: Instant): string {
  return `${new Date(date).toISOString().replace(/\D/g, "").slice(0, 16)}\0`;
}

/** Writes a number little-endian and then big-endian (7.2.3). */
function putBoth16(bytes: Uint8Array<ArrayBuffer>, offset: number, value: number): void {
  const view = new DataView(bytes.buffer);
  view.setUint16(offset, value, true);
  view.setUint16(offset + 2, value, false);
}

/** Writes a number little-endian and then big-endian (7.3.3). */
function putBoth32(bytes: Uint8Array<ArrayBuffer>, offset: number, value: number): void {
  const view = new DataView(bytes.buffer);
  view.setUint32(offset, value, true);
  view.setUint32(offset + 4, value, false);
}

function putText(bytes: Uint8Array<ArrayBuffer>, offset: number, text: string): void {
  for (let i = 0; i < text.length; i += 1) bytes[offset + i] = text.charCodeAt(i);
}
