// The whole table of errors against every command: what each suggests exists, and is not the call that
// has just failed.

import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { AgentError, ERROR_CODES, type ErrorCode } from "../../src/domain/error.ts";
import { parseArguments } from "../../src/cli/command/arguments.ts";
import { flagsOf, operandCounts } from "../../src/cli/command/command.ts";
import { hintFor } from "../../src/cli/command/failure.ts";
import { commandOf, COMMANDS, linesIn } from "./hinted_commands.ts";

// The keys of a constant are exactly those of its type.
const CODES = Object.keys(ERROR_CODES) as ErrorCode[];
const UUID = "00000000-0000-4000-8000-00000000000a";

for (const code of CODES) {
  Deno.test(`after ${code}, every command names one that exists and is another`, () => {
    for (const [name, command] of COMMANDS) {
      for (const operands of [[], [UUID]].slice(0, operandCounts(command).max + 1)) {
        const error = new AgentError(code, "Cannot go on: it is a test", { retryAfterSeconds: 3 });
        const args = parseArguments(operands, flagsOf(command));
        const hint = command.hint?.(error, args) ?? hintFor(error, name, operands);
        const lines = linesIn(hint);
        assertNotEquals(lines, [], `${name}: ${hint}`);
        for (const line of lines) {
          commandOf(line);
          assertNotEquals(line, [name, ...operands].join(" "), `suggests itself: ${hint}`);
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

Deno.test("a hint is about what the message names, whatever the command", () => {
  const hints: [ErrorCode, string, string, RegExp][] = [
    ["not_found", 'Cannot find leftover "a": none', "machine leftovers", /machine leftovers /],
    ["no_host", 'Cannot create a job: host "gz09" is not registered', "job run", /host list /],
    ["conflict", 'Cannot create a machine: host "a" was forgotten', "machine create", /host list /],
    [
      "not_found",
      'Cannot find distro "debian": the choices are a',
      "machine create",
      /image list /,
    ],
    [
      "forbidden",
      "Cannot connect to a: the setting download_host does not",
      "media add",
      /config show /,
    ],
    ["forbidden", "Cannot do it: not allowed", "media add", /token list /],
    [
      "overloaded",
      "Cannot reach the database: it is off",
      "job list",
      /doctor --running --run database /,
    ],
    ["overloaded", "Cannot reach the database: it is off", "serve", /doctor --run database /],
    ["overloaded", "Cannot reach the database: it is off", "db migrate", /address in --store; /],
    ["overloaded", "Cannot reach host gz03 (1): it is away", "machine get", /host list /],
    ["overloaded", "Too many", "job list", /^try again in 1 s; zonewright status /],
  ];
  for (const [code, message, name, hint] of hints) {
    assertMatch(hintFor(new AgentError(code, message), name), hint, message);
  }
});
