// The word `import` in a source: refused wherever some reading of the text has it as code. Which
// reading V8 takes is asked of V8 itself.

import { Script } from "node:vm";
import { assert, assertEquals, assertMatch } from "@std/assert";
import fc from "fast-check";
import { importProblem } from "../../src/domain/job/import_word.ts";
import { parseTask } from "../../src/decoder/work/task_sources.ts";

/** Inputs of an ordinary run; the long run names another number. */
const INPUTS = Number(Deno.env.get("ZONEWRIGHT_TEST_INPUTS") ?? 20_000);

/** Words that are a name at one place and a keyword at another. */
const CONTEXTUAL = [
  "as",
  "async",
  "await",
  "from",
  "get",
  "let",
  "of",
  "set",
  "static",
  "yield",
  "accessor",
  "target",
  "using",
];

/** Each may be followed by a slash that one parser or another takes for something else. */
const HEADS = [
  ...CONTEXTUAL.flatMap((word) => [
    word,
    `a?.${word}`,
    `a.${word}`,
    `null\n${word}`,
    `var ${word}`,
    `for (${word}`,
    `for (var a ${word}`,
    `({ ${word}`,
    `class A { ${word}`,
    `class A { static ${word}`,
    `function* f() { ${word}`,
    `async () => { ${word}`,
    `${word} =>`,
    `${word}: `,
  ]),
  "let a",
  "l: for (;;) { break l",
  "l: for (;;) { continue l",
  "a++",
  "a--",
  "a\n++",
  "(a)",
  "if (a)",
  "while (0)",
  "do ; while (0)",
  "for (;;)",
  "with (a)",
  "{}",
  "({})",
  "class A {}",
  "(class {})",
  "function f() {}",
  "(function () {})",
  "() => {}",
  "a => a",
  "class A { x",
  "class A { x = 1",
  "class A { x() {}",
  "class A { static {}",
  "class A { [a]",
  "class A { #x",
  "[]",
  "a[0]",
  "`t`",
  "`${1}`",
  "`${",
  "`${`${",
  "a`t`",
  "/r/",
  "/[/]/",
  "'s'",
  "1",
  "1.",
  "1n",
  "typeof",
  "void",
  "delete a",
  "return",
  "throw",
  "new A",
  "new",
  "new.target",
  "switch (a) { case 1:",
  "switch (a) { default:",
  "a ? b :",
  "a ??",
  "a?.",
  "a, ",
  "a =",
  "!",
  "#x in a",
  "super",
  "this",
  "null",
  "else",
  "if (a) ; else",
  "try {}",
  "debugger",
  "-->",
  "<!--",
  "<!-- a\n",
  "/* */",
  "/*\n*/ -->",
  "// a\n",
  "#!",
];
const GAPS = [
  "",
  " ",
  "\n",
  "\r",
  "\r\n",
  "\u2028",
  "/**/",
  "/*\n*/",
  "//\n",
  "\t",
  "\ufeff",
  ";",
  "}",
];
const WORDS = [
  `import("x")`,
  `import ("x")`,
  `import/**/("x")`,
  `import\n("x")`,
  `import.meta`,
  `import.source("x")`,
  `import.defer("x")`,
  `import("x", { with: { type: "json" } })`,
  `...import("x")`,
  `.import("x")`,
  `?.import("x")`,
  `1.import("x")`,
  `1.\nimport("x")`,
  `{ import: import("x") }`,
  `im\\u0070ort("x")`,
  `import`,
  `a.import`,
  `import:`,
];
/** What stands around the word; `@` is its place. */
const SLASHES = [
  "/ @ /g",
  "/ (p = @) /g",
  "/[/] @ /]/",
  "/[/] + @ + /]/",
  '/ " / @ / " /',
  '/"/ + @ + /"/',
  "/'/ + @ //'",
  "/`/ + @ + /`/",
  "/`${/ + @ + /}`/",
  "/ ` / + `${@}`",
  "/*/ @ /*/",
  "/ @ //",
  "// @ \n @",
  "/\\/ @ /\\/",
  "/=/ @ /=/",
  "/= @ /",
  "/a/ @",
  "/[`]/ + @ + '`'",
  "/ {/ + @ + /}/",
  "`/ @ /`",
  "`${/`/} @ `",
  "`${/}/ + @}`",
  '"/ @ /"',
  '"\\\n @ "',
  "'\\\r\n' + @ + ''",
  "<!-- / @ \n /",
  "\n--> @ \n",
  "@",
];
const ANY = [
  ..."/`'\"\\{}[]()<>!-.#*=,;:?$\n ",
  "${",
  "//",
  "/*",
  "*/",
  "\\u",
  "=>",
  "a",
  "1",
  "of",
  "\u2028",
];

