import { assertEquals, assertThrows } from "@std/assert";
import { findProgram, programTest, requireProgram } from "./program.ts";
import { withFolder } from "./until.ts";

programTest("sh", "programTest() runs a test whose program is on PATH", () => Promise.resolve());

Deno.test("findProgram() finds what can be executed, neither folders nor regular files", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/plain`, "", { mode: 0o644 });
    await Deno.writeTextFile(`${folder}/runnable`, "", { mode: 0o755 });
    await Deno.mkdir(`${folder}/inner`);
    const environment = { PATH: `/nowhere::${folder}/plain:${folder}` };
    assertEquals(findProgram("plain", environment), undefined);
    assertEquals(findProgram("inner", environment), undefined);
    assertEquals(findProgram("runnable", environment), `${folder}/runnable`);
    assertEquals(findProgram("runnable", {}), undefined);
  });
});

Deno.test("requireProgram() throws for a missing program only when nothing may be skipped", () => {
  assertEquals(requireProgram("missing", { PATH: "/nowhere" }), undefined);
  assertThrows(
    () => requireProgram("missing", { PATH: "/nowhere", ZONEWRIGHT_TEST_REQUIRE: "all" }),
    Error,
    "Cannot run tests that need missing",
  );
});
