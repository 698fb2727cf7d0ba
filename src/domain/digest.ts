// Digests: the hashes that a file must have before anything may use it, and how certain it is that a file with them
// is the one that its vendor published.

import { hexOf } from "./bytes.ts";
import { AgentError, invalidArgument } from "./error.ts";

/** The algorithms whose digests are compared; others are not accepted. */
export const DIGEST_ALGORITHMS = ["sha256", "sha512"] as const;
/** A closed enumeration of document 1. */
export type DigestAlgorithm = typeof DIGEST_ALGORITHMS[number];

/** Hexadecimal digits of a digest. */
export const DIGEST_DIGITS: Readonly<Record<DigestAlgorithm, number>> = { sha256: 64, sha512: 128 };

/** A hash that a file must have. @see document 1, Digest */
export interface Digest {
  readonly algorithm: DigestAlgorithm;
  /** Lower-case hex. */
  readonly value: string;
}

/** Whether a text is the lower-case hex of a digest. */
export function isDigestValue(algorithm: DigestAlgorithm, value: string): boolean {
  return value.length === DIGEST_DIGITS[algorithm] && /^[0-9a-f]+$/.test(value);
}

/** A digest as callers write it: in either case, with blanks around. */
export const DIGEST: RegExp =
  /^\s*(?:[Ss][Hh][Aa]256:[0-9A-Fa-f]{64}|[Ss][Hh][Aa]512:[0-9A-Fa-f]{128})\s*$/;
/** What a digest must be, in words. */
export const DIGEST_WORDS = "sha256:<64 hex digits> or sha512:<128 hex digits>";

/**
 * Reads `sha256:<hex>` or `sha512:<hex>`; upper-case hex is folded.
 * @throws {AgentError} `invalid_argument` naming `field`
 */
export function parseDigest(value: unknown, field: string): Digest {
  const text = typeof value === "string" && DIGEST.test(value) ? value.trim().toLowerCase() : "";
  const algorithm = DIGEST_ALGORITHMS.find((known) => text.startsWith(`${known}:`));
  if (algorithm === undefined) {
    throw invalidArgument(field, `Cannot read ${field}, expected ${DIGEST_WORDS}`);
  }
  return { algorithm, value: text.slice(algorithm.length + 1) };
}

/** The text that {@linkcode parseDigest} reads. */
export function digestText(digest: Digest): string {
  return `${digest.algorithm}:${digest.value}`;
}

/** @throws {AgentError} `digest_mismatch` naming what was hashed and both values */
export function requireDigest(
  what: string,
  found: Readonly<{ [Algorithm in DigestAlgorithm]?: string | null }>,
  wanted: Digest,
): void {
  const value = found[wanted.algorithm] ?? "not known";
  if (value === wanted.value) return;
  const message = `Cannot accept ${what}: its ${wanted.algorithm} is ${value}, ` +
    `expected ${wanted.value}`;
  throw new AgentError("digest_mismatch", message);
}

/** Bytes that are hashed at once: to hand a few to another thread takes ten times as long as to hash them. */
const AT_ONCE_MAX = 16 * 1024;
/** Not named in the import: its types would give the console's pages the timers of Node. */
const HASHING_MODULE = "node:crypto";
interface Hash {
  update(bytes: Uint8Array): Hash;
  digest(encoding: "hex"): string;
}
/** Imported once: each import() waits for a turn of the event loop. */
let hashing: Promise<{ createHash(algorithm: DigestAlgorithm): Hash }> | undefined;

/** The SHA-256 of bytes in memory, as lower-case hex. */
export async function sha256Hex(bytes: Uint8Array): Promise<string> {
  if (bytes.length <= AT_ONCE_MAX) {
    const { createHash } = await (hashing ??= import(HASHING_MODULE));
    return createHash("sha256").update(bytes).digest("hex");
  }
  // Callers never pass shared memory, which digest() would refuse.
  const hash = await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  return hexOf(new Uint8Array(hash));
}

/**
 * Levels of verification, of which each includes the one before it. From the weakest: nothing is
 * known of the file; it has the digests of the index, or the one that the caller gave; the vendor's
 * own checksum document says the same; and that document, or the file, has a signature by a key of
 * the operator.
 */
export const CHECK_LEVELS = ["none", "index", "vendor", "signature"] as const;
/** The level that a file has reached, or must reach before it is used. */
export type CheckLevel = typeof CHECK_LEVELS[number];

/** Whether a level is at least the required one. */
export function reaches(level: CheckLevel, wanted: CheckLevel): boolean {
  return CHECK_LEVELS.indexOf(level) >= CHECK_LEVELS.indexOf(wanted);
}
