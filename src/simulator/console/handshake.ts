// The first part of an RFB connection: version, security and initialisation.
//
//   server: RFB 003.008   client: its version
//   3.3:        server names one security type
//   3.7, 3.8:   server lists types, client chooses one
//   type 2:     challenge and answer
//   result:     always after type 2, after type 1 only in 3.8; a reason for failure only in 3.8
//
// @see RFC 6143, 7.1 to 7.3

import type { ByteReader } from "./byte_reader.ts";
import { writeAll } from "../../domain/bytes.ts";
import {
  PIXEL_FORMAT_BYTES,
  pixelFormatBytes,
  SCREEN_HEIGHT,
  SCREEN_WIDTH,
  SERVER_FORMAT,
} from "./screen.ts";

const VERSION_BYTES = 12;
const SECURITY_NONE = 1;
const SECURITY_VNC = 2;
const FAILED = 1;

type Minor = 3 | 7 | 8;

interface ServerIdentity {
  readonly name: string;
  /** Empty when none is asked for. */
  readonly password: string;
  /** Whether it speaks RFB 3.3 only. */
  readonly old: boolean;
}

/** Completes the handshake. False if the connection ends before that. */
export async function handshake(
  conn: Deno.Conn,
  reader: ByteReader,
  identity: ServerIdentity,
): Promise<boolean> {
  const minor = await agreeOnVersion(conn, reader, identity.old);
  if (minor === null) return false;
  const security = identity.password === "" ? SECURITY_NONE : SECURITY_VNC;
  if (!await agreeOnSecurity(conn, reader, minor, security)) return false;
  const admitted = security === SECURITY_NONE ||
    await isAnswered(conn, reader, identity.password);
  if (security === SECURITY_VNC || minor === 8) {
    await writeAll(conn, securityResult(admitted, minor));
  }
  // The byte of ClientInit says whether other clients may stay; here they always may.
  if (!admitted || await reader.byte() === null) return false;
  await writeAll(conn, serverInit(identity.name));
  return true;
}

async function agreeOnVersion(
  conn: Deno.Conn,
  reader: ByteReader,
  old: boolean,
): Promise<Minor | null> {
  await writeAll(conn, new TextEncoder().encode(old ? "RFB 003.003\n" : "RFB 003.008\n"));
  const answer = await reader.read(VERSION_BYTES);
  const match = /^RFB 003\.(\d{3})\n$/.exec(new TextDecoder().decode(answer ?? undefined));
  if (match === null) return null;
  const minor = Number(match[1]);
  if (old || minor < 7) return 3;
  return minor === 7 ? 7 : 8;
}

async function agreeOnSecurity(
  conn: Deno.Conn,
  reader: ByteReader,
  minor: Minor,
  security: number,
): Promise<boolean> {
  if (minor === 3) {
    await writeAll(conn, new Uint8Array([0, 0, 0, security]));
    return true;
  }
  await writeAll(conn, new Uint8Array([1, security]));
  return await reader.byte() === security;
}

async function isAnswered(
  conn: Deno.Conn,
  reader: ByteReader,
  password: string,
): Promise<boolean> {
  const challenge = crypto.getRandomValues(new Uint8Array(CHALLENGE_BYTES));
  await writeAll(conn, challenge);
  const answer = await reader.read(CHALLENGE_BYTES);
  return answer !== null && sameAnswer(answer, vncAnswer(password, challenge));
}

function securityResult(admitted: boolean, minor: Minor): Uint8Array {
  if (admitted) return new Uint8Array(4);
  const head = [0, 0, 0, FAILED];
  if (minor !== 8) return new Uint8Array(head);
  const reason = new TextEncoder().encode("Authentication failed");
  return new Uint8Array([...head, 0, 0, 0, reason.length, ...reason]);
}

function serverInit(name: string): Uint8Array {
  const title = new TextEncoder().encode(name);
  const bytes = new Uint8Array(4 + PIXEL_FORMAT_BYTES + 4 + title.length);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, SCREEN_WIDTH);
  view.setUint16(2, SCREEN_HEIGHT);
  bytes.set(pixelFormatBytes(SERVER_FORMAT), 4);
  view.setUint32(4 + PIXEL_FORMAT_BYTES, title.length);
  bytes.set(title, 8 + PIXEL_FORMAT_BYTES);
  return bytes;
}

/** Bytes of a challenge, and of its answer. */
const CHALLENGE_BYTES = 16;
const BLOCK_BYTES = 8;

/**
 * The right answer to a challenge: VNC authentication sends 16 random bytes, and the client sends
 * them back enciphered with the password, of which only eight characters count.
 * @see RFC 6143, 7.2.2
 */
export function vncAnswer(password: string, challenge: Uint8Array): Uint8Array<ArrayBuffer> {
  const key = new Uint8Array(BLOCK_BYTES);
  // VNC reads the bits of each key byte in the opposite order to DES.
  new TextEncoder().encode(password).subarray(0, BLOCK_BYTES).forEach((byte, at) => {
    for (let bit = 0; bit < 8; bit++) key[at] = (key[at] ?? 0) | (byte >> bit & 1) << (7 - bit);
  });
  const answer = new Uint8Array(CHALLENGE_BYTES);
  for (let at = 0; at < CHALLENGE_BYTES; at += BLOCK_BYTES) {
    answer.set(desEncipher(key, challenge.subarray(at, at + BLOCK_BYTES)), at);
  }
  return answer;
}

