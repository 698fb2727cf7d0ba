// The file for Node as a whole: who may run it, what it weighs, that the same sources make the same bytes, and
// that what it holds can be unpacked.

import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { createCleartextMessage, generateKey, readPrivateKey, sign } from "openpgp";
import { openDecoders } from "../../../src/decoder/pool.ts";
import { silentLog } from "../../../src/metrics/log.ts";
import { checkClearsigned } from "../../../src/mirror/media/openpgp_check.ts";
import { nodeProgram, type Program, runProgram } from "../../support/agent_process.ts";
import { eachNode, eachOldNode } from "../../support/each_node.ts";
import { withFolder } from "../../support/until.ts";

const ROOT = fromFileUrl(new URL("../../..", import.meta.url));
const FILE = join(ROOT, "dist/zonewright.mjs");
/** Most that the file may weigh, bytes. */
const FILE_BYTES_MAX = 2_000_000;
/** What a build reads of the checkout. */
const SOURCES = ["deno.json", "deno.lock", "main.ts", "src", "vendors"] as const;
const DATE = new Date("2026-06-01T00:00:00Z");

function program(node: string): Program {
  const found = nodeProgram(node);
  if (found === undefined) throw new Error("Cannot run: dist/zonewright.mjs was not built");
  return found;
}

async function copy(from: string, to: string): Promise<void> {
  if (!(await Deno.stat(from)).isDirectory) return await Deno.copyFile(from, to);
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) await copy(join(from, name), join(to, name));
}

/** Builds the file in a folder of its own. */
async function buildIn(folder: string): Promise<Uint8Array> {
  await Deno.mkdir(folder);
  for (const name of SOURCES) await copy(join(ROOT, name), join(folder, name));
  const denoDir = Deno.env.get("DENO_DIR") ?? join(ROOT, ".toolchain/cache");
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--cached-only", "-A", join(folder, "vendors/build_node.ts")],
    cwd: folder,
    env: { DENO_DIR: denoDir, NO_COLOR: "1" },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return await Deno.readFile(join(folder, "dist/zonewright.mjs"));
}

const ALL = "node:sqlite, --permission, --disable-sigusr1";
/** What each Node that is too old lacks. */
const LACKS: Readonly<Record<string, string>> = {
  "14.0.0": ALL,
  "20.20.2": ALL,
  "22.19.0": "numbered parameters of node:sqlite",
};

eachOldNode(
  "a Node that is too old is refused with what it lacks and what to install, under any name",
  async (node) => {
    await withFolder(async (folder) => {
      // A Node takes what has no suffix for CommonJS, an old one whatever it holds.
      const plain = join(folder, "zonewright");
      await Deno.copyFile(FILE, plain);
      for (const file of [FILE, plain]) {
        const old = { name: "node", program: node.program, args: [file], env: {} } as const;
        const { code, stdout, stderr } = await runProgram(old, ["version"]);
        assertEquals([code, stdout], [1, ""]);
        assertEquals(
          stderr,
          `zonewright: Cannot run on Node ${node.version} (${node.program}): it lacks ` +
            `${LACKS[node.version]}, expected Node 22.20 or 24.8, or later: ` +
            "install nodejs22 of pkgsrc (pkgin install nodejs22), and run this file with it\n",
        );
      }
    });
  },
);

eachNode("a Node that was built without SQLite is refused", async (node) => {
  const args = ["--no-experimental-sqlite", FILE];
  const without: Program = { name: "node", program: node.program, args, env: {} };
  const { code, stderr } = await runProgram(without, ["version"]);
  assertEquals(code, 1);
  assertMatch(stderr, /^zonewright: Cannot run on Node [^:]+: it lacks node:sqlite, expected/);
});

eachNode("the file runs under any name", async (node) => {
  await withFolder(async (folder) => {
    const renamed = join(folder, "zonewright");
    await Deno.copyFile(FILE, renamed);
    const ran = await runProgram({ ...program(node.program), args: [renamed] }, ["version"]);
    assertMatch(ran.stdout, new RegExp(`^node +${node.version}$`, "m"), ran.stderr);
  });
});

eachNode(
  "an installation for SMF holds the file, and its manifest starts it by this Node",
  async (node) => {
    await withFolder(async (root) => {
      const installed = await runProgram(program(node.program), ["install", "smf", "--root", root]);
      assertEquals(installed.code, 0, installed.stderr);
      const copied = await Deno.readFile(join(root, "opt/custom/bin/zonewright"));
      assertEquals(copied, await Deno.readFile(FILE));
      const manifest = await Deno.readTextFile(join(root, "opt/custom/smf/zonewright.xml"));
      const [, start = ""] = /name="start" exec="([^"]*)"/.exec(manifest) ?? [];
      const here = start.replaceAll("/opt/custom", join(root, "opt/custom"));
      const line = here.replace(/ serve .*$/, " version");
      const ran = await runProgram({ name: "node", program: "/bin/sh", args: ["-c"], env: {} }, [
        line,
      ]);
      assertMatch(ran.stdout, new RegExp(`^node +${node.version}$`, "m"), ran.stderr);
      const refused = await runProgram(program(node.program), [
        "install",
        "systemd",
        "--root",
        root,
      ]);
      assertEquals(refused.code, 6);
      assertMatch(
        refused.stderr,
        /Cannot install for systemd what runs on Node, expected the binary/,
      );
    });
  },
);

eachNode(
  "a decoder checks a signature with the library that the file holds",
  async (node) => {
    const { privateKey, publicKey } = await generateKey({
      type: "curve25519",
      userIDs: [{ name: "Aurora" }],
      date: new Date("2026-01-01T00:00:00Z"),
    });
    const signingKeys = await readPrivateKey({ armoredKey: privateKey });
    const message = await createCleartextMessage({ text: "list" });
    const document = new TextEncoder().encode(await sign({ message, signingKeys, date: DATE }));
    const { name: _name, ...self } = program(node.program);
    const decoders = openDecoders({ self: { ...self, compiled: true }, log: silentLog });
    try {
      const keys = [{ path: "/aurora.asc", bytes: new TextEncoder().encode(publicKey) }];
      const check = { decoders, keys, now: DATE, options: { what: "check the signature" } };
      const checked = await checkClearsigned(document, check);
      assertEquals(checked.kind, "good");
    } finally {
      await decoders.close();
    }
  },
);

Deno.test("builds of the file for Node in two folders are the same bytes, under 2 MB", async () => {
  await withFolder(async (folder) => {
    const one = await buildIn(join(folder, "one"));
    const other = await buildIn(join(folder, "a longer name"));
    assertEquals(one.length, other.length);
    assert(one.every((byte, at) => byte === other[at]), "the bytes differ");
    assert(one.length < FILE_BYTES_MAX, `${one.length} bytes`);
  });
});
