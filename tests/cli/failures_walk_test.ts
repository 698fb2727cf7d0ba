// Every command of the table in three ways that must fail: with a flag that it has not, with too few or too
// many operands, and with an agent that is not there. Each says so in the one form of a failure.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { type Command, EXIT, flagsOf, operandCounts } from "../../src/cli/command/command.ts";
import { withFolder } from "../support/until.ts";
import { commandOf, COMMANDS, linesIn } from "./hinted_commands.ts";
import { openScreen } from "./screen.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";

/** Operands that no command takes. */
const OPERANDS_SANE_MAX = 100;
const HELP_COLUMNS = 80;

/** Runs a line that must fail, as a person and as a program, and compares what they are told. */
async function assertFails(words: readonly string[], cwd: string, exits: readonly number[]) {
  const line = words.join(" ");
  const shown = openScreen({ cwd });
  const code = await shown.run(...words);
  assert(exits.includes(code), `${line} exits ${code}: ${shown.err()}`);
  assertEquals(shown.out(), "", line);
  const [error = "", ...others] = shown.err().trimEnd().split("\n");
  assertMatch(error, /^zonewright: Cannot /, line);
  const hints = others.filter((one) => one.startsWith("hint: ")).flatMap(linesIn);
  assert(hints.length > 0, `${line}: ${shown.err()}`);
  for (const hint of hints) {
    commandOf(hint);
    assert(hint !== line, `suggests itself: ${line}`);
  }
  const read = openScreen({ cwd });
  assertEquals(await read.run("--json", ...words), code, line);
  assertEquals(read.out(), "", line);
  assertEquals(read.err().trimEnd().split("\n").length, 1, read.err());
  const { code: word, message, hint, exit_code, ...more } = JSON.parse(read.err());
  // What prints no documents says so of the flag.
  const refused = message.startsWith("Cannot read the command: --json shows data");
  const told = refused && !takesJson(words) ? error : `zonewright: ${message}`;
  assertEquals([told, exit_code], [error, code], line);
  assert(typeof word === "string" && typeof hint === "string", line);
  assertEquals(Object.keys(more).filter((key) => key !== "errors" && key !== "about"), [], line);
}

function takesJson(words: readonly string[]): boolean {
  const command = COMMANDS.get(words.slice(0, 2).join(" ")) ?? COMMANDS.get(words[0] ?? "");
  return command !== undefined && flagsOf(command).some(({ name }) => name === "json");
}

/** Operands that a shell would pass for those of the usage. */
function operandsOf(command: Command): string[] {
  const length = operandCounts(command).min;
  return Array.from({ length }, () => "00000000-0000-4000-8000-00000000000a");
}

Deno.test("every command refuses an unknown flag", () =>
  withFolder(async (folder) => {
    for (const [name, command] of COMMANDS) {
      const words = [...name.split(" "), ...operandsOf(command), "--no-such-flag"];
      await assertFails(words, folder, [EXIT.usage]);
    }
  }));

Deno.test("every command refuses too few and too many operands", () =>
  withFolder(async (folder) => {
    for (const [name, command] of COMMANDS) {
      const { min, max } = operandCounts(command);
      const typed = (count: number) => [...name.split(" "), ...Array(count).fill("a")];
      if (min > 0) await assertFails(typed(min - 1), folder, [EXIT.usage]);
      if (max < OPERANDS_SANE_MAX) {
        await assertFails(typed(max + 1), folder, [EXIT.usage]);
      }
    }
  }));

/** Commands that print what they know by themselves. */
const NEEDS_NO_AGENT: readonly string[] = ["ui"];

Deno.test("every command that needs an agent says that it is missing, or which argument is", () =>
  withFolder(async (folder) => {
    const url = CLOSED_ADDRESS;
    let unreached = 0;
    for (const [name, command] of COMMANDS) {
      const running = flagsOf(command).some((flag) => flag.name === "running");
      if (command.shared !== "agent" && !running) continue;
      if (NEEDS_NO_AGENT.includes(name)) continue;
      const words = [...name.split(" "), ...operandsOf(command), "--url", url];
      // What is typed may lack a file or a filter; a command that lacks nothing asks the agent.
      await assertFails(words, folder, [EXIT.unreachable, EXIT.usage, EXIT.not_found]);
      const screen = openScreen({ cwd: folder });
      if (await screen.run(...words) === EXIT.unreachable) unreached += 1;
    }
    assert(unreached >= 25, `${unreached} commands asked the agent`);
  }));

Deno.test("help of every command fits 80 columns, but for command lines that are typed", async () => {
  const wide: string[] = [];
  for (const name of ["", ...COMMANDS.keys()]) {
    const screen = openScreen();
    assertEquals(await screen.run(...name.split(" ").filter((word) => word !== ""), "--help"), 0);
    for (const line of screen.out().split("\n")) {
      const typed = /^(?: {2}|Usage: )zonewright /.test(line);
      if (line.length > HELP_COLUMNS && !typed) wide.push(`${name}: ${line}`);
    }
  }
  assertEquals(wide, []);
});
