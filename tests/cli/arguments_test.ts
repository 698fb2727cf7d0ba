import { assertEquals, assertThrows } from "@std/assert";
import { type Flag, parseArguments } from "../../src/cli/command/arguments.ts";
import { AgentError } from "../../src/domain/error.ts";

const FLAGS: readonly Flag[] = [
  { name: "json", help: "" },
  { name: "file", short: "f", also: "from-file", placeholder: "FILE", help: "" },
  { name: "param", short: "p", placeholder: "K=V", many: true, help: "" },
];

function refusal(...words: string[]): string {
  const error = assertThrows(() => parseArguments(words, FLAGS), AgentError);
  assertEquals(error.code, "invalid_argument");
  return error.message;
}

Deno.test("parseArguments() reads flags in either form, and operands between them", () => {
  const args = parseArguments(["one", "--file", "a", "two", "-p", "k=v", "--param=x=y"], FLAGS);
  assertEquals(args.operands, ["one", "two"]);
  assertEquals(args.text("file"), "a");
  assertEquals(args.texts("param"), ["k=v", "x=y"]);
  assertEquals([args.has("json"), args.has("file")], [false, true]);
});

Deno.test("parseArguments() accepts other words for a flag", () => {
  assertEquals(parseArguments(["--from-file", "a"], FLAGS).text("file"), "a");
  assertEquals(
    refusal("-f", "a", "--from-file=b"),
    "Cannot read the command: --file is given twice, expected it once",
  );
});

Deno.test("parseArguments() keeps numbers, empty values and a lone dash as texts", () => {
  const args = parseArguments(["007", "--file", "-", "-p", ""], FLAGS);
  assertEquals(args.operands, ["007"]);
  assertEquals(args.text("file"), "-");
  assertEquals(args.texts("param"), [""]);
  assertEquals(parseArguments(["-f=-x"], FLAGS).text("file"), "-x");
});

Deno.test("parseArguments() treats everything after -- as operands", () => {
  assertEquals(parseArguments(["--", "--json", "-p"], FLAGS).operands, ["--json", "-p"]);
});

Deno.test("parseArguments() names the nearest flag for an unknown one", () => {
  assertEquals(
    refusal("--flie", "a"),
    'Cannot read the command: unknown flag "--flie": did you mean "--file"?',
  );
  assertEquals(
    refusal("--entirely-different"),
    `Cannot read the command: unknown flag "--entirely-different", expected ${
      FLAGS.map(({ name }) => `--${name}`).join(", ")
    }`,
  );
});

Deno.test("parseArguments() refuses missing, unexpected and repeated values", () => {
  assertEquals(
    refusal("--file"),
    "Cannot read the command: --file has no value, expected FILE, found none",
  );
  assertEquals(
    refusal("--file", "--json"),
    "Cannot read the command: --file has no value, expected FILE, found the flag --json; " +
      "write --file=--json to give that text",
  );
  assertEquals(
    refusal("--json=1"),
    "Cannot read the command: --json takes no value, expected the flag alone",
  );
  assertEquals(
    refusal("-f", "a", "--file", "b"),
    "Cannot read the command: --file is given twice, expected it once",
  );
});
