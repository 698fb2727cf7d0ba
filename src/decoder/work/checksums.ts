// Finds the hashes of one file in a vendor's checksum document.

import {
  CHECKSUM_FORMATS,
  type ChecksumFormatName,
  listedHashes,
} from "../../domain/index/checksum_document.ts";
import { DIGEST_ALGORITHMS } from "../../domain/digest.ts";
import { openByteSource } from "./byte_source.ts";
import type { DecoderWork } from "./work.ts";

/** Returns the hashes found, at most two. */
export const checksumsWork: DecoderWork = async (request, input) => {
  const format: ChecksumFormatName | undefined = CHECKSUM_FORMATS.find((known) =>
    known === request.format
  );
  const algorithm = DIGEST_ALGORITHMS.find((known) => known === request.algorithm);
  if (format === undefined || algorithm === undefined) {
    throw new TypeError("Cannot read checksums: the format or the algorithm is unknown");
  }
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of openByteSource(input).rest()) text += decoder.decode(part, STREAM);
  text += decoder.decode();
  return listedHashes(text, { format, algorithm, filename: String(request.filename) });
};

const STREAM = { stream: true } as const;
