// A small reader of ISO 9660 images, written from ECMA-119 and the El Torito specification alone,
// so that the writer is not checked with its own words. It refuses what the standards refuse.

import { assert, assertEquals } from "@std/assert";

const SECTOR = 2048;

/** Reads `length` bytes from an offset. */
export type ReadAt = (offset: number, length: number) => Uint8Array<ArrayBuffer>;

export interface ReadIso {
  readonly volume: string;
  /** Bytes, as the volume descriptor says. */
  readonly size: number;
  /** By path such as `/BOOT/BOOT.BIN`; the bytes are read when asked for. */
  readonly files: ReadonlyMap<string, { sector: number; size: number; read(): Uint8Array }>;
  readonly boot: {
    readonly platform: number;
    readonly media: number;
    readonly segment: number;
    readonly diskSectors: number;
    readonly sector: number;
  };
}

/** Reads from an image in memory. */
export function readMemory(bytes: Uint8Array<ArrayBuffer>): ReadAt {
  return (offset, length) => bytes.slice(offset, offset + length);
}

/** Reads from an open file. */
export function readOpenFile(file: Deno.FsFile): ReadAt {
  return (offset, length) => {
    const bytes = new Uint8Array(length);
    file.seekSync(offset, Deno.SeekMode.Start);
    for (let at = 0; at < length;) {
      const count = file.readSync(bytes.subarray(at));
      assert(count !== null, `the image ends at byte ${offset + at}`);
      at += count;
    }
    return bytes;
  };
}

export function readIso(readAt: ReadAt): ReadIso {
  const sectorAt = (sector: number) => readAt(sector * SECTOR, SECTOR);
  const primary = sectorAt(16);
  assertEquals([primary[0], text(primary, 1, 5), primary[6]], [1, "CD001", 1]);
  assertEquals([sectorAt(18)[0], text(sectorAt(18), 1, 5)], [255, "CD001"], "terminator");
  assertEquals(both16(primary, 128), SECTOR, "logical block size");
  assertEquals([both16(primary, 120), both16(primary, 124)], [1, 1], "volume set");
  assertEquals(text(primary, 813, 16).length, 16);
  const root = record(primary, 156);
  assertEquals([root.length, root.name, root.isFolder], [34, "\x00", true]);

  const files = new Map<string, { sector: number; size: number; read(): Uint8Array }>();
  const folders = [{ path: "", name: "\x00", sector: root.sector }];
  const readFolder = (path: string, sector: number, size: number, parent: number) => {
    const [self, above, ...entries] = records(readAt(sector * SECTOR, size));
    assertEquals([self?.name, self?.sector, self?.size], ["\x00", sector, size]);
    assertEquals([above?.name, above?.sector], ["\x01", parent]);
    const names = entries.map(({ name }) => name.replace(/;1$/, ""));
    assertEquals(names, names.toSorted(), `the names of ${path}/ are sorted`);
    for (const entry of entries) {
      if (entry.isFolder) {
        assert(/^[A-Z0-9_]{1,8}$/.test(entry.name), entry.name);
        folders.push({ path: `${path}/${entry.name}`, name: entry.name, sector: entry.sector });
        readFolder(`${path}/${entry.name}`, entry.sector, entry.size, sector);
      } else {
        assert(/^[A-Z0-9_]{1,8}\.[A-Z0-9_]{1,3};1$/.test(entry.name), entry.name);
        files.set(`${path}/${entry.name.slice(0, -2)}`, {
          sector: entry.sector,
          size: entry.size,
          read: () => readAt(entry.sector * SECTOR, entry.size),
        });
      }
    }
  };
  readFolder("", root.sector, root.size, root.sector);

  const tableSize = both32(primary, 132);
  const view = new DataView(primary.buffer);
  for (const littleEndian of [true, false]) {
    const sector = view.getUint32(littleEndian ? 140 : 148, littleEndian);
    const table = pathTable(readAt(sector * SECTOR, tableSize), littleEndian);
    assertEquals(table, folders.map(({ name, sector }) => ({ name, sector, parent: 1 })));
  }
  return {
    volume: text(primary, 40, 32).trimEnd(),
    size: both32(primary, 80) * SECTOR,
    files,
    boot: readBoot(sectorAt),
  };
}