/** Whether two answers are the same. */
function sameAnswer(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** The tables of DES are those of FIPS 46-3; they count bits from 1, as that document does. */
const INITIAL = table(
  "58 50 42 34 26 18 10 2 60 52 44 36 28 20 12 4 62 54 46 38 30 22 14 6 64 56 48 40 32 24 16 8 " +
    "57 49 41 33 25 17 9 1 59 51 43 35 27 19 11 3 61 53 45 37 29 21 13 5 63 55 47 39 31 23 15 7",
);
const FINAL = table(
  "40 8 48 16 56 24 64 32 39 7 47 15 55 23 63 31 38 6 46 14 54 22 62 30 37 5 45 13 53 21 61 29 " +
    "36 4 44 12 52 20 60 28 35 3 43 11 51 19 59 27 34 2 42 10 50 18 58 26 33 1 41 9 49 17 57 25",
);
const EXPANSION = table(
  "32 1 2 3 4 5 4 5 6 7 8 9 8 9 10 11 12 13 12 13 14 15 16 17 " +
    "16 17 18 19 20 21 20 21 22 23 24 25 24 25 26 27 28 29 28 29 30 31 32 1",
);
const PERMUTATION = table(
  "16 7 20 21 29 12 28 17 1 15 23 26 5 18 31 10 2 8 24 14 32 27 3 9 19 13 30 6 22 11 4 25",
);
const KEY_CHOICE_1 = table(
  "57 49 41 33 25 17 9 1 58 50 42 34 26 18 10 2 59 51 43 35 27 19 11 3 60 52 44 36 " +
    "63 55 47 39 31 23 15 7 62 54 46 38 30 22 14 6 61 53 45 37 29 21 13 5 28 20 12 4",
);
const KEY_CHOICE_2 = table(
  "14 17 11 24 1 5 3 28 15 6 21 10 23 19 12 4 26 8 16 7 27 20 13 2 " +
    "41 52 31 37 47 55 30 40 51 45 33 48 44 49 39 56 34 53 46 42 50 36 29 32",
);
const ROTATIONS = table("1 1 2 2 2 2 2 2 1 2 2 2 2 2 2 1");

/** The substitution boxes: four rows of sixteen hexadecimal digits each. */
const BOXES = [
  "e4d12fb83a6c5907 0f74e2d1a6cb9538 41e8d62bfc973a50 fc8249175b3ea06d",
  "f18e6b34972dc05a 3d47f28ec01a69b5 0e7ba4d158c6932f d8a13f42b67c05e9",
  "a09e63f51dc7b428 d709346a285ecbf1 d6498f30b12c5ae7 1ad069874fe3b52c",
  "7de3069a1285bc4f d8b56f03472c1ae9 a690cb7df13e5284 3f06a1d8945bc72e",
  "2c417ab6853fd0e9 eb2c47d150fa3986 421bad78f9c5630e b8c71e2d6f09a453",
  "c1af92680d34e75b af427c9561de0b38 9ef528c3704a1db6 432c95fabe17608d",
  "4b2ef08d3c975a61 d0b7491ae35c2f86 14bdc37eaf680592 6bd814a7950fe23c",
  "d2846fb1a93e50c7 1fd8a374c56b0e92 7b419ce206adf358 21e74a8dfc90356b",
].map((rows) => rows.replaceAll(" ", ""));

function table(numbers: string): readonly number[] {
  return numbers.split(" ").map(Number);
}

type Bits = readonly number[];

function pick(bits: Bits, places: readonly number[]): number[] {
  return places.map((place) => bits[place - 1] ?? 0);
}

function bitsOf(bytes: Uint8Array): number[] {
  return [...bytes].flatMap((byte) => [7, 6, 5, 4, 3, 2, 1, 0].map((bit) => byte >> bit & 1));
}

function bytesOf(bits: Bits): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(bits.length / 8);
  bits.forEach((bit, at) => bytes[at >> 3] = (bytes[at >> 3] ?? 0) << 1 | bit);
  return bytes;
}

function xor(a: Bits, b: Bits): number[] {
  return a.map((bit, at) => bit ^ (b[at] ?? 0));
}

/** The keys of the sixteen rounds, 48 bits each. */
function roundKeys(key: Uint8Array): Bits[] {
  const chosen = pick(bitsOf(key), KEY_CHOICE_1);
  let [left, right] = [chosen.slice(0, 28), chosen.slice(28)];
  return ROTATIONS.map((count) => {
    left = [...left.slice(count), ...left.slice(0, count)];
    right = [...right.slice(count), ...right.slice(0, count)];
    return pick([...left, ...right], KEY_CHOICE_2);
  });
}

function round(half: Bits, key: Bits): number[] {
  const mixed = xor(pick(half, EXPANSION), key);
  const substituted = BOXES.flatMap((box, index) => {
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = mixed.slice(index * 6, index * 6 + 6);
    const row = a << 1 | f;
    const column = b << 3 | c << 2 | d << 1 | e;
    const value = Number.parseInt(box[row * 16 + column] ?? "0", 16);
    return [3, 2, 1, 0].map((bit) => value >> bit & 1);
  });
  return pick(substituted, PERMUTATION);
}

/**
 * DES of a block of 8 bytes with a key of 8 bytes, whose parity bits are ignored. It is no
 * protection today and current cryptography libraries no longer offer it, but VNC authentication
 * requires it.
 */
export function desEncipher(key: Uint8Array, block: Uint8Array): Uint8Array<ArrayBuffer> {
  const start = pick(bitsOf(block), INITIAL);
  let [left, right] = [start.slice(0, 32), start.slice(32)];
  for (const roundKey of roundKeys(key)) {
    [left, right] = [right, xor(left, round(right, roundKey))];
  }
  return bytesOf(pick([...right, ...left], FINAL));
}
