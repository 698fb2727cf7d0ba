// The whole table of errors against every command: what each suggests exists, and is not the call that
// has just failed.

import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { AgentError, ERROR_CODES, type ErrorCode } from "../../src/domain/error.ts";
import { NOUNS } from "../../src/cli/cli.ts";
import { parseArguments } from "../../src/cli/command/arguments.ts";
import { type Command, flagsOf } from "../../src/cli/command/command.ts";
import { hintFor } from "../../src/cli/command/failure.ts";

/** Every command by its words. */
const COMMANDS = new Map(
  (await Promise.all(
    Object.entries(NOUNS).map(async ([noun, load]): Promise<[string, Command][]> => {
      const loaded = await load();
      if (loaded.kind === "command") return [[noun, loaded.command]];
      return Object.entries(loaded.verbs).map(([verb, command]) => [`${noun} ${verb}`, command]);
    }),
  )).flat(),
);
// The keys of a constant are exactly those of its type.
const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const UUID = "00000000-0000-4000-8000-00000000000a";

/** The command lines that a hint names, without the program's name. */
function linesIn(hint: string): string[] {
  return Array.from(
    hint.matchAll(/\bzonewright ((?:-*[\w./'-]+)(?: -*[\w./'-]+)*)/g),
    ([, line = ""]) => line,
  );
}

/** Asserts that a command line can be typed. @returns the words of its command */
function commandOf(line: string): string {
  const words = line.split(" ");
  if (words[0] === "--help") return "";
  const name = [2, 1].map((count) => words.slice(0, count).join(" "))
    .find((one) => COMMANDS.has(one) || (Object.hasOwn(NOUNS, one) && words[1] === "--help"));
  assert(name !== undefined, `no such command: ${line}`);
  const command = COMMANDS.get(name);
  const rest = words.slice(name.split(" ").length);
  // What follows the flags is prose.
  const flags = rest.filter((word) => word.startsWith("--"));
  const known = command === undefined ? ["--help"] : flagsOf(command).map((one) => `--${one.name}`);
  for (const flag of flags) assert(known.includes(flag), `${line}: no flag ${flag}`);
  return name;
}

for (const code of CODES) {
  Deno.test(`after ${code}, every command names one that exists and is another`, () => {
    for (const [name, command] of COMMANDS) {
      for (const operands of [[], [UUID]].slice(0, command.operandsMax + 1)) {
        const error = new AgentError(code, "Cannot go on: it is a test", { retryAfterSeconds: 3 });
        const args = parseArguments(operands, flagsOf(command));
        const hint = command.hint?.(error, args) ?? hintFor(error, name, operands);
        const lines = linesIn(hint);
        assertNotEquals(lines, [], `${name}: ${hint}`);
        for (const line of lines) {
          const named = commandOf(line);
          const isNew = /--/.test(line) || named !== name;
          assert(isNew, `${name} ${operands.join(" ")} suggests itself: ${hint}`);
        }
      }
    }
  });
}

Deno.test("a hint about things names those of its own noun", () => {
  const missing = new AgentError("not_found", "Cannot find it: there is none");
  for (const noun of ["job", "machine", "media", "token", "workflow"]) {
    for (const [name] of COMMANDS) {
      if (!name.startsWith(`${noun} `) || name === `${noun} list`) continue;
      assertMatch(hintFor(missing, name, [UUID]), new RegExp(`^zonewright ${noun} `), name);
    }
  }
  const busy = new AgentError("conflict", "Cannot stop it: it is busy");
  assertEquals(
    hintFor(busy, "machine stop", [UUID]),
    `zonewright machine get ${UUID}  shows its state`,
  );
  assertEquals(hintFor(busy, "job wait", ["a b"]), "zonewright job get 'a b'  shows its state");
});
