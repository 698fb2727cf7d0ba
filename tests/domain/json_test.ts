import { assert, assertEquals, assertNotEquals } from "@std/assert";
import fc from "fast-check";
import {
  canonicalJson,
  equalJson,
  isFiniteJson,
  isJsonObject,
  jsonDepth,
  type JsonObject,
  type JsonValue,
} from "../../src/domain/json.ts";

/** The value with the keys of every object in reverse order. */
function reversed(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(reversed);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, reversed(inner)] as const);
  return Object.fromEntries(entries.reverse());
}

/** What JSON text can hold: fc also makes -0, which it cannot. */
const anyJson = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as JsonValue);

Deno.test("canonicalJson() returns equal texts whatever the order of keys", () => {
  fc.assert(fc.property(anyJson, (value) => {
    assertEquals(canonicalJson(reversed(value)), canonicalJson(value));
  }));
});

Deno.test("canonicalJson() keeps every value", () => {
  fc.assert(fc.property(anyJson, (value) => {
    assertEquals(JSON.parse(canonicalJson(value)), value);
  }));
});

Deno.test("canonicalJson() returns different texts for different values", () => {
  fc.assert(fc.property(anyJson, anyJson, (one, other) => {
    fc.pre(JSON.stringify(reversed(one)) !== JSON.stringify(reversed(other)));
    const equal = canonicalJson(one) === canonicalJson(other);
    // Only the order of keys may have differed.
    if (equal) assertEquals(one, other);
  }));
});

Deno.test("canonicalJson() sorts keys at every level and keeps the order of lists", () => {
  const value = { b: [{ z: 1, a: 2 }, 1], a: { "2": 0, "10": 0, Z: 0, é: 0 } };
  assertEquals(
    canonicalJson(value),
    '{"a":{"2":0,"10":0,"Z":0,"é":0},"b":[{"a":2,"z":1},1]}',
  );
  assertNotEquals(canonicalJson([1, 2]), canonicalJson([2, 1]));
});

Deno.test("canonicalJson() keeps __proto__ as a key", () => {
  const value = JSON.parse('{"z":1,"__proto__":{"b":1,"a":2}}') as JsonObject;
  assertEquals(canonicalJson(value), '{"__proto__":{"a":2,"b":1},"z":1}');
  assertNotEquals(canonicalJson(value), canonicalJson({ z: 1 }));
});

Deno.test("canonicalJson() writes equal numbers alike", () => {
  assertEquals(canonicalJson(JSON.parse("[1.0,1e2,-0]")), canonicalJson(JSON.parse("[1,100,0]")));
});

Deno.test("jsonDepth() counts levels", () => {
  const cases: [string, number][] = [
    ["1", 0],
    ["null", 0],
    ['"[[["', 0],
    ["[]", 1],
    ["{}", 1],
    ["[[],1]", 2],
    ['{"a":{"b":[1]}}', 3],
    ['[1,{"a":[[]]}]', 4],
  ];
  for (const [text, depth] of cases) {
    assertEquals([text, jsonDepth(JSON.parse(text), 64)], [text, depth]);
  }
});

Deno.test("jsonDepth() stops counting just above its limit, however deep the value", () => {
  const deep = JSON.parse(`${"[".repeat(100_000)}${"]".repeat(100_000)}`);
  assertEquals(jsonDepth(deep, 64), 65);
  assertEquals(jsonDepth(JSON.parse(`${"[".repeat(64)}${"]".repeat(64)}`), 64), 64);
  assertEquals(jsonDepth(JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`), 64), 65);
});

Deno.test("isFiniteJson() finds a number that JSON cannot write again, at any depth", () => {
  fc.assert(fc.property(anyJson, (value) => assert(isFiniteJson(value))));
  for (const text of ["1e999", "[-1e999]", '{"a":[{"b":1e309}]}']) {
    assertEquals(isFiniteJson(JSON.parse(text)), false);
  }
});

Deno.test("isJsonObject() accepts objects only", () => {
  for (const value of [{}, { a: 1 }]) assert(isJsonObject(value));
  for (const value of [null, undefined, [], "{}", 1, true]) assert(!isJsonObject(value));
});

Deno.test("equalJson() agrees with the comparison of canonical texts", () => {
  fc.assert(fc.property(anyJson, anyJson, (one, other) => {
    assert(equalJson(one, reversed(one)));
    assertEquals(equalJson(one, other), canonicalJson(one) === canonicalJson(other));
  }));
  const pairs: [string, string][] = [
    ['{"__proto__":1}', '{"a":1}'],
    ['{"__proto__":1}', "{}"],
    ['{"toString":1}', "{}"],
    ["[]", "{}"],
    ["[null]", "[]"],
    ["0", '"0"'],
    ["null", "{}"],
  ];
  for (const [one, other] of pairs) {
    assert(!equalJson(JSON.parse(one), JSON.parse(other)), `${one} ${other}`);
    assert(!equalJson(JSON.parse(other), JSON.parse(one)), `${other} ${one}`);
  }
});
