// What it is to undo a compression: parts of the packed file go in, parts of the file come out, as fast
// as they are taken. An unpacker bounds no size, which the agent does; it keeps the rules of progress.ts.

import type { PackedAs } from "../../domain/machine/media.ts";
import type { Unpacker } from "../unpack/byte_source.ts";

/** Loads what undoes a compression. */
export async function openUnpacker(compression: PackedAs): Promise<Unpacker> {
  switch (compression) {
    case "gzip":
      return await (await import("../unpack/gzip.ts")).openGzip();
    case "xz":
      return await (await import("../unpack/xz.ts")).openXz();
    case "zstd":
      return await (await import("../unpack/zstd.ts")).openZstd();
    case "bzip2":
      return (await import("../unpack/bzip2.ts")).unpackBzip2;
  }
}
