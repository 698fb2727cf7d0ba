import { assert, assertEquals, assertMatch } from "@std/assert";
import { functionProblem } from "../../src/decoder/work/task_sources.ts";

Deno.test("functionProblem() accepts every form of one function definition", () => {
  const sources = [
    "function (job, cb) { cb(); }",
    "function named(job, cb) { return cb(null, 'x'); }",
    "async function (job, cb) { await sleep(1); cb(); }",
    "(job, cb) => cb()",
    "async (job, cb) => { for await (const x of []) {} cb(); }",
    "job => {}",
    "(function (job, cb) { cb(); })",
    "function(){}",
    "function (job, cb) { cb() } // the end",
    "/* first */ function (job, cb) { 'use strict'; cb(); } /* last */\n",
    "\n\nfunction (err, job, cb) {\n  cb(err ?? `x${job?.params['y']}`);\n}\n",
    "function (job, cb) { const { a, ...rest } = job.params; cb(null, 1_000n > 2n ? rest : a); }",
  ];
  for (const source of sources) {
    assertEquals([source, functionProblem(source)], [source, undefined]);
  }
});

Deno.test("functionProblem() refuses everything else", () => {
  const sources = [
    "",
    " ",
    "not a function",
    "1",
    "'function () {}'",
    "{}",
    "class A {}",
    "function () {}()",
    "(function () {})()",
    "(() => () => {})()",
    "function (job, cb) {} function (job, cb) {}",
    "function (job, cb) {};",
    "function (job, cb) {}, 1",
    "function (job, cb) {}) ; evil(",
    "job => job)(1",
    "x => x), (y => y",
    "function (job, cb) {}) // ",
    "function (job, cb) { cb(",
    "function (job, cb) { await 1; }",
    "function* (job, cb) {}",
    "async function* (job, cb) {}",
    "import x from 'y'",
    "function (job, cb) { import x from 'y'; }",
    "var f = function () {}",
    "f = () => {}",
    "`${function () {}}`",
    "new Function()",
    "function (job, job) { 'use strict'; }",
  ];
  for (const source of sources) {
    assert(functionProblem(source) !== undefined, `${JSON.stringify(source)} was taken`);
  }
});

Deno.test("functionProblem() counts lines in the source as it was sent", () => {
  assertMatch(functionProblem("function (job, cb) { ] }") ?? "", /in line 1, column 22$/);
  assertMatch(functionProblem("function (job, cb) {\n  ]\n}") ?? "", /in line 2, column 3$/);
  // What is missing is missing at the end of the source, whatever stands behind it when it is parsed.
  const problem = (source: string) =>
    functionProblem(source)?.replace("is not a function definition: ", "");
  const end = "expected the rest of the function, found the end in";
  assertEquals(problem("(job, cb) => { foo("), `${end} line 1, column 20`);
  assertEquals(problem("(job, cb) => {\r\n  cb(\n"), `${end} line 3, column 1`);
  assertMatch(problem("(job, cb) => cb())") ?? "", /^found one closing parenthesis too many/);
});

Deno.test("functionProblem() says in its own words what it found", () => {
  const problem = (source: string) =>
    functionProblem(source)?.replace("is not a function definition: ", "");
  assertEquals(
    problem("(job, cb) => {\n  cb(null 'asked');\n}"),
    'found an unexpected "\'" in line 2, column 11',
  );
  assertEquals(
    problem("(job, cb) => { let a, a; }"),
    "identifier 'a' has already been declared in line 1, column 23",
  );
  for (
    const [source, kind] of [
      ["1 + 1", "another value"],
      ["cb()", "a call"],
      ["({})", "an object"],
      ["'x'", "a text or a number"],
    ]
  ) {
    assertMatch(problem(source ?? "") ?? "", new RegExp(`^found ${kind}, expected one function`));
  }
});

Deno.test("functionProblem() survives a source that is nested beyond the parser's stack", () => {
  for (const open of ["(", "[", "{", "a=>", "!"]) {
    const source = `function () {${open.repeat(200_000)}`;
    assertMatch(functionProblem(source) ?? "", /^is not a function definition: /);
  }
});

Deno.test("functionProblem() runs nothing", () => {
  const name = "taskSourceWasRun";
  functionProblem(`function (x = (globalThis.${name} = true)) {}`);
  functionProblem(`(globalThis.${name} = true)`);
  assertEquals(Reflect.get(globalThis, name), undefined);
});

Deno.test("functionProblem() finds one name declared twice among many", () => {
  const names = Array.from({ length: 20_000 }, (_, at) => `n${at}`);
  const declaring = (last: string) =>
    `function (job, cb) { let ${names.join(", ")}; let ${last}; }`;
  assertEquals(functionProblem(declaring("other")), undefined);
  assertMatch(functionProblem(declaring("n777")) ?? "", /'n777' has already been declared/);
  assertEquals(functionProblem("(job, cb) => { var a; var a; function a() {} }"), undefined);
  assertMatch(functionProblem("(job, cb) => { const a = 1; var a; }") ?? "", /already/);
  assertMatch(functionProblem("(job, cb) => { let a; { var a; } }") ?? "", /already/);
  assertEquals(functionProblem("(job, cb) => { let a; { let a; } }"), undefined);
});