function readBoot(sectorAt: (sector: number) => Uint8Array<ArrayBuffer>): ReadIso["boot"] {
  const bootRecord = sectorAt(17);
  assertEquals([bootRecord[0], text(bootRecord, 1, 5), bootRecord[6]], [0, "CD001", 1]);
  assertEquals(text(bootRecord, 7, 32), "EL TORITO SPECIFICATION".padEnd(32, "\0"));
  const catalog = sectorAt(new DataView(bootRecord.buffer).getUint32(71, true));
  const view = new DataView(catalog.buffer);
  assertEquals([catalog[0], catalog[30], catalog[31]], [1, 0x55, 0xaa], "validation entry");
  let sum = 0;
  for (let at = 0; at < 32; at += 2) sum = (sum + view.getUint16(at, true)) & 0xffff;
  assertEquals(sum, 0, "checksum of the validation entry");
  assertEquals(catalog[32], 0x88, "bootable");
  return {
    platform: catalog[1] ?? -1,
    media: catalog[33] ?? -1,
    segment: view.getUint16(34, true),
    diskSectors: view.getUint16(38, true),
    sector: view.getUint32(40, true),
  };
}

interface DirectoryRecord {
  readonly length: number;
  readonly name: string;
  readonly isFolder: boolean;
  readonly sector: number;
  readonly size: number;
}

function records(folder: Uint8Array<ArrayBuffer>): DirectoryRecord[] {
  const found: DirectoryRecord[] = [];
  for (let at = 0; at < folder.length;) {
    if (folder[at] === 0) {
      at = (Math.floor(at / SECTOR) + 1) * SECTOR; // the rest of the sector is empty
      continue;
    }
    const one = record(folder, at);
    assert(at % SECTOR + one.length <= SECTOR, `record ${one.name} crosses a sector`);
    found.push(one);
    at += one.length;
  }
  return found;
}

function record(bytes: Uint8Array<ArrayBuffer>, at: number): DirectoryRecord {
  const nameLength = bytes[at + 32] ?? 0;
  assertEquals((bytes[at] ?? 0) % 2, 0, "records have an even length");
  assertEquals(both16(bytes, at + 28), 1, "volume sequence number");
  return {
    length: bytes[at] ?? 0,
    name: text(bytes, at + 33, nameLength),
    isFolder: bytes[at + 25] === 2,
    sector: both32(bytes, at + 2),
    size: both32(bytes, at + 10),
  };
}

function pathTable(table: Uint8Array<ArrayBuffer>, littleEndian: boolean) {
  const view = new DataView(table.buffer);
  const found: { name: string; sector: number; parent: number }[] = [];
  for (let at = 0; at < table.length;) {
    const length = table[at] ?? 0;
    found.push({
      name: text(table, at + 8, length),
      sector: view.getUint32(at + 2, littleEndian),
      parent: view.getUint16(at + 6, littleEndian),
    });
    at += 8 + length + length % 2;
  }
  return found;
}

function both16(bytes: Uint8Array<ArrayBuffer>, at: number): number {
  const view = new DataView(bytes.buffer);
  const value = view.getUint16(at, true);
  assertEquals(view.getUint16(at + 2, false), value, `both byte orders at ${at}`);
  return value;
}

function both32(bytes: Uint8Array<ArrayBuffer>, at: number): number {
  const view = new DataView(bytes.buffer);
  const value = view.getUint32(at, true);
  assertEquals(view.getUint32(at + 4, false), value, `both byte orders at ${at}`);
  return value;
}

function text(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length));
}