const piece = (texts: readonly string[]) => fc.constantFrom(...texts);
const filled = fc.tuple(piece(SLASHES), piece(WORDS))
  .map(([around, word]) => around.replaceAll("@", () => word));
const noise = fc.array(piece(ANY), { maxLength: 4 }).map((texts) => texts.join(""));
const none = fc.constant("");
/** Braces and parentheses that a head leaves open. */
function closing(head: string): string {
  const open = [...head].filter((char) => "({".includes(char)).map((char) =>
    char === "(" ? ")" : "}"
  );
  const closed = [...head].filter((char) => ")}".includes(char)).length;
  return open.reverse().slice(0, open.length - closed).join("\n");
}
const anySource = fc.tuple(
  fc.oneof(none, noise),
  piece(HEADS),
  piece(GAPS),
  filled,
  piece(GAPS),
  fc.oneof({ weight: 3, arbitrary: none }, noise, filled),
).map(([before, head, gap, word, ...behind]) =>
  `async (job, cb) => { ${before}${head}${gap}${word}${behind.join("")}\n${closing(head)} }`
);

Deno.test(`importProblem() finds every import that V8 finds, in ${INPUTS} sources`, () => {
  let imports = 0;
  let missed = 0;
  let accepted = 0;
  fc.assert(
    fc.property(anySource, (source) => {
      const problem = importProblem(source);
      if (problem === undefined) accepted += 1;
      if (!importsInV8(source)) return;
      imports += 1;
      if (!importsInAcorn(source)) missed += 1;
      assert(problem !== undefined, `V8 imports in ${JSON.stringify(source)}`);
    }),
    { numRuns: INPUTS },
  );
  console.log(
    `V8 found an import in ${imports} sources; a parser missed ${missed} of them; ` +
      `${accepted} of ${INPUTS} were accepted`,
  );
  assert(imports > INPUTS / 20 && accepted > INPUTS / 50);
});

const WORD = /import/g;
const NO_MODULE = "Cannot use 'import.meta' outside a module";

/**
 * Whether V8 reads one of the words as the keyword: `import.meta` is an error of its own wherever a
 * script has it as code, and nothing but text elsewhere. What follows the word may be no program. A key
 * becomes code by that, so where a colon follows, the source as it is has to be one. Compiled as guests
 * do; nothing is run.
 */
function importsInV8(source: string): boolean {
  return Array.from(source.matchAll(WORD)).some(({ index }) => {
    const rest = source.slice(index + 6);
    const error = errorInV8(`${source.slice(0, index)}import.meta${rest}`);
    return error === NO_MODULE && (!/^\s*:/.test(rest) || errorInV8(source) === undefined);
  });
}

function errorInV8(source: string): string | undefined {
  try {
    new Script(`(() => (${source}\n))`);
    return undefined;
  } catch (error) {
    return error instanceof SyntaxError ? error.message : String(error);
  }
}

/** Whether a parser that decides what each slash is finds one, or refuses the source. */
function importsInAcorn(source: string): boolean {
  try {
    const program = parseTask(`(${source}\n)`, { ecmaVersion: 2024 });
    return JSON.stringify(program, (_, value) => typeof value === "bigint" ? null : value)
      .includes('"ImportExpression"');
  } catch {
    return true;
  }
}

