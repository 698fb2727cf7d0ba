// Makes dist/zonewright.mjs: the program in one file for Node, of which SmartOS has packages. The check of
// the Node comes first, then the adapter in vendors/node/, then what the build puts beside the program, then
// main.ts. The same sources give the same bytes.

import { fromFileUrl, join } from "@std/path";
import { brotliCompressSync } from "node:zlib";
import * as openpgp from "openpgp";
import type { BuildInfo } from "../src/runtime/version.ts";
import { bundlerPath, placeBundler, refuseOtherBundlers } from "./bundler.ts";
import { gitState } from "./git_state.ts";
import { NODES } from "./pins.ts";
import { packUi } from "./ui.ts";

/** Where Node lies on SmartOS; the file can be run without naming it. */
const INTERPRETER = "#!/opt/tools/bin/node\n";
/** The oldest Node that the file is made for. */
const TARGET = "node22";
/** A quarter of the program, which few agents ever need, is kept compressed: packages, and the names in them. */
const PACKED = { openpgp: Object.keys(openpgp), pg: ["default"], re2js: ["RE2JS"] } as const;
/** Options of the bundler, besides what it is to bundle. A line that fails is printed, so none is long. */
const SMALL = [
  `--target=${TARGET}`,
  "--format=esm",
  "--platform=node",
  "--charset=utf8",
  "--legal-comments=none",
  "--line-limit=400",
] as const;

const root = fromFileUrl(new URL("..", import.meta.url));
const work = join(root, "dist/node");
const output = join(root, "dist/zonewright.mjs");
const denoDir = Deno.env.get("DENO_DIR") ?? join(root, ".toolchain/cache");

async function run(program: string, args: string[]): Promise<void> {
  const command = new Deno.Command(program, {
    args,
    cwd: root,
    env: { DENO_DIR: denoDir, NO_COLOR: "1" },
    stdout: "null",
  });
  const { success, stderr } = await command.output();
  if (success) return;
  throw new Error(`Cannot make ${output}: ${new TextDecoder().decode(stderr).trim()}`);
}

/** The entry: modules are run in the order of its lines. */
async function writeEntry(): Promise<string> {
  const ui = join(work, "ui.json");
  await packUi(ui);
  const info: BuildInfo = await gitState(root);
  const files = { "build.json": JSON.stringify(info), "ui.json": await Deno.readTextFile(ui) };
  const lines = Object.entries(files).map(([name, text]) =>
    `filesBeside.set(${JSON.stringify(name)}, ${JSON.stringify(text)});`
  );
  await Deno.writeTextFile(
    join(work, "files.ts"),
    ['import { filesBeside } from "../../vendors/node/embedded.ts";', ...lines, ""].join("\n"),
  );
  const entry = join(work, "entry.ts");
  const modules = ["../../vendors/node/install.ts", "./files.ts", "../../main.ts"];
  await Deno.writeTextFile(entry, modules.map((name) => `import "${name}";\n`).join(""));
  return entry;
}

/** The last entry: modules are run in the order of its lines. */
async function writeLast(bundle: string): Promise<string> {
  const entry = join(work, "last.mjs");
  const modules = [join(root, "vendors/node/check.ts"), bundle];
  await Deno.writeTextFile(entry, modules.map((path) => `import "${path}";\n`).join(""));
  return entry;
}

/** A package as a module of its own that stays compressed until it is asked for. */
async function pack(name: string, names: readonly string[]): Promise<string> {
  const at = (kind: string) => join(work, `${name}${kind}`);
  const list = names.join(", ");
  await Deno.writeTextFile(at("_entry.ts"), `export { ${list} } from "${name}";\n`);
  await run(Deno.execPath(), [
    ...["bundle", "--quiet", "--output", at("_bundle.mjs"), at("_entry.ts")],
  ]);
  // A module without a file cannot say where it lies; it asks only to load modules of Node.
  const place = '--define:import.meta.url="file:///"';
  const output = `--outfile=${at("_small.mjs")}`;
  await run(bundlerPath(denoDir), [at("_bundle.mjs"), "--minify", place, ...SMALL, output]);
  const text = brotliCompressSync(await Deno.readFile(at("_small.mjs"))).toString("base64");
  const lines = [
    'import { unpackModule } from "../../vendors/node/packed.ts";',
    `const unpacked = await unpackModule("${text}");`,
    ...names.map((one) =>
      one === "default"
        ? "export default unpacked.default;"
        : `export const ${one} = unpacked.${one};`
    ),
  ];
  await Deno.writeTextFile(at(".ts"), lines.join("\n"));
  return at(".ts");
}

await Deno.mkdir(work, { recursive: true });
await placeBundler(denoDir);
const bundle = join(work, "bundle.mjs");
const external = Object.keys(PACKED).flatMap((name) => ["--external", name]);
const bundling = ["bundle", "--quiet", ...external, "--output"];
await run(Deno.execPath(), [...bundling, bundle, await writeEntry()]);
refuseOtherBundlers(denoDir);
// A second time by the same bundler: only there the oldest runtime and other modules can be named.
const small = join(work, "small.mjs");
const aliases: string[] = [];
for (const [name, names] of Object.entries(PACKED)) {
  aliases.push(`--alias:${name}=${await pack(name, names)}`);
}
await run(bundlerPath(denoDir), [
  await writeLast(bundle),
  "--bundle",
  "--minify",
  `--alias:node:sqlite=${join(root, "vendors/node/sqlite.ts")}`,
  ...aliases,
  ...SMALL,
  `--outfile=${small}`,
]);
await Deno.writeTextFile(output, INTERPRETER + await Deno.readTextFile(small));
await Deno.chmod(output, 0o755);
const { size } = await Deno.stat(output);
console.error(
  `build: dist/zonewright.mjs, ${(size / 1_000_000).toFixed(2)} MB, for Node ${
    NODES[0]?.version
  } and later`,
);
