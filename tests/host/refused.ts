// Expecting an AgentError in tests.

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";

/** Expects a failure of this code whose message holds all of these texts, and returns it. */
export async function refused(
  run: () => Promise<unknown>,
  code: ErrorCode,
  ...texts: string[]
): Promise<AgentError> {
  const error = await assertRejects(run, AgentError, "", texts.join());
  for (const text of texts) assertStringIncludes(error.message, text);
  assertEquals(error.code, code, error.message);
  return error;
}
