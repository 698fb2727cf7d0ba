// The pictures of the documentation: that they can be taken of this console, and that the documentation shows them all.

import { assertEquals } from "@std/assert";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { writeDocumentation } from "./write_pictures.ts";

const SHOWN_IN = ["README.md", "docs/console.md"] as const;

programTest("chromium", "each picture of the documentation is taken, and shown in it", async () => {
  const texts = await Promise.all(
    SHOWN_IN.map((name) => Deno.readTextFile(new URL(`../../${name}`, import.meta.url))),
  );
  const shown = texts.join().matchAll(/\]\((?:docs\/)?(console-\w+\.png)\)/g);
  await withFolder(async (folder) => {
    const taken = await writeDocumentation(folder);
    assertEquals(taken.toSorted(), Array.from(shown, ([, name]) => name).sort());
    const written = await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
    assertEquals(written.sort(), taken.toSorted());
  });
});
