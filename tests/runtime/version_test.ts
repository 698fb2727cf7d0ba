import { assertEquals } from "@std/assert";
import { type RuntimeInfo, runtimeLabel, VERSION } from "../../src/runtime/executable.ts";

Deno.test("the version of the program is the one of deno.json", async () => {
  const text = await Deno.readTextFile(new URL("../../deno.json", import.meta.url));
  assertEquals(JSON.parse(text).version, VERSION);
});

Deno.test("README.md asks for the Deno that the installer puts in place", async () => {
  const text = async (path: string) =>
    await Deno.readTextFile(new URL(`../../${path}`, import.meta.url));
  const [, version] = /^version=(\S+)$/m.exec(await text("vendors/toolchain.sh")) ?? [];
  assertEquals(/\bDeno (\d\S+)/.exec(await text("README.md"))?.[1], version);
});

Deno.test("a runtime is named by where it comes from, unless that is Deno itself", () => {
  const from = (from: RuntimeInfo["from"]) => ({ from, sha256: null, compared: "" });
  assertEquals(runtimeLabel("2.9.6", undefined), "2.9.6");
  assertEquals(runtimeLabel("2.9.6", from("deno")), "2.9.6");
  assertEquals(runtimeLabel("2.6.10", from("fallback")), "fallback 2.6.10");
  assertEquals(runtimeLabel("2.6.10", from("given")), "given 2.6.10");
});
