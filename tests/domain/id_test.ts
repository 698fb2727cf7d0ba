import { assert, assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import {
  isUuid,
  type JobUuid,
  parsePathUuid,
  parseUuid,
  randomUuid,
  type WorkflowUuid,
} from "../../src/domain/id.ts";

const UUID = "6c0c5a11-0b4e-4d0e-9d5b-2f3a1c9e7b10";

const NO_UUIDS = [
  "",
  "x",
  UUID.slice(1),
  `${UUID}0`,
  ` ${UUID}`,
  `${UUID}\n`,
  `{${UUID}}`,
  UUID.replaceAll("-", ""),
  UUID.replace("6", "g"),
  "../../etc/passwd",
];

Deno.test("isUuid() accepts lower-case uuids only", () => {
  assert(isUuid(UUID));
  assert(isUuid("00000000-0000-0000-0000-000000000000"));
  for (const text of [...NO_UUIDS, UUID.toUpperCase()]) assert(!isUuid(text), text);
  for (const value of [undefined, null, 7, {}, [UUID]]) assert(!isUuid(value));
});

Deno.test("parsePathUuid() folds case, and treats any other text as not found", () => {
  assertEquals<string>(parsePathUuid<JobUuid>(UUID.toUpperCase(), "job"), UUID);
  for (const text of NO_UUIDS) {
    const error = assertThrows(() => parsePathUuid<JobUuid>(text, "job"), AgentError);
    assertEquals(error.code, "not_found");
  }
});

Deno.test("parsePathUuid() cuts a long text in its error", () => {
  const error = assertThrows(() => parsePathUuid<JobUuid>("x".repeat(10_000), "job"), AgentError);
  assert(error.message.length < 200);
});

Deno.test("parseUuid() names the field that is missing or not a uuid", () => {
  assertEquals<string>(parseUuid<WorkflowUuid>(UUID.toUpperCase(), "workflow"), UUID);
  for (const value of [...NO_UUIDS, null, 7, {}, [UUID], undefined]) {
    const error = assertThrows(() => parseUuid<WorkflowUuid>(value, "workflow"), AgentError);
    const [first] = error.errors;
    assertEquals([error.code, first?.field], ["invalid_argument", "workflow"]);
    assertEquals(first?.code, value === undefined ? "Missing" : "Invalid");
  }
});

Deno.test("randomUuid() makes uuids that differ", () => {
  const made = Array.from({ length: 100 }, () => randomUuid<JobUuid>());
  assert(made.every(isUuid));
  assertEquals(new Set(made).size, 100);
});
