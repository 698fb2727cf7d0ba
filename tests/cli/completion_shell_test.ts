// Completion of names of files in the shells themselves, each in a terminal: every flag that takes a
// file, both its spellings, and names that want quotes.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { type Shell, typed } from "./typed_shell.ts";

/** What is typed, and the words that the program is then started with. */
const LINES: readonly [typed: string, words: readonly string[]][] = [
  ["zonewright db check mach\t", ["db", "check", "machine.json"]],
  ["zonewright machine create -f mach\t", ["machine", "create", "-f", "machine.json"]],
  ["zonewright machine create --file mach\t", ["machine", "create", "--file", "machine.json"]],
  ["zonewright machine create --file=mach\t", ["machine", "create", "--file=machine.json"]],
  ["zonewright serve --config=mach\t", ["serve", "--config=machine.json"]],
  ["zonewright serve --tls-key=mach\t", ["serve", "--tls-key=machine.json"]],
  ["zonewright job list --token-file=mach\t", ["job", "list", "--token-file=machine.json"]],
  // These names need quotes.
  ["zonewright db check two\t", ["db", "check", "two words's $HOME.db"]],
  ["zonewright db check --config=two\t", ["db", "check", "--config=two words's $HOME.db"]],
  ["zonewright db check two\\ w\t", ["db", "check", "two words's $HOME.db"]],
  ['zonewright db check "two w\t', ["db", "check", "two words's $HOME.db"]],
  ["zonewright db check ./mach\t", ["db", "check", "./machine.json"]],
  // Only folders, where a folder belongs.
  ["zonewright serve --state-dir sta\t", ["serve", "--state-dir", "state/"]],
  ["zonewright serve --state-dir=sta\t", ["serve", "--state-dir=state/"]],
  ["zonewright serve --index=sta\t", ["serve", "--index=state/"]],
  // And words that are no files.
  ["zonewright install sys\t", ["install", "systemd"]],
  ["zonewright job list --execution=que\t", ["job", "list", "--execution=queued"]],
];

for (const shell of ["bash", "zsh", "fish"] satisfies Shell[]) {
  programTest(
    shell,
    `${shell} completes and quotes names of files and folders`,
    () =>
      withFolder(async (folder) => {
        await Deno.writeTextFile(join(folder, "machine.json"), "{}");
        await Deno.writeTextFile(join(folder, "two words's $HOME.db"), "");
        await Deno.writeTextFile(join(folder, "start.txt"), "");
        await Deno.mkdir(join(folder, "state"));
        const all = await typed(shell, folder, LINES.map(([line]) => line));
        // Zsh takes the slash behind a folder away again when the line ends.
        const words = all.map((one) => one.map((word) => word.replace(/state$/, "state/")));
        assertEquals(
          LINES.map(([line], at) => [line, words[at]]),
          LINES.map(([line, wanted]) => [line, [...wanted]]),
        );
      }),
  );
}
