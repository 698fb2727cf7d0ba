// Bytes that are generated in pieces, as often as needed, so that their size costs no memory; and their
// digests for an index.

/** Bytes that can be generated repeatedly, always the same. */
export interface Content {
  /** How many they are. */
  readonly size: number;
  chunks(): Iterable<Uint8Array<ArrayBuffer>>;
}

/** Digests of some content, lower-case hex. */
export interface ContentDigests {
  readonly sha256: string;
  readonly sha512: string;
}

/** Hashing gives the event loop a turn after this many bytes. */
const TURN_BYTES = 4 << 20; // 4 MiB, about 10 ms

/** Content that is held in memory. */
export function contentOf(bytes: Uint8Array<ArrayBuffer>): Content {
  return { size: bytes.length, chunks: () => [bytes] };
}

/** Both digests in one pass. */
export async function digestsOf(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<ContentDigests> {
  // Web Crypto only hashes whole buffers. Imported here, since at start-up it would cost milliseconds.
  const { createHash } = await import("node:crypto");
  const [sha256, sha512] = [createHash("sha256"), createHash("sha512")];
  let untilTurn = TURN_BYTES;
  for await (const chunk of chunks) {
    sha256.update(chunk);
    sha512.update(chunk);
    untilTurn -= chunk.length;
    if (untilTurn > 0) continue;
    await new Promise((resolve) => setTimeout(resolve));
    signal?.throwIfAborted();
    untilTurn = TURN_BYTES;
  }
  return { sha256: sha256.digest("hex"), sha512: sha512.digest("hex") };
}
