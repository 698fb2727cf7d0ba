// gzip, of several members and with padding at its end, as vendors' files have them.
// DecompressionStream, which the platform has too, refuses both.

import { throughTransform, TRANSFORM_OPTIONS } from "./node_transform.ts";
import type { Unpacker } from "./progress.ts";

/** Loads it. */
export async function openGzip(): Promise<Unpacker> {
  const { createGunzip } = await import("node:zlib");
  return (parts) => throughTransform(parts, createGunzip(TRANSFORM_OPTIONS));
}
