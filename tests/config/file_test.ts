// What the configuration file may not hold: duplicates, control characters, integers that a number
// cannot hold, and whatever else is not TOML. Every refusal names the line and the column.

import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Config } from "../../src/config/settings.ts";
import { readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";

function read(text: string): Config {
  const file = { path: "/z.toml", text };
  return readConfig({ flags: {}, env: {}, cwd: "/", os: "linux", file });
}

/** The messages of a file that is refused. */
function problems(text: string): string[] {
  const error = assertThrows(() => read(text), AgentError);
  assertEquals(error.code, "invalid_argument");
  return error.errors.map(({ message }) => message);
}

const TWICE: readonly [text: string, place: string][] = [
  ["slots = 3\nslots = 4", "2:1"],
  ['slots = 1\n\n"slots" = 2', "3:1"],
  ["[limits]\ntasks_max = 5\n[policy]\nvcpus_max = 5\n[limits]\nretry_max = 3", "5:2"],
  ["[ limits ]\n['limits'] # again", "2:2"],
  ["limits.tasks_max = 1\nlimits . tasks_max = 2", "2:1"],
  ["limits = { tasks_max = 1, tasks_max = 2 }", "1:27"],
  ["limits = { tasks_max = 1 }\n[limits]\nretry_max = 2", "2:2"],
];

Deno.test("readConfig() refuses a key or a table that the file defines twice", () => {
  for (const [text, place] of TWICE) {
    const [message = "", ...others] = problems(text);
    assertEquals(others, []);
    assert(message.startsWith(`/z.toml:${place}: this is set above already`), message);
  }
});

Deno.test("readConfig() refuses control characters in texts and comments", () => {
  const kinds = ['vmadm = "/a\u0001"', "vmadm = '/a\u007f'", 'vmadm = """/\u0002"""'];
  for (const [at, text] of kinds.entries()) {
    const column = [12, 12, 13][at];
    assertEquals(problems(text), [
      `/z.toml:1:${column}: control characters are not allowed in strings`,
    ]);
  }
  assertEquals(problems("slots = 1 # \u0000"), [
    "/z.toml:1:13: control characters are not allowed in comments",
  ]);
});

Deno.test("readConfig() refuses an integer that a number cannot hold", () => {
  for (const integer of ["9007199254740993", "-9007199254740993", "0x7fffffffffffffff"]) {
    assertEquals(problems(`[limits]\ntasks_max = ${integer}`), [
      "/z.toml:2:13: integer value cannot be represented losslessly",
    ]);
  }
});

Deno.test("readConfig() names line and column where the file is not TOML", () => {
  assertEquals(problems("slots = \n"), [
    "/z.toml:1:9: a setting needs a value, expected slots = VALUE",
  ]);
  assertEquals(problems("slots = 1\rvmadm = '/a'").length, 1);
  const [deep = ""] = problems(`media_dir = ${"[".repeat(5000)}`);
  assert(deep.startsWith("/z.toml:1:"), deep);
});

Deno.test("readConfig() takes dotted keys and inline tables for the same settings", () => {
  for (
    const text of [
      "[limits]\ntasks_max = 7",
      "limits.tasks_max = 7",
      "limits = { tasks_max = 7 }",
      '["limits"]\r\n"tasks_max" = 0x7 # tasks_max = 8\r\n',
    ]
  ) assertEquals(read(text).limits.tasks_max.value, 7);
});

Deno.test("readConfig() refuses other kinds of values for a table or a setting", () => {
  for (const value of ["3", "[]", "2026-01-01", '"tasks_max"', "[[]]"]) {
    assertEquals(problems(`limits = ${value}`), [
      "/z.toml: limits is not a table, expected [limits]",
    ]);
  }
  assertEquals(problems("[[limits]]\ntasks_max = 1"), [
    "/z.toml: limits is not a table, expected [limits]",
  ]);
  for (const value of ["2026-01-01", "{ a = 1 }", "[4]", "nan", "inf", "4.5", "true"]) {
    for (const key of ["slots", "cache_max", "index_interval"]) {
      const [message = "", ...others] = problems(`${key} = ${value}`);
      assertEquals(others, []);
      assert(message.startsWith(`/z.toml: ${key}: `), message);
    }
  }
});

Deno.test("readConfig() does not take names such as constructor for settings", () => {
  for (const text of ["constructor = 1", "__proto__ = 1", "[limits]\nconstructor = 1"]) {
    assertEquals(problems(text).length, 1, text);
  }
});

/** Lines that somebody types who knows another format, with what is said of them. */
const OTHER_FORMATS: readonly (readonly [line: string, said: string])[] = [
  ["[limits", "a table needs a bracket at its end, expected [limits]"],
  ["slots: 2", "a setting is KEY = VALUE, expected slots = 2"],
  ['listen: "off",', 'a setting is KEY = VALUE, expected listen = "off"'],
  ['{"slots": 2}', "this is not TOML, expected lines such as slots = 2"],
  ['state_dir = "/x', 'a text needs a quote at its end, expected state_dir = "/x"'],
  ['media_dir = ["/a", /b]', 'needs quotes, expected media_dir = ["/a", "/b"]'],
  ["slots = 3;", "a line ends without ;: found slots = 3;, expected slots = 3"],
  ["slots", "a setting needs a value, expected slots = VALUE"],
  ["require_token = True", "expected require_token = true"],
  ["require_token = yes", "expected require_token = true"],
  ["cache_max = 64 GiB", 'expected cache_max = "64 GiB"'],
  ['host = "local" x', "followed by an end-of-line, expected a line such as slots = 2"],
  ['cache_max = "1 kiB"', "or off: did you mean 1KiB?"],
  ['cache_max = "10GB"', "or off: did you mean 10GiB?"],
];

Deno.test("a line of another format is shown in TOML's syntax", () => {
  for (const [line, said] of OTHER_FORMATS) {
    const [problem = "", ...others] = problems(`${line}\n`);
    assertEquals(others, [], line);
    assertStringIncludes(problem, said);
  }
});
