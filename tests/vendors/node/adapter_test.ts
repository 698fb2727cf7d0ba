// The adapter for Node answers as Deno does: one program of calls prints the same on both.

import { assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { writeNodeFile } from "../../../vendors/build_node.ts";
import { makeCertificate } from "../../http/tls_files.ts";
import { sources } from "../../house/sources.ts";
import { eachNode } from "../../support/each_node.ts";
import { findProgram } from "../../support/program.ts";
import { withFolder } from "../../support/until.ts";

const ROOT = fromFileUrl(new URL("../../..", import.meta.url));
const CALLS = join(ROOT, "tests/vendors/node/calls.ts");

/** What a program prints: a line for each call. */
async function linesOf(program: string, args: readonly string[]): Promise<string[]> {
  const command = new Deno.Command(program, { args: [...args], cwd: ROOT });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  assertEquals([success, success ? "" : decoder.decode(stderr)], [true, ""]);
  return decoder.decode(stdout).trimEnd().split("\n");
}

/** The program of calls behind the adapter, in one file. */
async function build(folder: string): Promise<string> {
  const [output, work] = [join(folder, "calls.mjs"), join(folder, "work")];
  await writeNodeFile({ main: CALLS, beside: {}, title: "calls", work, output });
  return output;
}

/** Most lines of code that the adapter may have, without blank ones and comments. */
const LINES_MAX = 1500;
const ADAPTER = join(ROOT, "vendors/node");

eachNode("every call of the adapter answers as Deno's", async ({ program }) => {
  await withFolder(async (folder) => {
    await makeCertificate(folder, "own");
    await Deno.mkdir(join(folder, "deno"));
    await Deno.mkdir(join(folder, "node"));
    const own = ["run", "--quiet", "--cached-only", "--unstable-net", "-A", CALLS];
    const expected = await linesOf(Deno.execPath(), [...own, join(folder, "deno")]);
    const found = await linesOf(program, [await build(folder), join(folder, "node")]);
    assertEquals(found, expected);
    assertEquals(expected.length > 70, true, expected.join("\n"));
  });
}, { needs: "openssl", ignore: findProgram("openssl") === undefined });

/** The names in the object that a file of the adapter begins with these words. */
async function namesIn(file: string, words: string): Promise<string[]> {
  const text = await Deno.readTextFile(join(ADAPTER, file));
  const [, object = ""] = text.split(words);
  const [inner = ""] = object.split("\n};");
  return Array.from(inner.matchAll(/^ {2}(?:get )?(\w+)[:,(]/gm), ([, name = ""]) => name);
}

Deno.test("every name that the adapter offers is called here and by the program", async () => {
  const names = [
    ...await namesIn("install.ts", "const deno = {"),
    ...await namesIn("files.ts", "export const files = {"),
  ];
  assertEquals(names.length > 50, true, names.join());
  const calls = await Deno.readTextFile(CALLS);
  const program = [await Deno.readTextFile(join(ROOT, "main.ts"))];
  for (const { text } of await sources("src")) program.push(text);
  for (const text of [calls, program.join("\n")]) {
    assertEquals(names.filter((name) => !new RegExp(`\\bDeno\\.${name}\\b`).test(text)), []);
  }
});

Deno.test("the adapter stays small", async () => {
  const files = Array.from(Deno.readDirSync(ADAPTER), ({ name }) => join(ADAPTER, name));
  const texts = await Promise.all(files.map((file) => Deno.readTextFile(file)));
  const lines = texts.join("\n").split("\n").filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line));
  assertEquals(lines.length <= LINES_MAX, true, `${lines.length} lines`);
});
