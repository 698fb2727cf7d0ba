// Gives every part of an ISO 9660 image its sectors, before a byte of it is made.
//
//   sector 0   system area, empty       19   path table, little-endian
//         16   primary descriptor        .   path table, big-endian
//         17   boot record               .   directories, root first
//         18   end of descriptors        .   boot program, boot catalog, files

import { type Content, contentOf } from "./content.ts";
import {
  bootCatalog,
  directoryRecordBytes,
  type Extent,
  PARENT_NAME,
  pathTableRecordBytes,
  SECTOR_BYTES,
  SELF_NAME,
} from "./iso_record.ts";

/** A file of an image: `README.TXT`, or `DOCS/README.TXT` in a folder. */
export interface IsoFile {
  readonly path: string;
  readonly content: Content;
}

/** One name in a folder, and where lies what it names. */
export interface FolderEntry {
  readonly name: string;
  readonly kind: "file" | "directory";
  readonly extent: Extent;
}

/** One folder of the image. */
export interface Folder {
  readonly name: string;
  readonly extent: Extent;
  /** Sorted as section 9.3 of ECMA-119 wants it; the folder itself and its parent are left out. */
  readonly entries: readonly FolderEntry[];
}

/** Where everything lies in an image. */
export interface IsoLayout {
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

/** Shows the boot program and the boot catalog as files, so that no sector is unaccounted for. */
export const BOOT_FOLDER = "BOOT";
/** The sectors before the path tables: the system area and three descriptors. */
const LEADING_SECTORS = 19;

/** Plans an image of these files, in this order, behind its boot program. */
export function isoLayout(boot: Content, files: readonly IsoFile[]): IsoLayout {
  let next = LEADING_SECTORS;
  const place = (size: number): Extent => {
    const extent = { sector: next, size };
    next += Math.max(1, Math.ceil(size / SECTOR_BYTES)); // an empty file lies somewhere too
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
  // The catalog's content names the sector of the program, so the program is placed first.
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

/** The folder in a path, empty for root. */
function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.indexOf("/")));
}

/** The name of a file as its record has it, with the version that is always 1. */
function recordName(path: string): string {
  return `${path.slice(path.indexOf("/") + 1)};1`;
}

function namesIn(folder: string, paths: readonly string[]): string[] {
  return paths.filter((path) => folderOf(path) === folder).map(recordName);
}

/** Versions are left out, since a semicolon would sort behind the digits of a longer name. */
function byName(a: FolderEntry, b: FolderEntry): number {
  return a.name.replace(/;1$/, "") < b.name.replace(/;1$/, "") ? -1 : 1;
}

/** Size of a folder, bytes: whole sectors, since no record crosses from one into the next. */
function folderBytes(names: readonly string[]): number {
  let [sectors, used] = [1, 0];
  for (const name of [SELF_NAME, PARENT_NAME, ...names]) {
    const bytes = directoryRecordBytes(name);
    if (used + bytes > SECTOR_BYTES) [sectors, used] = [sectors + 1, 0];
    used += bytes;
  }
  return sectors * SECTOR_BYTES;
}
