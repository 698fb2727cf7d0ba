import { assert, assertEquals } from "@std/assert";
import { countNames, measureJson } from "../../src/domain/json_scan.ts";

const measured = (text: string) => measureJson(new TextEncoder().encode(text));

Deno.test("measureJson() counts what a text holds, and nothing inside its strings", () => {
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

Deno.test("countNames() counts fewer names than the text has when one stands twice", () => {
  for (const text of ['{"a":1,"b":{"a":2}}', '{"__proto__":{"x":1}}', '[{"a":[{"b":1}]}]']) {
    assertEquals(countNames(JSON.parse(text)), measured(text).names, text);
  }
  for (const text of ['{"a":1,"a":1}', '[{"b":{"x":1,"\\u0078":2}}]']) {
    assert(countNames(JSON.parse(text)) < measured(text).names, text);
  }
});
