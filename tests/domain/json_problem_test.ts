import { assertEquals, assertMatch } from "@std/assert";
import { jsonProblem } from "../../src/domain/json_problem.ts";

/** Texts that are not JSON, and what is said of them. */
const MISTAKES: readonly (readonly [text: string, problem: string])[] = [
  ["", "found the end in line 1, column 1, expected a value"],
  ["{a:1}", 'found "a" in line 1, column 2, expected a name in double quotes or }'],
  ["{'a':1}", 'found "\'" in line 1, column 2, expected a name in double quotes or }'],
  ['{"a" 1}', 'found "1" in line 1, column 6, expected a colon'],
  ['{"a":}', 'found "}" in line 1, column 6, expected a value'],
  ['{"a":1,}', 'found "}" in line 1, column 8, expected a name in double quotes'],
  ['{\r\n"a":1\r\n"b":2}', 'found "\\"" in line 3, column 1, expected a comma or }'],
  ["[1,]", 'found "]" in line 1, column 4, expected a value'],
  ["[,]", 'found "," in line 1, column 2, expected a value or ]'],
  ["[1", "found the end in line 1, column 3, expected a comma or ]"],
  ["[1}", 'found "}" in line 1, column 3, expected a comma or ]'],
  ["1 2", 'found "2" in line 1, column 3, expected the end'],
  ["01", 'found "1" in line 1, column 2, expected the end'],
  ["1.", 'found "." in line 1, column 2, expected the end'],
  ["nul", 'found "n" in line 1, column 1, expected a value'],
  ["\ufeff{}", "found U+FEFF in line 1, column 1, expected a value"],
  ['"a', "found the end in line 1, column 3, expected a double quote, which ends the text"],
  [
    '"a\nb"',
    "found U+000A in line 1, column 3, expected control characters as escapes, such as \\n",
  ],
  ['"\\x"', 'found "x" in line 1, column 3, expected an escape such as \\n, \\\\ or \\u0041'],
];

for (const [text, problem] of MISTAKES) {
  Deno.test(`jsonProblem() names the mistake in ${JSON.stringify(text)}`, () => {
    assertEquals(jsonProblem(text), problem);
  });
}

/** Documents whose texts are changed one character at a time. */
const DOCUMENTS = [
  '{"a":[1,-2.5e+3,true,false,null,"x\\n\\u0041"],"b":{},"c":[]}',
  '\n[ {"a" : "b" } , 0.10 , "" ]\t',
];
const CHARS = [
  "",
  " ",
  "\n",
  '"',
  "\\",
  "{",
  "}",
  "[",
  "]",
  ",",
  ":",
  "0",
  "-",
  ".",
  "e",
  "t",
  "u",
];

Deno.test("jsonProblem() refuses what JSON.parse refuses, and nothing else", () => {
  let count = 0;
  for (const document of DOCUMENTS) {
    for (let at = 0; at <= document.length; at++) {
      for (const char of CHARS) {
        for (const removed of [0, 1]) {
          const text = document.slice(0, at) + char + document.slice(at + removed);
          assertEquals(jsonProblem(text) !== undefined, isRefused(text), text);
          count += 1;
        }
      }
    }
  }
  assertEquals(count > 3000, true, `${count}`);
});

function isRefused(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch {
    return true;
  }
}

Deno.test("jsonProblem() reads a million open lists without recursion", () => {
  assertMatch(jsonProblem("[".repeat(1e6)) ?? "", /^found the end in line 1, column 1000001,/);
});
