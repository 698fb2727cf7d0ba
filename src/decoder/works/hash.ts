// The digest of a stream of bytes.

import type { JsonObject } from "../../domain/json.ts";
import type { DecoderWork } from "../work_limits.ts";

/** The digests that media and documents are known by. */
const ALGORITHMS = ["sha256", "sha512"] as const;

/** Answers the digest of its input, as hexadecimal text. */
export const hashWork: DecoderWork = async (request, input) => {
  const { createHash } = await import("node:crypto");
  const hash = createHash(algorithmOf(request));
  for await (const part of input) hash.update(part);
  return hash.digest("hex");
};

function algorithmOf({ algorithm }: JsonObject): string {
  const known = ALGORITHMS.find((name) => name === algorithm);
  if (known !== undefined) return known;
  throw new TypeError(`Cannot hash: expected the algorithm to be one of ${ALGORITHMS.join(", ")}`);
}
