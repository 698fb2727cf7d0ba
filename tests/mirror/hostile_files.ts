// Makers of files that somebody wrote to do harm. Each keeps the rules of its format.

/** Parts repeated, in one piece of memory. */
function repeated(part: Uint8Array, count: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(part.length * count);
  for (let at = 0; at < whole.length; at += part.length) whole.set(part, at);
  return whole;
}

/** One byte sequence written as hex. */
function bytes(hex: string): Uint8Array {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

/** zstd frames that hold nothing, 9 bytes each: a million of them are 9 MB. */
export function emptyZstdFrames(count: number): Uint8Array<ArrayBuffer> {
  // Magic, a single segment of 0 bytes, and a last raw block of none.
  return repeated(bytes("28 b5 2f fd 20 00 01 00 00"), count);
}

/** zstd frames that are to be passed over, 8 bytes each. */
export function skippedZstdFrames(count: number): Uint8Array<ArrayBuffer> {
  return repeated(bytes("50 2a 4d 18 00 00 00 00"), count);
}

/** One zstd frame of empty blocks without an end, 3 bytes each. */
export function emptyZstdBlocks(count: number): Uint8Array {
  return joinedFast(bytes("28 b5 2f fd 00 58"), repeated(bytes("00 00 00"), count));
}

/** gzip members that hold nothing, 20 bytes each. */
export function emptyGzipMembers(count: number): Uint8Array<ArrayBuffer> {
  return repeated(bytes("1f 8b 08 00 00 00 00 00 00 03 03 00 00 00 00 00 00 00 00 00"), count);
}

/** xz streams that hold nothing, 32 bytes each. */
export function emptyXzStreams(count: number): Uint8Array<ArrayBuffer> {
  return repeated(
    bytes(
      "fd 37 7a 58 5a 00 00 01 69 22 de 36" + // head, with CRC32
        "00 00 00 00 1c df 44 21" + // an index of no blocks
        "90 42 99 0d 01 00 00 00 00 01 59 5a", // foot
    ),
    count,
  );
}

/** bzip2 streams that hold nothing, 14 bytes each. */
export function emptyBzip2Streams(count: number): Uint8Array<ArrayBuffer> {
  return repeated(bytes("42 5a 68 39 17 72 45 38 50 90 00 00 00 00"), count);
}

/**
 * A bzip2 file that becomes so many times 45,899,235 bytes: blocks of one long run.
 * @param bomb the fixture of one such stream
 */
export function growingBzip2(bomb: Uint8Array, count: number): Uint8Array<ArrayBuffer> {
  return repeated(bomb, count);
}

/** A checksum document of a line in which an expression would begin again at each space. */
export function spacedChecksums(spaces: number): string {
  return `${"a".repeat(64)}  x${" ".repeat(spaces)}x\n`;
}

/** A good detached signature, binary, repeated. */
export function repeatedSignature(signature: Uint8Array, count: number): Uint8Array<ArrayBuffer> {
  return repeated(signature, count);
}

/** A clear-signed text with so many line breaks in it; its signature is whatever it was. */
export function breakingClearText(signed: string, breaks: number): string {
  const at = signed.indexOf("-----BEGIN PGP SIGNATURE-----");
  return signed.slice(0, at) + "\n".repeat(breaks) + signed.slice(at);
}

/** Documents of the index, by what is too much in them; all are shorter than 4 MiB. */
export const HOSTILE_DOCUMENTS: Readonly<Record<string, () => string>> = {
  names: () => `{${Array.from({ length: 200_000 }, (_, n) => `"${n}":0`).join()}}`,
  values: () => `{"a":[${"0,".repeat(1_000_000)}0]}`,
  integers: () => `{"a":[${Array(99_000).fill("18446744073709551616").join()}]}`,
  digits: () => `{"a":${"9".repeat(4_000_000)}}`,
  depth: () => `${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}`,
  text: () => `{"a":"${"\\\\".repeat(1_900_000)}"}`,
};

function joinedFast(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(one.length + other.length);
  whole.set(one);
  whole.set(other, one.length);
  return whole;
}
