// A release of a program that is run from source: everything but the compiling.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { makeRelease, packagesOf } from "../../vendors/release.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";
import { VERSION } from "../../src/runtime/executable.ts";
import { sourceProgram } from "../support/agent_process.ts";

const MADE_AT = new Date("2026-11-20T12:00:00.000Z");
const NODE_PROGRAM = `zonewright-${VERSION}.mjs`;
const PROGRAM = `zonewright-${VERSION}-${Deno.build.target}`;

/** The program from source as one executable file. */
async function executable(folder: string): Promise<string> {
  const { program, args, env } = sourceProgram();
  const words = [program, ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
  const exports = Object.entries(env).map(([name, value]) => `export ${name}='${value}'\n`);
  const path = join(folder, "zonewright");
  await Deno.writeTextFile(path, `#!/bin/sh\n${exports.join("")}exec ${words.join(" ")} "$@"\n`);
  await Deno.chmod(path, 0o755);
  return path;
}

/** A file for Node, as far as a release looks at it. */
async function nodeFileIn(folder: string, text = ""): Promise<string> {
  const path = join(folder, "zonewright.mjs");
  await Deno.writeTextFile(path, `#!/opt/tools/bin/node\n${text}`);
  return path;
}

async function contentOf(folder: string): Promise<Record<string, string>> {
  const content: Record<string, string> = {};
  for await (const { name } of Deno.readDir(folder)) {
    content[name] = await Deno.readTextFile(join(folder, name));
  }
  return content;
}

programTest(
  "sha256sum",
  "a release has program, manual, completions, materials and sums, and is made alike twice",
  async () => {
    await withFolder(async (folder) => {
      const binary = await executable(folder);
      const release = join(folder, "release");
      const nodeFile = await nodeFileIn(folder);
      await makeRelease({ binary, nodeFile, folder: release, madeAt: MADE_AT });
      const content = await contentOf(release);
      assertEquals(
        Object.keys(content).sort(),
        [
          "CHANGELOG.md",
          "LICENSE",
          "SHA256SUMS",
          PROGRAM,
          `zonewright-${VERSION}.cdx.json`,
          NODE_PROGRAM,
          `${NODE_PROGRAM}.cdx.json`,
          "zonewright.8",
          "zonewright.bash",
          "zonewright.fish",
          "zonewright.zsh",
        ].sort(),
      );
      const sums = await new Deno.Command("sha256sum", {
        args: ["--check", "--strict", "--quiet", "SHA256SUMS"],
        cwd: release,
      }).output();
      assertEquals(sums.code, 0);
      assertEquals(content.SHA256SUMS?.split("\n").length, Object.keys(content).length);
      for (const name of Object.keys(content)) {
        const { mtime, mode } = await Deno.stat(join(release, name));
        assertEquals([name, mtime], [name, MADE_AT]);
        const isProgram = name === PROGRAM || name === NODE_PROGRAM;
        assertEquals([name, (mode ?? 0) & 0o777], [name, isProgram ? 0o755 : 0o644]);
      }
      assert(content["zonewright.8"]?.startsWith(".TH ZONEWRIGHT 8 "));
      await makeRelease({ binary, nodeFile, folder: release, madeAt: MADE_AT });
      assertEquals(await contentOf(release), content);
    });
  },
);

Deno.test("a bill of materials lists what the program reaches, with digest and licence", async () => {
  await withFolder(async (folder) => {
    const release = join(folder, "release");
    const binary = await executable(folder);
    const nodeFile = await nodeFileIn(folder);
    await makeRelease({ binary, nodeFile, folder: release, madeAt: MADE_AT });
    const bom = JSON.parse(
      await Deno.readTextFile(join(release, `zonewright-${VERSION}.cdx.json`)),
    );
    assertEquals([bom.bomFormat, bom.specVersion], ["CycloneDX", "1.5"]);
    const uuid = /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/;
    assert(uuid.test(bom.serialNumber), bom.serialNumber);
    assertEquals(bom.metadata.timestamp, MADE_AT.toISOString());
    const refs = bom.components.map((one: { purl: string }) => one.purl);
    assertEquals(bom.dependencies[0].dependsOn, refs);
    assertEquals(new Set(refs).size, refs.length);
    const kinds = [
      "pkg:npm/hono@",
      "pkg:npm/acorn@",
      "pkg:npm/openpgp@",
      "pkg:npm/preact@",
      "pkg:npm/%40preact/signals@",
      "pkg:npm/%40novnc/novnc@",
      "pkg:generic/deno@",
    ];
    for (const kind of kinds) {
      assert(refs.some((ref: string) => ref.startsWith(kind)), `${kind} is missing`);
    }
    for (const { purl, type, licenses, hashes } of bom.components) {
      assert(licenses.length === 1, `${purl} has no licence`);
      if (type === "library") assert(/^[0-9a-f]{128}$/.test(hashes[0].content), purl);
    }
    const onNode = JSON.parse(await Deno.readTextFile(join(release, `${NODE_PROGRAM}.cdx.json`)));
    const nodeRefs: string[] = onNode.components.map((one: { purl: string }) => one.purl);
    // It has what the binary has but the runtime, and a client of WebSockets.
    const own = nodeRefs.filter((ref) => !refs.includes(ref));
    assertEquals(own.map((ref) => ref.replace(/@[^@]*$/, "")), ["pkg:npm/ws"]);
    const missing = refs.filter((ref: string) => !nodeRefs.includes(ref));
    assertEquals(missing.every((ref: string) => ref.startsWith("pkg:generic/")), true, missing);
  });
});

Deno.test("what is only for tests is no part of the program", async () => {
  const names = (await packagesOf("main.ts")).map(({ name }) => name);
  assertEquals(names.filter((name) => ["fast-check", "pure-rand"].includes(name)), []);
});

Deno.test("a release is refused when its programs come from two commits", async () => {
  await withFolder(async (folder) => {
    const binary = join(folder, "zonewright");
    const about = { version: VERSION, target: "t", commit: "c".repeat(40) };
    await Deno.writeTextFile(binary, `#!/bin/sh\necho '${JSON.stringify(about)}'\n`);
    await Deno.chmod(binary, 0o755);
    const nodeFile = await nodeFileIn(folder);
    await assertRejects(
      () => makeRelease({ binary, nodeFile, folder: join(folder, "release"), madeAt: MADE_AT }),
      Error,
      "Cannot release: the file for Node was not built from commit ccc",
    );
    const same = await nodeFileIn(folder, `// zonewright, commit ${about.commit}\n`);
    const made = makeRelease({
      binary,
      nodeFile: same,
      folder: join(folder, "release"),
      madeAt: MADE_AT,
    });
    assertEquals((await made).includes(NODE_PROGRAM), true);
  });
});
