// Makes dist/ui.json: the web console as one file, which the agent reads from source and carries in its
// binary. The scripts are bundled from src/ui, named by their content, and compressed once, here. The same
// sources give the same bytes.

import { fromFileUrl, join } from "@std/path";
import { createHash } from "node:crypto";
import { brotliCompressSync, constants } from "node:zlib";
import type { PackedUi } from "../src/http/routes/ui.ts";
import { placeBundler, refuseOtherBundlers } from "./bundler.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
const SOURCES = join(ROOT, "src/ui");
const ENTRY = "main.tsx";
/** The styles in the order in which they apply. */
const STYLES = [
  "tokens.css",
  "controls.css",
  "parts.css",
  "lists.css",
  "shell.css",
  "jobs.css",
  "job.css",
  "machines.css",
  "library.css",
  "overview.css",
  "pages.css",
  "new.css",
] as const;
/** Characters of a digest in a name. */
const NAME_CHARS = 12;
const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
};

/** Where the packed console of this checkout is. */
export const PACKED_UI = join(ROOT, "dist/ui.json");

/** Bundles and packs the console into a file. @throws {Error} saying what the bundler said */
export async function packUi(path = PACKED_UI): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const packed = pack(await bundledFiles(folder), await stylesText());
    await Deno.mkdir(join(ROOT, "dist"), { recursive: true });
    const text = `${JSON.stringify(packed)}\n`;
    // Tests make it as well: what is built of it is not to be built again for the same bytes.
    if (await Deno.readTextFile(path).catch(() => "") === text) return;
    // Those that run at the same time make the same file.
    const part = `${path}.${crypto.randomUUID()}`;
    await Deno.writeTextFile(part, text);
    await Deno.rename(part, path);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The scripts by their names; the entry is named after its source. */
async function bundledFiles(folder: string): Promise<Map<string, string>> {
  const denoDir = Deno.env.get("DENO_DIR") ?? join(ROOT, ".toolchain/cache");
  await placeBundler(denoDir);
  const flags = ["--quiet", "--platform", "browser", "--minify", "--code-splitting"];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", ...flags, "--outdir", folder, join(SOURCES, ENTRY)],
    cwd: ROOT,
    env: { DENO_DIR: denoDir, NO_COLOR: "1" },
    stdout: "null",
  }).output();
  if (!success) throw new Error(`Cannot bundle the console: ${new TextDecoder().decode(stderr)}`);
  refuseOtherBundlers(denoDir);
  const files = new Map<string, string>();
  for await (const { name } of Deno.readDir(folder)) {
    files.set(name, await Deno.readTextFile(join(folder, name)));
  }
  return files;
}

async function stylesText(): Promise<string> {
  const texts = await Promise.all(
    STYLES.map((name) => Deno.readTextFile(join(SOURCES, "style", name))),
  );
  return texts.join("\n").replaceAll(/\/\*.*?\*\//gs, "").replaceAll(/\n\s*/g, "\n");
}

function pack(scripts: ReadonlyMap<string, string>, styles: string): PackedUi {
  const entry = scripts.get(ENTRY.replace(".tsx", ".js")) ?? "";
  const script = `main-${digest(entry)}.js`;
  const style = `main-${digest(styles)}.css`;
  const files = new Map([...scripts].filter(([, text]) => text !== entry));
  files.set(script, entry).set(style, styles);
  return {
    script,
    style,
    files: Object.fromEntries(
      [...files].sort(([a], [b]) => a < b ? -1 : 1).map((
        [name, text],
      ) => [name, packed(name, text)]),
    ),
  };
}

function packed(name: string, text: string): PackedUi["files"][string] {
  const bytes = new TextEncoder().encode(text);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.byteLength,
  };
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)];
  if (type === undefined) throw new Error(`Cannot pack ${name}, expected a script or a style`);
  return {
    type,
    br: new Uint8Array(brotliCompressSync(bytes, { params })).toBase64(),
  };
}

/** Names a file after its content. */
function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, NAME_CHARS);
}

if (import.meta.main) await packUi();
