// How much was done to make sure that a file is the one that its vendor published. Each level holds
// what the one before it holds.

/**
 * From the weakest: nothing is known of the file; it has the digests of the index, or the one that the
 * caller gave; the vendor's own checksum document says the same; and that document, or the file, has a
 * signature by a key of the operator.
 */
export const CHECK_LEVELS = ["none", "index", "vendor", "signature"] as const;
/** One of the levels. */
export type CheckLevel = typeof CHECK_LEVELS[number];

/** Whether a level is at least the one that is wanted. */
export function reaches(level: CheckLevel, wanted: CheckLevel): boolean {
  return CHECK_LEVELS.indexOf(level) >= CHECK_LEVELS.indexOf(wanted);
}
