// Decompresses gzip, including files of several members and with padding at the end, which vendors publish.
// The platform's DecompressionStream refuses both.

import type { Unpacker } from "./byte_source.ts";

/** Loads the decompressor, whose cost only a packed file pays. */
export async function openGzip(): Promise<Unpacker> {
  const { createGunzip } = await import("node:zlib");
  return (parts) => throughTransform(parts, createGunzip(TRANSFORM_OPTIONS));
}

// Runs bytes through a transform stream of Node.

/** The members of a node:stream Duplex that are used here. */
type Transform = NodeJS.ReadWriteStream & AsyncIterable<Uint8Array>;

/** Bytes per part of output; as many as the pipe to the agent takes. */
export const TRANSFORM_OPTIONS = { chunkSize: 64 * 1024 } as const;

/** Sends parts through a transform; its errors, and those of the parts, are thrown here. */
export async function* throughTransform(
  parts: AsyncIterable<Uint8Array>,
  transform: Transform,
): AsyncGenerator<Uint8Array> {
  // Loaded on first use: each node: module costs milliseconds of start.
  const { pipeline, Readable } = await import("node:stream");
  // A failure destroys the transform, and so ends the loop below with it.
  pipeline(Readable.from(parts), transform, () => {});
  for await (const part of transform) yield part;
}
