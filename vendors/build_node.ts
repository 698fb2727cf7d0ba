// Makes dist/zonewright.mjs: the program in one file for Node, of which SmartOS has packages. The adapter
// in vendors/node/ comes first, then what the build puts beside the program, then main.ts.

import { fromFileUrl, join } from "@std/path";
import type { BuildInfo } from "../src/runtime/version.ts";
import { bundlerPath, placeBundler, refuseOtherBundlers } from "./bundler.ts";
import { gitState } from "./git_state.ts";
import { packUi } from "./ui.ts";

/** Where Node lies on SmartOS; the file can be run without naming it. */
const INTERPRETER = "#!/opt/tools/bin/node\n";
/** The oldest Node that the file is made for. */
const TARGET = "node22";

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

await Deno.mkdir(work, { recursive: true });
await placeBundler(denoDir);
const bundle = join(work, "bundle.mjs");
await run(Deno.execPath(), ["bundle", "--quiet", "--output", bundle, await writeEntry()]);
refuseOtherBundlers(denoDir);
// A second time by the same bundler: only there the oldest runtime can be named.
const small = join(work, "small.mjs");
await run(bundlerPath(denoDir), [
  bundle,
  "--minify",
  `--target=${TARGET}`,
  "--format=esm",
  "--platform=node",
  "--legal-comments=none",
  `--outfile=${small}`,
]);
await Deno.writeTextFile(output, INTERPRETER + await Deno.readTextFile(small));
await Deno.chmod(output, 0o755);
const { size } = await Deno.stat(output);
console.error(
  `build: dist/zonewright.mjs, ${(size / 1_000_000).toFixed(2)} MB, for Node 22 and later`,
);
