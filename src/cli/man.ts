// `zonewright man`: the manual page, for `man -l` and for packages.

import { VERSION } from "../program/version.ts";
import type { Noun } from "./kit/command.ts";
import { EXIT } from "./kit/exit_code.ts";
import { manPage } from "./man_page.ts";

/** `zonewright man`. @param nouns all of them, this one included */
export function manNoun(nouns: Readonly<Record<string, () => Promise<Noun>>>): Noun {
  return {
    kind: "command",
    command: {
      summary: "print the manual page",
      operands: "",
      operandsMin: 0,
      operandsMax: 0,
      examples: [["man | man -l -", "read it here"], [
        "man > /usr/local/share/man/man8/zonewright.8",
        "install it",
      ]],
      flags: [],
      shared: "help",
      async run({ terminal }) {
        const all = await Promise.all(
          Object.entries(nouns).map(async ([name, load]) => [name, await load()] as const),
        );
        terminal.out(manPage(all, VERSION));
        return EXIT.ok;
      },
    },
  };
}
