// VNC authentication: the server sends 16 random bytes, and the client sends them back enciphered
// with the password. @see RFC 6143, 7.2.2

import { desEncipher } from "./des.ts";

/** Bytes of a challenge, and of its answer. */
export const CHALLENGE_BYTES = 16;
const BLOCK_BYTES = 8;

/** The answer to a challenge by one who knows the password. Characters after the eighth are lost. */
export function vncAnswer(password: string, challenge: Uint8Array): Uint8Array<ArrayBuffer> {
  const key = new Uint8Array(BLOCK_BYTES);
  // VNC takes the bits of each byte of the key in the other order than DES does.
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
export function sameAnswer(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}
