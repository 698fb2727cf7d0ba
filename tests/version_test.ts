import { assertEquals, assertMatch } from "@std/assert";
import { DENO_PINNED, runtimeLabel, VERSION } from "../src/version.ts";

Deno.test("the version of the program is the one of deno.json", async () => {
  const text = await Deno.readTextFile(new URL("../deno.json", import.meta.url));
  assertEquals(JSON.parse(text).version, VERSION);
});

Deno.test("the pinned Deno is the one that the installer puts in place", async () => {
  const text = await Deno.readTextFile(new URL("../vendors/toolchain.sh", import.meta.url));
  assertEquals(/^version=(\S+)$/m.exec(text)?.[1], DENO_PINNED);
});

Deno.test("a runtime that is not the pinned one is named a fallback", () => {
  assertEquals(runtimeLabel(DENO_PINNED), DENO_PINNED);
  assertMatch(runtimeLabel("2.6.10"), /^fallback 2\.6\.10$/);
});
