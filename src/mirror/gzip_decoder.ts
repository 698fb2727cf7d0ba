// gzip, of several members and with padding at its end, as vendors' files have them.
// DecompressionStream, which the platform has too, refuses both.

import type { Decoder } from "./decoding.ts";
import { throughTransform } from "./node_transform.ts";

/** Loads it. */
export async function openGzipDecoder(): Promise<Decoder> {
  const { createGunzip } = await import("node:zlib");
  return (parts) => throughTransform(parts, createGunzip());
}
