import { assert, assertEquals } from "@std/assert";
import {
  countNames,
  jsonWeight,
  measureJson,
  valueWeight,
  wideNumbers,
} from "../../src/domain/json.ts";

const measured = (text: string) => measureJson(new TextEncoder().encode(text));

Deno.test("measureJson() counts the values of a text, and nothing inside its strings", () => {
  const cases: [string, number, number, number][] = [
    ["1", 0, 1, 0],
    ["[]", 1, 2, 0],
    ['{"a":[1,2,{"b":null}]}', 3, 6, 2],
    ['"[{,:\\"]}"', 0, 1, 0],
    ['{"\\\\":"\\\\\\"[","x":"é,{"}', 1, 3, 2],
    ['["unfinished', 1, 2, 0],
    ['["\\', 1, 2, 0],
    ["]]][", 0, 2, 0],
  ];
  for (const [text, depth, values, names] of cases) {
    const found = measured(text);
    assertEquals([found.depth, found.values, found.names], [depth, values, names], text);
  }
});

Deno.test("measureJson() bounds the values that a parser builds", () => {
  const values = [null, [], {}, [1, [2]], { a: { b: [] }, c: "x" }, [[[]]], [{}, {}, 1.5e3]];
  const count = (value: unknown): number =>
    typeof value !== "object" || value === null
      ? 1
      : 1 + Object.values(value).reduce<number>((sum, inner) => sum + count(inner), 0);
  for (const value of values) assert(measured(JSON.stringify(value)).values >= count(value));
});

Deno.test("measureJson() finds numbers that may be too large for a double", () => {
  const wide = ["18446744073709551615", "1e9", "1E9", "[12345678901234567890]", '{"a":2e+1}'];
  for (const text of wide) assert(measured(text).wideNumbers, text);
  const narrow = ["9999999999999999999", "true", '"1e9"', "[1,2.5,false]", "-1"];
  for (const text of narrow) assert(!measured(text).wideNumbers, text);
});

Deno.test("countNames() counts a repeated name once", () => {
  for (const text of ['{"a":1,"b":{"a":2}}', '{"__proto__":{"x":1}}', '[{"a":[{"b":1}]}]']) {
    assertEquals(countNames(JSON.parse(text)), measured(text).names, text);
  }
  for (const text of ['{"a":1,"a":1}', '[{"b":{"x":1,"\\u0078":2}}]']) {
    assert(countNames(JSON.parse(text)) < measured(text).names, text);
  }
});

Deno.test("jsonWeight() is at least the memory that V8 needs for values of many small parts", () => {
  const times = 1_000;
  const list = (part: (n: number) => string) =>
    `[${Array.from({ length: times }, (_, n) => part(n)).join(",")}]`;
  const weight = (text: string) => jsonWeight(new TextEncoder().encode(text)) / times;
  // As measured by the garbage collector's own account, for each part.
  assert(weight(list(() => "{}")) > 64);
  assert(weight(list(() => "[1]")) > 64);
  assert(weight(list((n) => `{"k${n}":1}`)) > 192);
  assert(weight(list((n) => `"x${n}"`)) > 34);
  assert(weight(`{${Array.from({ length: times }, (_, n) => `"${n}":1`).join(",")}}`) > 72);
});

Deno.test("valueWeight() of a value is at most jsonWeight() of its text, and close to it", () => {
  const texts = ["{}", '{"k":1}', '[[1,"abc",null],{"a":{"b":[]}}]', `["${"x".repeat(1_000)}"]`];
  for (const text of texts.map((part) => `[${Array(500).fill(part).join()}]`)) {
    const weight = jsonWeight(new TextEncoder().encode(text));
    const ofValue = valueWeight(JSON.parse(text));
    assert(ofValue <= weight && ofValue > 0.7 * weight, `${ofValue} of ${weight}`);
  }
});

Deno.test("measureJson() counts the names of each object by itself", () => {
  const cases: [string, number][] = [
    ["[1]", 0],
    ["{}", 0],
    ['{"a":1,"b":2}', 2],
    ['[{"a":1},{"b":2}]', 1],
    ['{"a":{"b":1,"c":2,"d":{}},"e":1}', 3],
    ['{"a":{"b":1},"c":{"d":1},"e":[{"f":1}]}', 3],
    [`${'{"a":'.repeat(300)}1${"}".repeat(300)}`, 1],
    ["}}}:::{", 0],
  ];
  for (const [text, names] of cases) assertEquals(measured(text).namesOfOne, names, text);
});

Deno.test("wideNumbers() finds every number of an exponent or over 19 digits, and none in strings", () => {
  const found = (text: string) => {
    const bytes = new TextEncoder().encode(text);
    return Array.from(wideNumbers(bytes), ([start, end]) => text.slice(start, end));
  };
  const long = "12345678901234567890";
  const cases: [string, string[]][] = [
    [`[${long},1,"${long}",1e5,-2E-7]`, [long, "1e5", "2E-7"]],
    [`{"a":${long}}`, [long]],
    [long, [long]],
    [`"${long}`, []],
    ["[1,2.5,1234567890123456789]", []],
    ["true", []],
  ];
  for (const [text, numbers] of cases) {
    assertEquals(found(text), numbers, text);
    assertEquals(measured(text).wideNumbers, numbers.length > 0, text);
  }
});
