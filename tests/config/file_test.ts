// What stands in the file twice, and what only looks so.

import { assertEquals, assertThrows } from "@std/assert";
import { duplicatesOf } from "../../src/config/duplicates.ts";
import { readConfig } from "../../src/config/sources.ts";
import { AgentError } from "../../src/domain/error.ts";

function found(text: string): string[] {
  return duplicatesOf(text).map(({ name, line, first }) => `${name} ${first} ${line}`);
}

Deno.test("duplicatesOf() finds keys of one table and tables that stand twice", () => {
  assertEquals(found("slots = 1\nslots = 2\nslots = 3"), ["slots 1 2", "slots 1 3"]);
  assertEquals(found('slots = 1\n\n"slots" = 2'), ["slots 1 3"]);
  assertEquals(found("[limits]\na = 1\n[policy]\na = 1\n[limits]\nb = 1\na = 2"), [
    "[limits] 1 5",
    "a 2 7",
  ]);
  assertEquals(found("[ limits ]\n['limits'] # again"), ["[limits] 1 2"]);
  assertEquals(found("limits.a = 1\nlimits . a = 2"), ["limits.a 1 2"]);
});

Deno.test("duplicatesOf() is not misled by texts, comments and lists", () => {
  for (
    const text of [
      "a = 1\n# a = 2\nb = 3 # a = 4",
      'a = "x"\nb = "a = 1"\nc = \'a = 2\'',
      'a = """\na = 1\nb = 2\n"""\nb = 3',
      'a = """\n\\"""\na = 1\n"""\nb = 3',
      "a = '''\na = 1\n'''\nb = [\n  \"a = 2\",\n  # a = 3\n]\nc = 4",
      'a = [1,\n2]\nb = "]"\nc = "["\nd = 1',
      "[[x]]\na = 1\n[[x]]\na = 1",
      "not toml\nnot toml",
      "",
    ]
  ) {
    assertEquals(found(text), [], text);
  }
});

Deno.test("readConfig() refuses a file in which a setting or a table stands twice", () => {
  const read = (text: string) => {
    const file = { path: "/z.toml", text };
    const sources = { flags: {}, env: {}, cwd: "/", os: "linux", file };
    return assertThrows(() => readConfig(sources), AgentError).errors.map(({ message }) => message);
  };
  assertEquals(read("slots = 3\nslots = 4"), [
    "/z.toml: slots stands in line 1 and again in line 2",
  ]);
  assertEquals(read("[limits]\ntasks_max = 5\n[limits]\nretry_max = 3"), [
    "/z.toml: [limits] stands in line 1 and again in line 3",
  ]);
});
