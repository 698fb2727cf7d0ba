// `locks` of a job: a regular expression of the targets that no other job may have meanwhile. It
// comes from a caller and is tried on every later target, so its time must be bounded: RE2 matches in
// linear time, and refuses what it cannot match that way (look-around, back references).

import type { RE2JS } from "re2js";
import { invalidArgument, messageOf } from "../error.ts";

/**
 * Instructions of a pattern's program: the time of a match is their number times the characters of
 * the target. Patterns that people write have some ten to a hundred,
 * and a text of the longest length that is allowed has as many as it has characters.
 */
const PROGRAM_MAX = 512;

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
  const { RE2JS: engine } = await import("re2js");
  const pattern = compile(engine, text);
  const size = pattern.programSize();
  if (size > PROGRAM_MAX) {
    const message = `Cannot accept locks: the pattern takes ${size} steps, at most ${PROGRAM_MAX}`;
    throw invalidArgument("locks", message, "TooLarge");
  }
  return { matches: (target) => pattern.matcher(target).find() };
}

function compile(engine: typeof RE2JS, text: string): RE2JS {
  try {
    return engine.compile(text);
  } catch (error) {
    throw invalidArgument("locks", `Cannot read locks as a pattern: ${messageOf(error)}`);
  }
}
