// The bundler is the pinned one, or nothing is bundled; and what a build says of its runtime.

import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { placeBundler, refuseOtherBundlers } from "../../vendors/bundler.ts";
import {
  BUNDLER,
  BUNDLER_SHA256,
  FALLBACK_RUNTIME,
  FALLBACK_RUNTIME_SOURCES,
} from "../../vendors/pins.ts";
import { binaryProgram, runProgram } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";

const LINUX = "x86_64-unknown-linux-gnu";

Deno.test("a bundler that is not the pinned one is found before it runs", () =>
  withFolder(async (denoDir) => {
    const folder = join(denoDir, "dl", `esbuild-${BUNDLER.version}-1`);
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(join(folder, "esbuild-linux-x64"), "#!/bin/sh\n");
    const error = await assertRejects(() => placeBundler(denoDir, LINUX), Error);
    assertStringIncludes(error.message, `pinned is ${BUNDLER_SHA256}`);
  }));

Deno.test("a platform without a pinned bundler is refused, and nothing is fetched", () =>
  withFolder(async (denoDir) => {
    await assertRejects(() => placeBundler(denoDir, "aarch64-apple-darwin"), Error, "no bundler");
    assertEquals([...Deno.readDirSync(denoDir)], []);
  }));

Deno.test("a bundle for which Deno has taken another bundler is dropped", () =>
  withFolder(async (denoDir) => {
    const folder = join(denoDir, "dl");
    await Deno.mkdir(join(folder, `esbuild-${BUNDLER.version}-1`), { recursive: true });
    refuseOtherBundlers(denoDir);
    await Deno.mkdir(join(folder, "esbuild-0.99.0-1"));
    assertThrows(() => refuseOtherBundlers(denoDir), Error, "esbuild-0.99.0-1");
  }));

Deno.test("vendors/README.md names every package that is pinned, and what it was compared with", async () => {
  const page = await Deno.readTextFile(new URL("../../vendors/README.md", import.meta.url));
  for (const { name, version } of [BUNDLER, ...FALLBACK_RUNTIME_SOURCES]) {
    assertStringIncludes(page, name);
    assertStringIncludes(page, version);
  }
  assertStringIncludes(page, FALLBACK_RUNTIME.compared.on);
  assertStringIncludes(page, FALLBACK_RUNTIME.bytes.toLocaleString("en-US"));
});

const binary = binaryProgram();

Deno.test({
  name: "a binary says where its runtime comes from, and what that was compared with " +
    "[needs dist/zonewright]",
  ignore: binary === undefined && Deno.env.get("ZONEWRIGHT_TEST_REQUIRE") !== "all",
  async fn() {
    if (binary === undefined) throw new Error("Cannot run: dist/zonewright was not built");
    const { stdout } = await runProgram(binary, ["version", "--json"]);
    const { deno, runtime, runtime_sha256, runtime_compared } = JSON.parse(stdout);
    const text = (await runProgram(binary, ["version"])).stdout;
    assertStringIncludes(text, runtime_compared);
    if (runtime !== `fallback ${deno}`) return;
    assertEquals([deno, runtime_sha256], [FALLBACK_RUNTIME.version, FALLBACK_RUNTIME.sha256]);
    assertStringIncludes(runtime_compared, FALLBACK_RUNTIME.compared.with);
    assertStringIncludes(runtime_compared, `not with ${FALLBACK_RUNTIME.compared.notWith}`);
  },
});