/** `@` is the place of what is refused there. */
const REFUSED = [
  "() => @",
  "async () => { await @ }",
  "(job, cb = @) => {}",
  "() => { class A { [@] = 1 } }",
  "() => { class A { static { @ } } }",
  "() => { class A { x = @ } }",
  "() => `${@}`",
  "() => `${`${{ a: @ }}`}`",
  "() => `${{}}` + @ + `}`",
  "() => ({ [@]: 1 })",
  "() => [...@]",
  "() => { label: @ }",
  "() => () => () => @",
  "() => a ?? b?.[@]",
  "() => 1.\n@",
  "() => { /* . */ @ }",
  "() => { // .\n@ }",
  "() => 'a.'\n@",
  "() => '\\\r\n' + @ + ''",
  "() => { a?.of\n/ (p = @) /g }",
  "() => { null\nof\n/ @ /g }",
  "() => { let of\n/ @ /g }",
  "() => { l: for (;;) { break l\n/ @ /g } }",
  "() => { let a\n/ @ /g }",
  "() => { a++\n/ @ /g }",
  "() => { if (a) / @ /g }",
  "() => { <!-- `\n@ // `\n}",
  "() => { /*\n*/ --> `\n@ // `\n}",
  "() => { /[/]/ + @ + /[/]/ }",
  "() => { /`/; @; /`/ }",
  ...CONTEXTUAL.flatMap((word) => [
    `() => { a?.${word}\n/ (p = @) /g }`,
    `() => { null\n${word}\n/ @ /g }`,
    `() => { class A { ${word}\n= a / @ /g } }`,
    `() => { ${word}: / @ /g }`,
  ]),
];

Deno.test("importProblem() refuses the word where it may be code, and names the line", () => {
  const words = [
    "import('x')",
    "import/**/('x')",
    "import\n('x')",
    "import.meta",
    "import.source('x')",
    "import.defer('x')",
    "import('x', { with: { type: 'json' } })",
    "im\\u0070ort('x')",
    "\\u{0069}\\u{6D}port('x')",
  ];
  for (const around of REFUSED) {
    for (const word of words) {
      const problem = importProblem(around.replace("@", () => word));
      const line = around.slice(0, around.indexOf("@")).split(/\r\n|\n/).length;
      assertMatch(
        problem ?? "",
        new RegExp(`^may use import as code .* in line ${line}, `),
        around,
      );
    }
  }
  assertEquals(
    importProblem("() => {\n  import('x') }"),
    "may use import as code (a task body has no modules, rename it or split the word in a text) " +
      "in line 2, column 3",
  );
});

const ACCEPTED = [
  "() => 'import(x)'",
  '() => "\\"import(x)"',
  "() => `import(x) ${1} import(x)`",
  "() => `${ { a: `}` } } import(x)`",
  "() => { // import('x')\n }",
  "() => { /* don't import('x') / */ }",
  "() => { job.import('x'); job?.import; job\n  .import = 1; a1.import; (a)[0].import }",
  "() => ({ import: 1, 'import': 2, import : 3 }).import",
  "() => { important(); reimport(); $import; import_; imports.a; IMPORT; Import }",
  "() => { x = a / b; y = 'import'; }",
  "() => { x = a / b\n // import(x)\n }",
  "() => { /'/.test(a)\n // import(x)\n }",
  "() => { const importer = { import: 1 }; return importer }",
  "() => 'im\\u0070ort'",
  "() => { while (n --> 0) f('import'); }",
  "() => 'a\\\r\nb import'",
];

Deno.test("importProblem() accepts the word in strings, comments, and as the name of a property", () => {
  for (const source of ACCEPTED) {
    assertEquals([source, importProblem(source)], [source, undefined]);
    assertEquals([source, errorInV8(source)], [source, undefined]);
  }
});

Deno.test("importProblem() refuses sources with too many readings, or none", () => {
  const nested = "`${".repeat(40);
  assertMatch(importProblem(`() => ${nested}'import'`) ?? "", /cannot be read as far as the word/);
  const braces = Array.from({ length: 10 }, (_, count) => `/${"{".repeat(count + 1)}/`).join("\n+");
  assertMatch(importProblem(`() => \`\${${braces} + 'import'}\``) ?? "", /cannot be read as far/);
  assertMatch(importProblem("() => 'a\n' + 'import'") ?? "", /cannot be read as far/);
});

Deno.test("importProblem() takes time in proportion to the text", () => {
  const texts = [
    "/".repeat(500_000),
    "a / b\n".repeat(100_000),
    "`${/{/}`\n".repeat(50_000),
    "\\u{0".repeat(100_000),
    `\\u{${"0".repeat(500_000)}`,
    "1".repeat(500_000) + ".",
    "a.".repeat(200_000),
    "import:".repeat(70_000),
    "'import'".repeat(70_000),
    "<!--".repeat(100_000),
  ];
  for (const text of texts) {
    const began = performance.now();
    importProblem(`() => { ${text} import }`);
    const ms = performance.now() - began;
    assert(ms < 10_000, `${text.slice(0, 20)} took ${ms} ms`);
  }
});
