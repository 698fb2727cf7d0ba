import { assertEquals } from "@std/assert";
import {
  DENO_PINNED,
  type RuntimeInfo,
  runtimeLabel,
  VERSION,
} from "../../src/runtime/executable.ts";

Deno.test("the version of the program is the one of deno.json", async () => {
  const text = await Deno.readTextFile(new URL("../../deno.json", import.meta.url));
  assertEquals(JSON.parse(text).version, VERSION);
});

Deno.test("the pinned Deno is the one that the installer puts in place", async () => {
  const text = await Deno.readTextFile(new URL("../../vendors/toolchain.sh", import.meta.url));
  assertEquals(/^version=(\S+)$/m.exec(text)?.[1], DENO_PINNED);
});

Deno.test("a runtime is named by where it comes from, unless that is Deno itself", () => {
  const from = (from: RuntimeInfo["from"]) => ({ from, sha256: null, compared: "" });
  assertEquals(runtimeLabel("2.9.6", undefined), "2.9.6");
  assertEquals(runtimeLabel("2.9.6", from("deno")), "2.9.6");
  assertEquals(runtimeLabel("2.6.10", from("fallback")), "fallback 2.6.10");
  assertEquals(runtimeLabel("2.6.10", from("given")), "given 2.6.10");
});
