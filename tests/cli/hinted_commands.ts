// The commands that a hint names, held against those that there are.

import { assert } from "@std/assert";
import { NOUNS } from "../../src/cli/cli.ts";
import { type Command, flagsOf } from "../../src/cli/command/command.ts";

/** Every command by its words. */
export const COMMANDS: ReadonlyMap<string, Command> = new Map(
  (await Promise.all(
    Object.entries(NOUNS).map(async ([noun, load]): Promise<[string, Command][]> => {
      const loaded = await load();
      if (loaded.kind === "command") return [[noun, loaded.command]];
      return Object.entries(loaded.verbs).map(([verb, command]) => [`${noun} ${verb}`, command]);
    }),
  )).flat(),
);
/** The command lines that a hint names, without the program's name. */
export function linesIn(hint: string): string[] {
  return Array.from(
    hint.matchAll(/\bzonewright ((?:-*[\w./'-]+)(?: -*[\w./'-]+)*)/g),
    ([, line = ""]) => line,
  );
}

/** Asserts that a command line can be typed. @returns the words of its command */
export function commandOf(line: string): string {
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
