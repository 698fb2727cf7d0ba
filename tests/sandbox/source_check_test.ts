// The last look at a source before a guest gets it.

import { assertEquals, assertMatch } from "@std/assert";
import { importProblem, openSourceCheck } from "../../src/sandbox/source_check.ts";

const IMPORTS = [
  "() => import('x')",
  "async () => { await import(`x`) }",
  "(job, cb = import('x')) => {}",
  "() => { class A { [import('x')] = 1 } }",
  "() => { class A { static { import('x') } } }",
  "() => `${import('x')}`",
  "() => ({ [import('x')]: 1 })",
  "() => { label: for (const a of import('x')) ; }",
  "() => () => () => import/* */('x')",
  "() => { x ?? y?.[import('x')] }",
];

const PLAIN = [
  "() => {}",
  "() => 'import(x)'",
  "() => /import('x')/",
  "() => { // import('x')\n }",
  "() => { job.import('x'); ({ import: 1 }).import }",
];

Deno.test("a source check refuses import() wherever it stands", () => {
  const check = openSourceCheck();
  for (const source of IMPORTS) {
    assertEquals(check(source), "uses import() in line 1: a task body has no modules", source);
    assertEquals(check(source), "uses import() in line 1: a task body has no modules", source);
  }
});

Deno.test("a source check leaves alone what only looks like an import", () => {
  const check = openSourceCheck();
  for (const source of PLAIN) assertEquals(check(source), undefined, source);
});

Deno.test("a source check refuses what is not one function", () => {
  const check = openSourceCheck();
  for (
    const source of ["", "1", "() => {}, 1", "() => {}); (1", "import.meta", "im\\u0070ort('x')"]
  ) {
    assertMatch(check(source) ?? "", /is not a function definition/, source);
  }
});

Deno.test("a source check answers the same after it has forgotten", () => {
  const check = openSourceCheck();
  for (let count = 0; count < 600; count++) assertEquals(check(`() => ${count}`), undefined);
  assertMatch(check("() => import('x')") ?? "", /uses import\(\)/);
});

Deno.test("a look for imports that runs out of stack refuses the source, and never throws", () => {
  assertEquals(importProblem(`() => ${"!".repeat(100_000)}1`), "is nested too deeply");
  assertEquals(importProblem(`() => ${"!".repeat(100)}1`), undefined);
});
