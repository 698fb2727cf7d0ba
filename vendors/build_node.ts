// Makes dist/zonewright.mjs: the program in one file for Node, of which SmartOS has packages. Node reads
// vendors/node/start.ts, which unpacks the adapter in vendors/node/ and the modules of main.ts. The same sources give
// the same bytes.

import { fromFileUrl, join } from "@std/path";
import { brotliCompressSync } from "node:zlib";
import type { BuildInfo } from "../src/runtime/executable.ts";
import { bundlerPath, placeBundler, refuseOtherBundlers } from "./bundler.ts";
import { gitState } from "./git_state.ts";
import { NODES } from "./pins.ts";
import { packUi } from "./ui.ts";

/** Where Node lies on SmartOS; the file can be run without naming it. */
const INTERPRETER = "#!/opt/tools/bin/node";
/** The oldest Node that the program is made for, and one that can still read why it is refused. */
const TARGET = "node22";
const READER = "node10";
/** Options of the bundler, besides what it is to bundle. A line that fails is printed, so none is long. */
const SMALL = [
  "--platform=node",
  "--minify",
  "--charset=ascii",
  "--legal-comments=none",
  "--line-limit=400",
] as const;
/** A module: loaded by name when it is asked for. It has no file, and asks only for modules of Node. */
const MODULE = [
  ...SMALL,
  `--target=${TARGET}`,
  "--format=cjs",
  '--define:import.meta.url="file:///"',
] as const;
/** What the adapter has in place of Node's; see vendors/node/install.ts. */
const REPLACED = ["--define:Response=KnownResponse", "--define:WebSocket=ClientSocket"] as const;

const root = fromFileUrl(new URL("..", import.meta.url));
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
  throw new Error(`Cannot build for Node: ${new TextDecoder().decode(stderr).trim()}`);
}

const minify = (...args: readonly string[]) => run(bundlerPath(denoDir), [...args]);
const bundle = (...args: readonly string[]) => run(Deno.execPath(), ["bundle", "--quiet", ...args]);

/** Bundles a program into the same modules as the binary has, and makes each one that Node can be handed. */
async function makeProgram(main: string, work: string, modules: string): Promise<void> {
  const folder = join(work, "program");
  await bundle("--code-splitting", "--outdir", folder, main);
  refuseOtherBundlers(denoDir);
  const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
  const [first = ""] = names.filter((name) => main.endsWith(`/${name.replace(/js$/, "ts")}`));
  // It waits at its top level, which no such module can.
  const text = await Deno.readTextFile(join(folder, first));
  await Deno.writeTextFile(join(folder, first), `(async () => {\n${text}})();\n`);
  if (first !== "main.js") await Deno.rename(join(folder, first), join(folder, "main.js"));
  const files = Array.from(Deno.readDirSync(folder), ({ name }) => join(folder, name));
  const own = ["--supported:dynamic-import=false", `--outdir=${modules}`];
  await minify(...files, ...MODULE, ...REPLACED, ...own);
}

/** The adapter, in which some parts are loaded only when they are asked for. */
async function makeAdapter(work: string, modules: string): Promise<void> {
  const entry = join(work, "ws_entry.ts");
  const socket = join(work, "ws.mjs");
  await Deno.writeTextFile(entry, 'export { WebSocket } from "ws";\n');
  await bundle("--output", socket, entry);
  const adapter = [join(root, "vendors/node/install.ts"), "--bundle", `--alias:ws=${socket}`];
  await minify(...adapter, ...MODULE, `--outfile=${modules}/install.js`);
}

/** The file that Node reads first. */
async function makeStart(work: string): Promise<string> {
  const output = join(work, "start.js");
  const start = [join(root, "vendors/node/start.ts"), "--bundle", "--format=iife"];
  const named = ["--global-name=zonewright", `--target=${READER}`, `--outfile=${output}`];
  await minify(...start, ...SMALL, ...named);
  return await Deno.readTextFile(output);
}

/** What one file for Node is made of. */
interface NodeFile {
  /** Path of the module that begins; it has no export. */
  readonly main: string;
  /** Texts of files that the program finds beside itself, by name. */
  readonly beside: Readonly<Record<string, string>>;
  /** The line below that of the interpreter. */
  readonly title: string;
  /** A folder for what is made on the way, emptied first. */
  readonly work: string;
  readonly output: string;
}

/** Writes a program as one file for Node. @throws {Error} with the words of the bundler */
export async function writeNodeFile(
  { main, beside, title, work, output }: NodeFile,
): Promise<void> {
  await Deno.remove(work, { recursive: true }).catch(() => {});
  await Deno.mkdir(work, { recursive: true });
  await placeBundler(denoDir);
  const modules = join(work, "modules");
  await makeProgram(main, work, modules);
  await makeAdapter(work, modules);
  const names = Array.from(Deno.readDirSync(modules), ({ name }) => name).sort();
  const texts = await Promise.all(
    names.map(async (name) => [`./${name}`, await Deno.readTextFile(join(modules, name))] as const),
  );
  const packed = [...Object.entries(beside), ...texts].map(([name, text]) =>
    `${JSON.stringify(name)}:"${brotliCompressSync(text).toString("base64")}"`
  );
  const call = ["zonewright.start({", packed.join(",\n"), "});", ""];
  const lines = [INTERPRETER, `// ${title}`, await makeStart(work) + call.join("\n")];
  await Deno.writeTextFile(output, lines.join("\n"));
  await Deno.chmod(output, 0o755);
}

if (import.meta.main) {
  const output = join(root, "dist/zonewright.mjs");
  const ui = join(root, "dist/ui.json");
  await packUi(ui);
  const info: BuildInfo = await gitState(root);
  const beside = {
    "build.json": JSON.stringify(info),
    "ui.json": await Deno.readTextFile(ui),
  };
  const title = `zonewright, commit ${info.commit}`;
  const work = join(root, "dist/node");
  await writeNodeFile({ main: join(root, "main.ts"), beside, title, work, output });
  const megabytes = ((await Deno.stat(output)).size / 1_000_000).toFixed(2);
  const [oldest] = NODES;
  console.error(
    `build: dist/zonewright.mjs, ${megabytes} MB, for Node ${oldest?.version} and later`,
  );
}
