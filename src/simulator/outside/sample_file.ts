// The files that the sample upstream offers: one bootable ISO image and a few small bootable disk
// images. All of them only print a few lines; none installs anything.

import { AgentError } from "../../domain/error.ts";
import { type Content, type ContentDigests, contentOf, digestsOf, isoImage } from "./iso9660.ts";
import { SECTOR_BYTES } from "./iso_record.ts";

/** The path of the ISO image below the address of the sample upstream. */
export const SAMPLE_ISO = "files/zonewright-sample-2.0.iso";

/** The paths of the disk images, and the title that each shows on the screen. */
const DISKS = {
  "files/zonewright-sample-2.0.raw.gz": "zonewright sample disk 2.0",
  "files/zonewright-sample-1.0.raw.gz": "zonewright sample disk 1.0",
  "files/zonewright-preview-3.0.raw.gz": "zonewright preview disk 3.0",
  "files/zonewright-preview-2.1.raw.gz": "zonewright preview disk 2.1",
  "vault/zonewright-preview-2.0.raw.gz": "zonewright preview disk 2.0, from the archive",
} as const;

/** The path of a sample file below the address of the sample upstream. */
export type SamplePath = typeof SAMPLE_ISO | keyof typeof DISKS;

interface SampleFile {
  readonly content: Content;
  readonly digests: ContentDigests;
}

/** Every sample file by its path. */
export type SampleFiles = Readonly<Record<SamplePath, SampleFile>>;

const ISO_BYTES_MIN = 1 << 20; // 1 MiB
const ISO_BYTES_MAX = 2 ** 32 - SECTOR_BYTES; // nearly 4 GiB: the padding is one file of one extent

/** Size of a disk image before compression, bytes. */
const DISK_BYTES = 1 << 20; // 1 MiB

/** The padding repeats a block of noise, numbered so that all blocks differ. */
const NOISE_BYTES = 256 << 10; // 256 KiB
const NOISE_SEED = 0x7a6f6e65;

const README = [
  "zonewright sample installation medium",
  "",
  "A machine that boots from this medium shows a few lines and halts. Nothing is",
  "installed by it, and no disk is read or written. A zonewright agent started for",
  "development makes it, so that a machine can be booted without any download.",
  "",
  "BOOT/BOOT.BIN    the program that a BIOS starts",
  "BOOT/BOOT.CAT    the El Torito boot catalog",
  "PADDING.BIN      noise, so that the medium has the size of a real one",
  "",
];

/**
 * The sample ISO image. The same size gives the same bytes.
 * @param bytes its size: a multiple of 2048, from 1 MiB to nearly 4 GiB
 * @throws {AgentError} `invalid_argument` for any other size
 */
export function sampleIso(bytes: number): Content {
  if (bytes % SECTOR_BYTES !== 0 || !(bytes >= ISO_BYTES_MIN && bytes <= ISO_BYTES_MAX)) {
    throw new AgentError(
      "invalid_argument",
      `Cannot make sample ISO image: its size is ${bytes} bytes, expected a multiple of ` +
        `${SECTOR_BYTES} from ${ISO_BYTES_MIN} to ${ISO_BYTES_MAX}`,
    );
  }
  const padded = (paddingBytes: number) =>
    isoImage({
      volume: "ZONEWRIGHT_SAMPLE",
      date: "2026-11-01T00:00:00.000Z",
      boot: bootSector([
        "zonewright sample installation medium",
        "",
        "This machine has booted from the CD that its request named.",
        "Nothing is installed by it.",
      ]),
      files: [
        { path: "README.TXT", content: contentOf(new TextEncoder().encode(README.join("\r\n"))) },
        { path: "PADDING.BIN", content: noise(paddingBytes) },
      ],
    });
  // One sector of padding is in the image that is measured.
  return padded(bytes - padded(SECTOR_BYTES).size + SECTOR_BYTES);
}

