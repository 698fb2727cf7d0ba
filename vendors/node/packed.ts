// A module that the build keeps compressed inside the one file, until it is asked for.

import { Buffer } from "node:buffer";
import { brotliDecompressSync } from "node:zlib";

/**
 * Unpacks a module and loads it.
 * @param packed its text, compressed by Brotli as base64
 */
export async function unpackModule(packed: string): Promise<Record<string, unknown>> {
  const text = brotliDecompressSync(Buffer.from(packed, "base64"));
  return await import(`data:text/javascript;base64,${text.toString("base64")}`);
}
