// docs/reference.md and docs/cli.md against the program.

import { assertEquals } from "@std/assert";
import { EXIT } from "../../src/cli/command/command.ts";
import { commandsPage, policyPage, referencePage } from "./write_reference.ts";

Deno.test({
  name: "docs/reference.md and docs/policy.md have the flags of this version [needs Linux]",
  // Folders of the defaults are those of the system.
  ignore: Deno.build.os !== "linux",
  async fn() {
    for (const { found, required } of [await referencePage(), await policyPage()]) {
      assertEquals(found, required, "run tests/cli/write_reference.ts");
    }
  },
});

Deno.test("docs/cli.md has the commands of this version, with every exit code", async () => {
  const { found, required } = await commandsPage();
  assertEquals(found, required, "run tests/cli/write_reference.ts");
  const codes = Array.from(found.matchAll(/^\| (\d+) \|/gm), ([, code]) => Number(code));
  assertEquals(codes, Object.values(EXIT).toSorted((a, b) => a - b));
});
