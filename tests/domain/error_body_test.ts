// An error as another agent answers it, of this or another version.

import { assertEquals } from "@std/assert";
import { AgentError, ERROR_CODES, type ErrorCode } from "../../src/domain/error.ts";
import { readErrorBody } from "../../src/domain/error_body.ts";
import { errorResponse } from "../../src/http/answer/error_response.ts";

/** Codes that end a program, and which no caller of it has. */
const ENDS: readonly string[] = ["aborted", "internal", "other_schema", "unreachable"];

for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
  if (ENDS.includes(code)) continue;
  Deno.test(`an error of code ${code} is read as it was sent`, async () => {
    const sent = new AgentError(code, "Cannot do it: a test", {
      about: { kind: "job", name: "a" },
      errors: [{ field: "target", code: "Missing", message: "target is missing" }],
    });
    const answer = errorResponse(sent, "1");
    const { message, errors, about } = sent;
    const read = readErrorBody(answer.status, await answer.json());
    assertEquals(read, { code, message, errors, about });
  });
}

Deno.test("an agent that stops has no time for its caller, who is not canceled", () => {
  assertEquals(readErrorBody(503, { error_code: "aborted" }).code, "overloaded");
});

Deno.test("an error body needs only a status and node-workflow's code", () => {
  assertEquals(readErrorBody(404, {}).code, "not_found");
  assertEquals(readErrorBody(409, {}).code, "conflict");
  assertEquals(readErrorBody(409, { code: "InvalidArgument" }).code, "invalid_argument");
  assertEquals(readErrorBody(404, { error_code: "conflict" }).code, "not_found");
});

Deno.test("what a later version says of an error is left out where it is not known", () => {
  const { errors, about } = readErrorBody(409, {
    about: { kind: "later", name: "a" },
    errors: [{ field: "a", code: "Later", message: "a is wrong" }, { field: 1 }],
  });
  assertEquals(errors, [{ field: "a", code: "Invalid", message: "a is wrong" }]);
  assertEquals(about, undefined);
});
