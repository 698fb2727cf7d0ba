// Detects the format of a file from its first bytes. Names are unreliable: vendors publish qcow2 disks under
// names that end in .img, and a machine would boot those as raw disks.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import { COMPRESSIONS, mediaKind } from "../../domain/machine/media.ts";
import { openRegularFile, type RegularFile } from "../../runtime/regular_file.ts";

/** Bytes of one sector of a CD. */
const CD_SECTOR_BYTES = 2048;
/** The sector where the descriptors of an ISO 9660 image begin. */
const FIRST_DESCRIPTOR = 16;
/** Descriptors that are looked at; an image has three to six. */
const DESCRIPTORS_MAX = 16;
const LAST_DESCRIPTOR_TYPE = 255;
const ISO_MARK = "CD001";
const BOOT_RECORD_MARK = "EL TORITO SPECIFICATION";

/** Bytes from the start of a file that are enough to detect its format. */
export const HEAD_BYTES = (FIRST_DESCRIPTOR + DESCRIPTORS_MAX) * CD_SECTOR_BYTES;

/** First bytes of formats that no machine boots, one character per byte. */
const FORMATS: readonly (readonly [kind: string, magic: string])[] = [
  ["qcow2", "QFI\xfb"],
  ["vmdk", "KDMV"],
  ["vmdk", "COWD"],
  ["vmdk", "# Disk DescriptorFile"],
  ["vhdx", "vhdxfile"],
  ["vhd", "conectix"],
  ["vdi", "<<< "],
  ["gzip", "\x1f\x8b"],
  ["xz", "\xfd7zXZ\x00"],
  ["zstd", "\x28\xb5\x2f\xfd"],
  ["bzip2", "BZh"],
];

/** The format of a file, and whether it suits its name. */
export interface FileLook {
  /** `iso`, a format that no machine boots, or `raw` when none is recognized. */
  readonly kind: string;
  /** Whether an ISO has an El Torito boot record; null for other files. */
  readonly boot_record: boolean | null;
  /** Why no machine can boot it under its name; null when there is no reason. */
  readonly problem: string | null;
}

/**
 * Detects the format of a file.
 * @param head its first {@linkcode HEAD_BYTES}, or all of a shorter file
 */
export function lookAt(name: string, head: Uint8Array): FileLook {
  const descriptors = isoDescriptors(head);
  const kind = descriptors.length > 0 ? "iso" : formatOf(head) ?? "raw";
  const boot_record = kind === "iso" ? descriptors.some(isBootRecord) : null;
  return { kind, boot_record, problem: problemOf(name, kind) };
}

/** Opens a file and detects its format; undefined for anything but a regular file. */
export async function lookInto(path: string, name: string): Promise<FileLook | undefined> {
  const head = await headOf(path);
  return head === undefined ? undefined : lookAt(name, head);
}

/**
 * The first {@linkcode HEAD_BYTES} of a file, or fewer; undefined for anything but a regular file.
 * @throws {Error} of the system when the file is missing or unreadable
 */
export async function headOf(path: string): Promise<Uint8Array | undefined> {
  const file = await openRegularFile(path);
  if (file === null) return undefined;
  try {
    return await file.head(HEAD_BYTES);
  } finally {
    await file.close();
  }
}

/** The first bytes of a download under way. */
export interface FirstBytes {
  readonly head: Uint8Array;
  /** Whether this is the last location to try. */
  readonly last: boolean;
}

/**
 * Refuses a download by its first bytes, with the same error as a complete file. An unrecognized format may
 * be the error page of one server, so only the last location is refused for it.
 * @throws {AgentError} `invalid_argument`
 */
export function requireBootableHead(name: string, label: string, { head, last }: FirstBytes): void {
  const look = lookAt(name, head);
  if (look.kind !== "raw" || last) requireBootable(name, label, look);
}

/**
 * Refuses a file whose format does not suit its name.
 * @param name the name of the medium
 * @param label names the file in the error
 * @throws {AgentError} `invalid_argument`
 */
function requireBootable(name: string, label: string, look: FileLook): FileLook {
  if (look.problem === null) return look;
  throw invalidArgument("media", `Cannot use ${label} as ${name}: ${look.problem}`);
}

/** Checks the format of an open file. @throws {AgentError} `invalid_argument` */
export async function requireBootableFile(
  name: string,
  label: string,
  file: RegularFile,
): Promise<FileLook> {
  return requireBootable(name, label, lookAt(name, await file.head(HEAD_BYTES)));
}

/** Checks the format of a verified file. @throws {AgentError} `invalid_argument`, `not_found` */
export async function requireBootableAt(
  path: string,
  name: string,
  label: string,
): Promise<FileLook> {
  const look = await lookInto(path, name);
  if (look !== undefined) return requireBootable(name, label, look);
  throw new AgentError("not_found", `Cannot use ${label} as ${name}: ${path} is not a file`);
}

/** The warning about a medium that a job uses anyway; undefined for none. */
export function warningOf(name: string, { kind, boot_record }: FileLook): string | undefined {
  if (kind !== "iso" || boot_record !== false) return undefined;
  return `${name} has no El Torito boot record: a machine may not start from it`;
}

function problemOf(name: string, kind: string): string | null {
  switch (mediaKind(name)) {
    case "cd":
      if (kind === "iso") return null;
      return `it is not an ISO image, expected ${ISO_MARK} at byte ${
        FIRST_DESCRIPTOR * CD_SECTOR_BYTES + 1
      }, found ${kind === "raw" ? "other bytes" : `a ${kind} file`}`;
    case "disk":
      // A hybrid ISO, which also boots from USB sticks, boots as a disk.
      if (kind === "iso" || kind === "raw") return null;
      return `it is a ${kind} file, expected a raw disk image${remedyFor(kind)}`;
    default:
      return "its name does not end in .iso, .img or .raw";
  }
}

/** How to turn a file of this format into a raw image. */
function remedyFor(kind: string): string {
  return COMPRESSIONS.some((known) => known === kind)
    ? "; unpack it first, or name its compression with its url"
    : "; convert it with qemu-img convert -O raw";
}

function formatOf(head: Uint8Array): string | undefined {
  return FORMATS.find(([, magic]) => textAt(head, 0, magic.length) === magic)?.[0];
}

/** The volume descriptors of an ISO 9660 image; none for any other file. */
function isoDescriptors(head: Uint8Array): Uint8Array[] {
  const found: Uint8Array[] = [];
  for (let place = 0; place < DESCRIPTORS_MAX; place++) {
    const at = (FIRST_DESCRIPTOR + place) * CD_SECTOR_BYTES;
    const sector = head.subarray(at, at + CD_SECTOR_BYTES);
    if (textAt(sector, 1, ISO_MARK.length) !== ISO_MARK) break;
    found.push(sector);
    if (sector[0] === LAST_DESCRIPTOR_TYPE) break;
  }
  return found;
}

function isBootRecord(sector: Uint8Array): boolean {
  return sector[0] === 0 && textAt(sector, 7, BOOT_RECORD_MARK.length) === BOOT_RECORD_MARK;
}

/** Decodes one character per byte (Latin-1). */
function textAt(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length));
}
