// `locks` of a job: a regular expression of the targets that no other job may have meanwhile. It
// comes from a caller and is tried on every later target, so that its time must be bounded: RE2
// matches in linear time, and refuses what cannot be matched so (look-around, back references).

import { invalidArgument, messageOf } from "./error.ts";

/** A pattern that targets are tried on. */
export interface LockPattern {
  /** Whether the pattern is found anywhere in the target. */
  matches(target: string): boolean;
}

/**
 * Reads a pattern. The engine is loaded with the first one, since most agents never see any.
 * @throws {AgentError} `invalid_argument` naming `locks`
 * @see the wiki of the RE2 project, Syntax
 */
export async function parseLockPattern(text: string): Promise<LockPattern> {
  const { RE2JS } = await import("re2js");
  try {
    const pattern = RE2JS.compile(text);
    return { matches: (target) => pattern.matcher(target).find() };
  } catch (error) {
    throw invalidArgument("locks", `Cannot read locks as a pattern: ${messageOf(error)}`);
  }
}
