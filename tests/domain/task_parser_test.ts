// The parser of task sources against the one it is made of: the same verdict on every declaration,
// in time and memory that grow with the source.

import { assertEquals, assertMatch } from "@std/assert";
import { type Options, Parser } from "acorn";
import fc from "fast-check";
import { parseTask } from "../../src/decoder/work/task_sources.ts";

const OPTIONS: Options = { ecmaVersion: 2024, sourceType: "script" };

function verdict(parse: () => unknown): string {
  try {
    parse();
    return "accepted";
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

const name = fc.constantFrom("a", "b", "c");

/** Statements that open scopes and declare a few names in all the ways there are. */
const { block } = fc.letrec<{ block: string; statement: string }>((tie) => ({
  block: fc.array(tie("statement"), { maxLength: 4 }).map((lines) => lines.join(" ")),
  statement: fc.oneof(
    { maxDepth: 5 },
    fc.tuple(fc.constantFrom("var", "let", "const", "function", "class", "async function"), name)
      .map(([how, what]) => declaration(how, what)),
    fc.tuple(fc.constantFrom("var", "let"), name, name)
      .map(([how, one, other]) => `${how} [${one}, { x: ${other} }] = [];`),
    tie("block").map((inner) => `{ ${inner} }`),
    fc.tuple(name, tie("block")).map(([one, inner]) => `try {} catch (${one}) { ${inner} }`),
    fc.tuple(name, tie("block")).map(([one, inner]) => `try {} catch ([${one}]) { ${inner} }`),
    fc.tuple(name, name, tie("block"))
      .map(([one, other, inner]) => `function ${one}(${other}) { ${inner} }`),
    fc.tuple(name, name, tie("block"))
      .map(([one, other, inner]) => `((${one}, ${other}) => { ${inner} });`),
    fc.tuple(name, tie("block"))
      .map(([one, inner]) => `class C${one} { static { ${inner} } m(${one}) { ${inner} } }`),
    fc.tuple(fc.constantFrom("var", "let"), name, tie("block"))
      .map(([how, one, inner]) => `for (${how} ${one} of []) { ${inner} }`),
    fc.tuple(name, tie("block")).map(([one, inner]) =>
      `switch (1) { case 1: let ${one}; ${inner} }`
    ),
    fc.tuple(name, tie("block"))
      .map(([one, inner]) => `(function ${one}() { "use strict"; ${inner} });`),
    fc.tuple(name, name).map(([one, other]) =>
      `if (1) function ${one}() {} else { var ${other}; }`
    ),
  ),
}));

function declaration(how: string, what: string): string {
  if (how === "class") return `class ${what} {}`;
  if (how.endsWith("function")) return `${how} ${what}() {}`;
  return `${how} ${what} = 1;`;
}

Deno.test("parseTask() agrees with acorn about every declaration", () => {
  const numRuns = Number(Deno.env.get("ZONEWRIGHT_TEST_INPUTS") ?? 20_000);
  let refused = 0;
  fc.assert(
    fc.property(block, (source) => {
      const expected = verdict(() => Parser.parse(source, OPTIONS));
      assertEquals(verdict(() => parseTask(source, OPTIONS)), expected, source);
      if (expected !== "accepted") refused += 1;
    }),
    { numRuns },
  );
  // A generator that hits nothing would prove nothing.
  assertEquals(refused > numRuns / 20 && refused < numRuns * 19 / 20, true, `${refused} refused`);
});

function nested(depth: number, inner: string): string {
  return `(() => { ${"{".repeat(depth)} ${inner} ${"}".repeat(depth)} })`;
}

Deno.test("parseTask() parses 60,000 names in 500 blocks, for every kind of declaration", () => {
  const names = Array.from({ length: 60_000 }, (_, at) => `n_${at}`);
  for (const how of ["var", "let"]) {
    const declared = nested(500, `${how} ${names.join(",")};`);
    assertEquals(verdict(() => parseTask(declared, OPTIONS)), "accepted");
    const twice = nested(500, `${how} ${names.join(",")}; let n_1;`);
    assertMatch(
      verdict(() => parseTask(twice, OPTIONS)),
      /^Identifier 'n_1' has already been declared/,
    );
  }
  const functions = names.map((one) => `function ${one}(){}`).join("");
  assertEquals(verdict(() => parseTask(nested(100, functions), OPTIONS)), "accepted");
});
