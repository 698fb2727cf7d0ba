// Which decoder undoes a compression. Each is loaded when a file needs it.

import type { Decoder, PackedAs } from "./decoding.ts";

/** Loads the decoder of a compression. */
export async function openDecoder(compression: PackedAs): Promise<Decoder> {
  switch (compression) {
    case "gzip":
      return await (await import("./gzip_decoder.ts")).openGzipDecoder();
    case "xz":
      return await (await import("./xz_decoder.ts")).openXzDecoder();
    case "zstd":
      return await (await import("./zstd_decoder.ts")).openZstdDecoder();
    case "bzip2":
      return await (await import("./bzip2_decoder.ts")).openBzip2Decoder();
  }
}
