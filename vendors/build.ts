// Makes the single binary: bundles main.ts with everything it imports, and compiles the bundle into
// dist/zonewright with the permissions that the agent needs and no more.

import { fromFileUrl, join } from "@std/path";
import { type CompileTools, fallbackTools } from "./runtime.ts";

const root = fromFileUrl(new URL("..", import.meta.url));
const bundle = join(root, "dist/bundle");
const binary = join(root, "dist/zonewright");

/** What the agent may do; a guest gives all of it up before it reads a task. */
const PERMISSIONS = ["read", "write", "net", "env", "run", "sys"].map((name) => `--allow-${name}`);
/**
 * A compiled binary ignores flags of V8 from outside, so they are baked in, for agent and guests
 * alike: no code is ever made from strings, and no heap grows beyond this.
 */
const V8_FLAGS = "--disallow-code-generation-from-strings,--max-old-space-size=256";

async function run(
  program: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<boolean> {
  const command = new Deno.Command(program, {
    args,
    cwd: root,
    env,
    stdout: "null",
    stderr: "piped",
  });
  const { success, stderr } = await command.output();
  if (!success) console.error(new TextDecoder().decode(stderr).trim());
  return success;
}

async function bundleSources(): Promise<void> {
  await Deno.remove(bundle, { recursive: true }).catch(() => {});
  const args = ["bundle", "--quiet", "--minify", "--code-splitting", "--outdir", bundle, "main.ts"];
  if (!await run(Deno.execPath(), args)) throw new Error("Cannot bundle main.ts");
}

async function compile(
  compiler: string,
  env: Record<string, string>,
): Promise<boolean> {
  return await run(compiler, [
    "compile",
    "--quiet",
    "--no-check",
    "--no-config",
    "--no-lock",
    "--no-prompt",
    "--no-remote",
    "--no-npm",
    // Without it a binary would read compiled code from a predictable place in the temporary folder.
    "--no-code-cache",
    `--v8-flags=${V8_FLAGS}`,
    ...PERMISSIONS,
    "--output",
    binary,
    join(bundle, "main.js"),
  ], env);
}

async function build(): Promise<string> {
  await bundleSources();
  const given = Deno.env.get("DENORT_BIN");
  if (given !== undefined) {
    if (!await compile(Deno.execPath(), { DENORT_BIN: given })) {
      throw new Error(`Cannot compile with the runtime that DENORT_BIN names: ${given}`);
    }
    return `given by DENORT_BIN: ${given}`;
  }
  if (await compile(Deno.execPath(), {})) return Deno.version.deno;
  console.error(
    `build: the runtime of Deno ${Deno.version.deno} cannot be downloaded; falling back to a pinned one`,
  );
  const tools: CompileTools = await fallbackTools(join(root, ".toolchain/fallback"));
  if (!await compile(tools.compiler, { DENORT_BIN: tools.runtime })) {
    throw new Error("Cannot compile with the fallback runtime");
  }
  return tools.label;
}

const runtime = await build();
const { size } = await Deno.stat(binary);
console.error(`build: dist/zonewright, ${(size / 1_000_000).toFixed(1)} MB, runtime: ${runtime}`);
