// Bytes: in memory, as texts that stand for them, and written as a whole.

/** What a size is divided by to be shown in MiB. */
export const BYTES_PER_MIB: number = 1024 ** 2;
/** What a size is divided by to be shown in GiB. */
export const BYTES_PER_GIB: number = 1024 ** 3;

/** Parts as one piece. @param size the bytes of all parts */
export function joined(parts: Iterable<Uint8Array>, size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Lower-case hex. */
export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The bytes that hex stands for. */
export function bytesOfHex(hex: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(
    { length: hex.length / 2 },
    (_, at) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16),
  );
}

/**
 * The bytes that base64 stands for.
 * @throws {DOMException} for a text that is not base64
 */
export function bytesOfBase64(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Base64, with padding. */
export function base64Of(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}

const BASE64URL = /^[A-Za-z0-9_-]+$/;

/** Bytes of base64url without padding; undefined for another text. */
export function bytesOfBase64Url(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (!BASE64URL.test(text)) return undefined;
  try {
    return bytesOfBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return undefined;
  }
}

/** Writes all bytes; one write may take only part of them. */
export async function writeAll(
  to: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await to.write(bytes.subarray(at));
}
