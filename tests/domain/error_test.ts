import { assertEquals } from "@std/assert";
import { codeOfStatus, ERROR_CODES, systemCode, systemReason } from "../../src/domain/error.ts";

Deno.test("codeOfStatus() returns the general code of a status that several codes share", () => {
  assertEquals(codeOfStatus(409), "conflict");
  assertEquals(codeOfStatus(502), "upstream");
  assertEquals(codeOfStatus(503), "overloaded");
});

Deno.test("codeOfStatus() returns a code with that status, or internal if none has it", () => {
  for (const { status } of Object.values(ERROR_CODES)) {
    assertEquals(ERROR_CODES[codeOfStatus(status)].status, status);
  }
  assertEquals(codeOfStatus(418), "internal");
  assertEquals(codeOfStatus(200), "internal");
});

Deno.test("a file that the runtime refuses is named so, without the flags of its compiler", () => {
  const error = new Deno.errors.NotCapable('Requires all access to "/dev/mem", specify ...');
  assertEquals(systemReason(error), "this program may not open it");
  assertEquals(systemCode(error), "forbidden");
});
