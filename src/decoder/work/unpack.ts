// Decompresses one file: packed bytes go in, the file comes out, and its digest at the end. The agent
// limits the size by what comes out.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";
import { COMPRESSIONS, type PackedAs } from "../../domain/machine/media.ts";
import type { Unpacker, UnpackProgress } from "../unpack/byte_source.ts";
import { type DecoderWork, isOutOfMemory } from "./work.ts";

/** @throws {AgentError} `upstream` for a file that is damaged, cut, or gets no further */
export const unpackWork: DecoderWork = async (request, input, output) => {
  const { createHash } = await import("node:crypto");
  const { openProgress } = await import("../unpack/byte_source.ts");
  const unpack = await openUnpacker(compressionOf(request));
  const progress = openProgress();
  const hash = createHash("sha256");
  try {
    for await (const part of unpack(counted(input, progress), progress)) {
      progress.gave(part.byteLength);
      hash.update(part);
      await output(part);
    }
    return { sha256: hash.digest("hex") };
  } catch (error) {
    // Out of memory says nothing about the file; it ends the process.
    if (isOutOfMemory(error)) throw error;
    const message = `Cannot ${request.what}: ${messageOf(error)}`;
    throw new AgentError("upstream", message, { cause: error });
  }
};

async function* counted(
  input: AsyncIterable<Uint8Array>,
  progress: UnpackProgress,
): AsyncGenerator<Uint8Array> {
  for await (const part of input) {
    progress.took(part.byteLength);
    yield part;
  }
}

function compressionOf({ compression }: JsonObject): PackedAs {
  const known = COMPRESSIONS.find((name) => name === compression);
  if (known !== undefined) return known;
  throw new AgentError("internal", `Cannot unpack: expected one of ${COMPRESSIONS.join(", ")}`);
}

/** Loads the decompressor of a format. It does not limit the size; the agent does. */
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