/** A small raw disk whose first sector boots and shows the title, compressed with gzip. */
export async function sampleDisk(title: string): Promise<Uint8Array<ArrayBuffer>> {
  const disk = new Uint8Array(DISK_BYTES);
  disk.set(
    bootSector([title, "", "This machine has booted from its disk.", "There is no system."]),
  );
  const packed = new Blob([disk]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}

/**
 * Every file of the sample upstream, with its digests.
 * @throws {AgentError} `invalid_argument` when `isoBytes` is not a valid size
 */
export async function sampleFiles(
  { isoBytes, signal }: { isoBytes: number; signal?: AbortSignal },
): Promise<SampleFiles> {
  const contents: [string, Content][] = [[SAMPLE_ISO, sampleIso(isoBytes)]];
  for (const [path, title] of Object.entries(DISKS)) {
    contents.push([path, contentOf(await sampleDisk(title))]);
  }
  const files: [string, SampleFile][] = [];
  for (const [path, content] of contents) {
    files.push([path, { content, digests: await digestsOf(content.chunks(), signal) }]);
  }
  // The paths are those of SamplePath: the ISO image and the keys of DISKS.
  return Object.fromEntries(files) as SampleFiles;
}

function noise(size: number): Content {
  return { size, chunks: () => noiseChunks(size) };
}

function* noiseChunks(size: number): Generator<Uint8Array<ArrayBuffer>> {
  const words = new Uint32Array(NOISE_BYTES / 4);
  let word = NOISE_SEED;
  for (let i = 0; i < words.length; i += 1) {
    // Marsaglia's xorshift32: noise that cannot be compressed away.
    word ^= word << 13;
    word ^= word >>> 17;
    word ^= word << 5;
    words[i] = word;
  }
  const block = new Uint8Array(words.buffer);
  for (let at = 0; at < size; at += NOISE_BYTES) {
    const chunk = block.slice(0, Math.min(NOISE_BYTES, size - at));
    if (chunk.length >= 4) new DataView(chunk.buffer).setUint32(0, at / NOISE_BYTES);
    yield chunk;
  }
}

const BOOT_SECTOR_BYTES = 512;
/** Columns of the text screen that the program selects. */
const SCREEN_COLUMNS = 80;
/** Lines of the text screen that the program selects. */
const SCREEN_LINES = 25;

/** Where a BIOS loads a boot sector, and where it jumps to. */
const LOAD_ADDRESS = 0x7c00;
/** Where a partition table would begin; code and text end before it. */
const PARTITION_TABLE_OFFSET = 446;
/** The last two bytes, without which a BIOS does not boot the sector. */
const SIGNATURE = [0x55, 0xaa];

/**
 * The program of a boot sector, in the notation of the Intel manuals: x86 in real mode, clears the
 * screen, prints a few lines and stops for good. It reads and writes no disk, so it cannot harm the
 * machine that boots it. `text` is the address of the lines to print. Jumps count from the byte
 * after them.
 */
function program(text: number): number[] {
  return [
    // A BIOS may enter at 07C0:0000 or at 0000:7C00; the addresses below need the latter.
    ...[0xea, 0x05, 0x7c, 0x00, 0x00], //         jmp 0000:7C05
    ...[0xfa], //                                 cli            ; no interrupt between ss and sp
    ...[0x31, 0xc0], //                           xor ax, ax
    ...[0x8e, 0xd8], //                           mov ds, ax
    ...[0x8e, 0xd0], //                           mov ss, ax
    ...[0xbc, 0x00, 0x7c], //                     mov sp, 7C00   ; the stack grows down from here
    ...[0xfb], //                                 sti
    ...[0xfc], //                                 cld            ; lodsb counts upward
    ...[0xb8, 0x03, 0x00], //                     mov ax, 0003   ; set mode 3, 80x25 text: clears
    ...[0xcd, 0x10], //                           int 10
    ...[0xbe, text & 0xff, text >> 8], //         mov si, text
    ...[0xac], //                           next: lodsb
    ...[0x84, 0xc0], //                           test al, al
    ...[0x74, 0x09], //                           jz stop
    ...[0xb4, 0x0e], //                           mov ah, 0E     ; teletype output of al
    ...[0xbb, 0x07, 0x00], //                     mov bx, 0007   ; page 0, grey
    ...[0xcd, 0x10], //                           int 10
    ...[0xeb, 0xf2], //                           jmp next
    // An interrupt, such as the timer's, ends a hlt: hence the loop. The processor stays idle.
    ...[0xf4], //                           stop: hlt
    ...[0xeb, 0xfd], //                           jmp stop
  ];
}

/**
 * A boot sector of 512 bytes that shows the lines from the top of an 80x25 text screen. The same
 * program boots from a CD (El Torito, no emulation) and from a disk.
 * @param lines printable ASCII, at most 79 characters each; together about 390 characters
 * @throws {AgentError} `invalid_argument` when a line cannot be shown or they do not all fit
 * @see El Torito Bootable CD-ROM Format Specification 1.0; Ralf Brown's Interrupt List, INT 10
 */
export function bootSector(lines: readonly string[]): Uint8Array<ArrayBuffer> {
  const wrong = lines.find((line) => !/^[ -~]*$/.test(line) || line.length >= SCREEN_COLUMNS);
  if (wrong !== undefined || lines.length >= SCREEN_LINES) {
    throw new AgentError(
      "invalid_argument",
      `Cannot make boot sector, expected fewer than ${SCREEN_LINES} lines of fewer than ` +
        `${SCREEN_COLUMNS} ASCII characters, found ${JSON.stringify(wrong ?? lines.length)}`,
    );
  }
  const text = new TextEncoder().encode(lines.map((line) => `${line}\r\n`).join("") + "\0");
  const textOffset = program(0).length;
  if (textOffset + text.length > PARTITION_TABLE_OFFSET) {
    throw new AgentError(
      "invalid_argument",
      `Cannot make boot sector: its lines take ${text.length} bytes, ` +
        `at most ${PARTITION_TABLE_OFFSET - textOffset} fit`,
    );
  }
  const sector = new Uint8Array(BOOT_SECTOR_BYTES);
  sector.set(program(LOAD_ADDRESS + textOffset));
  sector.set(text, textOffset);
  sector.set(SIGNATURE, BOOT_SECTOR_BYTES - SIGNATURE.length);
  return sector;
}
