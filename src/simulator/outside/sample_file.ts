// The files that the sample upstream offers: one bootable ISO image and a few small bootable disk
// images. All of them only print a few lines; none installs anything.

import { AgentError } from "../../domain/error.ts";
import { bootSector } from "./boot_sector.ts";
import { type Content, type ContentDigests, contentOf, digestsOf } from "./content.ts";
import { isoImage } from "./iso9660.ts";
import { SECTOR_BYTES } from "./iso_record.ts";

/** Where the sample upstream serves the ISO image, below its address. */
export const SAMPLE_ISO = "files/zonewright-sample-2.0.iso";

/** The disk images, in the same way, with the name that each shows on the screen. */
const DISKS = {
  "files/zonewright-sample-2.0.raw.gz": "zonewright sample disk 2.0",
  "files/zonewright-sample-1.0.raw.gz": "zonewright sample disk 1.0",
  "files/zonewright-preview-3.0.raw.gz": "zonewright preview disk 3.0",
  "files/zonewright-preview-2.1.raw.gz": "zonewright preview disk 2.1",
  "vault/zonewright-preview-2.0.raw.gz": "zonewright preview disk 2.0, from the archive",
} as const;

/** Where a sample file lies below the address of the sample upstream. */
export type SamplePath = typeof SAMPLE_ISO | keyof typeof DISKS;

/** A file as it is downloaded. */
export interface SampleFile {
  readonly content: Content;
  readonly digests: ContentDigests;
}

/** Every sample file by its path. */
export type SampleFiles = Readonly<Record<SamplePath, SampleFile>>;

/** Size of the ISO image unless told otherwise, bytes: its copying can be watched, briefly. */
const ISO_BYTES_DEFAULT = 8 << 20; // 8 MiB
const ISO_BYTES_MIN = 1 << 20; // 1 MiB
const ISO_BYTES_MAX = 2 ** 32 - SECTOR_BYTES; // nearly 4 GiB: the padding is one file of one extent

/** Size of a disk image before compression, bytes. */
const DISK_BYTES = 1 << 20; // 1 MiB

/** The padding repeats a block of noise, numbered so that no two blocks are the same. */
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
 * @throws {AgentError} `invalid_argument` when the size is no such number
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
 * @throws {AgentError} `invalid_argument` when `isoBytes` is no size of an image
 */
export async function sampleFiles(
  options: { isoBytes?: number; signal?: AbortSignal } = {},
): Promise<SampleFiles> {
  const contents: [string, Content][] = [
    [SAMPLE_ISO, sampleIso(options.isoBytes ?? ISO_BYTES_DEFAULT)],
  ];
  for (const [path, title] of Object.entries(DISKS)) {
    contents.push([path, contentOf(await sampleDisk(title))]);
  }
  const files: [string, SampleFile][] = [];
  for (const [path, content] of contents) {
    files.push([path, { content, digests: await digestsOf(content.chunks(), options.signal) }]);
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
    // Marsaglia's xorshift32: noise enough that no compression takes the padding away.
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
