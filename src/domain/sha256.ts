// The SHA-256 of bytes that are in memory.

/** Lower-case hex. */
export async function sha256Hex(bytes: Uint8Array): Promise<string> {
  // The bytes that are given here never come from shared memory, which digest() would refuse.
  const hash = await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>);
  return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
