// Hashes many streams at once in one decoder: downloads may take hours, and a decoder for each would leave
// none for other work. Nothing is parsed here but the framing.
//
//   in    packets: stream (4 bytes), what (1 byte), length (4 bytes), and that many bytes
//   out   a line of JSON for each stream that has ended: {"stream", "sha256", "sha512"?}

import type { DecoderWork } from "../decoder_message.ts";
import { openByteSource } from "./byte_source.ts";

/** The kinds of packets, as a byte in their header. */
export const PACKET = {
  /** A stream begins; one byte: 1 when it is hashed by SHA-512 too, else 0. */
  begin: 1,
  /** The next bytes of the stream. */
  bytes: 2,
  /** The stream has ended: the decoder answers its digests. */
  end: 3,
  /** The stream is abandoned; no answer follows. */
  drop: 4,
} as const;
/** Bytes of a packet before those of the stream. */
export const PACKET_HEAD_BYTES = 9;

/** Returns the number of streams that ended. */
export const hashesWork: DecoderWork = async (_request, input, output) => {
  const { createHash } = await import("node:crypto");
  const open = new Map<number, ReturnType<typeof createHash>[]>();
  const source = openByteSource(input);
  let ended = 0;
  while (!await source.ended()) {
    const head = await source.take(PACKET_HEAD_BYTES);
    const view = new DataView(head.buffer, head.byteOffset);
    const [stream, what, length] = [view.getUint32(0), view.getUint8(4), view.getUint32(5)];
    const hashes = open.get(stream) ?? [];
    switch (what) {
      case PACKET.begin: {
        const [both] = await source.take(length);
        const algorithms = both === 1 ? ["sha256", "sha512"] : ["sha256"];
        open.set(stream, algorithms.map((algorithm) => createHash(algorithm)));
        break;
      }
      case PACKET.bytes:
        for await (const part of source.parts(length)) {
          for (const hash of hashes) hash.update(part);
        }
        break;
      case PACKET.end: {
        const [sha256, sha512] = hashes.map((hash) => hash.digest("hex"));
        open.delete(stream);
        ended += 1;
        await output(new TextEncoder().encode(JSON.stringify({ stream, sha256, sha512 }) + "\n"));
        break;
      }
      default:
        open.delete(stream);
    }
  }
  return ended;
};
