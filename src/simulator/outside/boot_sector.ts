// The program in the first sector of the sample media: an x86 real-mode program that clears the
// screen, prints a few lines and stops for good. It reads and writes no disk, so a machine that
// boots it comes to no harm.

import { AgentError } from "../../domain/error.ts";

/** Size of a boot sector, bytes. */
const BOOT_SECTOR_BYTES = 512;
/** Columns of the text screen that the program selects. */
const SCREEN_COLUMNS = 80;
/** Lines of the text screen that the program selects. */
const SCREEN_LINES = 25;

/** Where a BIOS loads a boot sector, and where it jumps to. */
const LOAD_ADDRESS = 0x7c00;
/** A partition table would begin here; code and text end before it. */
const PARTITION_TABLE_OFFSET = 446;
/** The last two bytes, without which a BIOS takes the sector for one that cannot boot. */
const SIGNATURE = [0x55, 0xaa];

/**
 * The program, in the notation of the Intel manuals. `text` is the address of the lines to print.
 * Jumps count from the byte after them.
 */
function program(text: number): number[] {
  return [
    // A BIOS may enter at 07C0:0000 as well as at 0000:7C00; addresses below need the latter.
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
 * @param lines printable ASCII, at most 79 characters each; together some 390 characters
 * @throws {AgentError} `invalid_argument` when a line cannot be shown or all of them do not fit
 * @see El Torito Bootable CD-ROM Format Specification 1.0; Ralf Brown's Interrupt List, INT 10
 */
export function bootSector(lines: readonly string[]): Uint8Array<ArrayBuffer> {
  const wrong = lines.find((line) => !/^[ -~]*$/.test(line) || line.length >= SCREEN_COLUMNS);
  if (wrong !== undefined || lines.length >= SCREEN_LINES) {
    throw new AgentError(
      "invalid_argument",
      `Cannot make boot sector: expected fewer than ${SCREEN_LINES} lines of fewer than ` +
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
