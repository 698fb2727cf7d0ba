import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { schemaProblems } from "./json_schema.ts";

const DOCUMENT: JsonObject = { words: { Name: { type: "string", minLength: 2 } } };
const NAME = { $ref: "#/words/Name" };

Deno.test("schemaProblems() finds nothing in what fits", () => {
  const fitting: [unknown, JsonObject][] = [
    [null, { type: ["string", "null"] }],
    [3, { type: "integer", minimum: 3, maximum: 3 }],
    ["ab", NAME],
    [{ a: "ab", b: 1 }, { type: "object", required: ["a"], properties: { a: NAME } }],
    [["ab"], { type: "array", items: NAME, maxItems: 1 }],
    [{ x: true }, { additionalProperties: { type: "boolean" } }],
    ["x", { oneOf: [{ enum: ["x"] }, { type: "integer" }] }],
    ["00000000-0000-4000-8000-000000000001", { format: "uuid" }],
  ];
  for (const [value, schema] of fitting) assertEquals(schemaProblems(value, schema, DOCUMENT), []);
});

Deno.test("schemaProblems() names the place of whatever does not fit", () => {
  const wrong: [unknown, JsonObject, string][] = [
    [1.5, { type: "integer" }, "$ is not of type integer"],
    [null, { type: "object" }, "$ is not of type object"],
    [["ab", "a"], { items: NAME }, "$[1] passes the limit 2"],
    [{}, { required: ["a"] }, "$.a is missing"],
    [{ b: 1 }, { properties: {}, additionalProperties: false }, "$.b is unknown"],
    ["c", { enum: ["a", "b"] }, '$ is none of ["a","b"]'],
    [true, { const: false }, "$ is not false"],
    ["x", { pattern: "^y" }, "$ does not match ^y"],
    ["x", { format: "uuid" }, "$ is no uuid"],
    ["x", { format: "unheard-of" }, "$ has the unknown format unheard-of"],
    ["x", { nullable: true }, "$ has the unknown rule nullable"],
    ["x", { $ref: "#/words/None" }, "$ has no schema"],
    ["x", { anyOf: [{ type: "null" }] }, "$ fits 0 of its choices: $ is not of type null"],
    ["x", { oneOf: [{}, {}] }, "$ fits 2 of its choices: "],
  ];
  for (const [value, schema, problem] of wrong) {
    assertEquals(schemaProblems(value, schema, DOCUMENT), [problem]);
  }
});

Deno.test("schemaProblems() takes properties without a name for errors where it is asked to", () => {
  const schema = { type: "object", properties: { a: {} } };
  const value = { a: 1, b: 2 };
  assertEquals(schemaProblems(value, schema, {}), []);
  assertEquals(schemaProblems(value, schema, {}, { named: true }), ["$.b is unknown"]);
  const open = { ...schema, additionalProperties: true };
  assertEquals(schemaProblems(value, open, {}, { named: true }), []);
});
