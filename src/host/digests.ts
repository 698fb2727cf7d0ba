// Digests of files as they are promised and as they are found.

import { DIGEST_ALGORITHMS, type DigestAlgorithm } from "../domain/digest.ts";

/** Digests that were computed, in lower-case hexadecimal. */
export type Digests = Readonly<Partial<Record<DigestAlgorithm, string>>>;

/** Digests that a file must have, in hexadecimal; each one that is given counts. */
export interface PromisedDigests {
  sha256?: string;
  sha512?: string;
}

/** The first promised digest that was not found, or null when every promise is kept. */
export function brokenPromise(promised: PromisedDigests, found: Digests): DigestAlgorithm | null {
  const broken = DIGEST_ALGORITHMS.find((algorithm) => {
    const digest = promised[algorithm];
    return digest !== undefined && digest.toLowerCase() !== found[algorithm];
  });
  return broken ?? null;
}
