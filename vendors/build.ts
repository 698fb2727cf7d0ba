// Makes the single binary: bundles main.ts with everything it imports, and compiles the bundle into
// dist/zonewright with the permissions that the agent needs and no more.

import { fromFileUrl, join } from "@std/path";
import { AGENT_HEAP_MIB, GUEST_V8_FLAGS } from "../src/sandbox/guest_command.ts";
import type { BuildInfo, RuntimeInfo } from "../src/runtime/executable.ts";
import { placeBundler, refuseOtherBundlers } from "./bundler.ts";
import { gitState } from "./git_state.ts";
import { FALLBACK_RUNTIME, FALLBACK_WORDS } from "./pins.ts";
import { packUi } from "./ui.ts";
import { type CompileTools, fallbackTools, sha256OfFile } from "./runtime.ts";

const root = fromFileUrl(new URL("..", import.meta.url));
const bundle = join(root, "dist/bundle");
const binary = join(root, "dist/zonewright");
const buildFile = join(bundle, "build.json");
/** The console, which the program reads beside itself. */
const uiFile = join(bundle, "ui.json");
const denoDir = Deno.env.get("DENO_DIR") ?? join(root, ".toolchain/cache");

/** What the agent may do; a guest gives all of it up before it reads a task. */
const PERMISSIONS = ["read", "write", "net", "env", "run", "sys"].map((name) => `--allow-${name}`);
/**
 * A compiled binary ignores flags of V8 from outside, and V8 takes no other heap once it runs: they
 * are baked in for all faces. No code is ever made from strings, and no heap grows beyond the agent's;
 * guests and decoders have a smaller number from the system, see guest_command.ts.
 */
const V8_FLAGS = `${GUEST_V8_FLAGS},--max-old-space-size=${AGENT_HEAP_MIB}`;

interface Ran {
  readonly success: boolean;
  /** What the program said when it failed. */
  readonly words: string;
}

async function run(
  program: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<Ran> {
  const command = new Deno.Command(program, {
    args,
    cwd: root,
    env: { ...env, NO_COLOR: "1" },
    stdout: "null",
  });
  const { success, stderr } = await command.output();
  return { success, words: new TextDecoder().decode(stderr).trim() };
}

async function bundleSources(): Promise<void> {
  await Deno.remove(bundle, { recursive: true }).catch(() => {});
  const args = ["bundle", "--quiet", "--minify", "--code-splitting", "--outdir", bundle, "main.ts"];
  await placeBundler(denoDir);
  const { success, words } = await run(Deno.execPath(), args, { DENO_DIR: denoDir });
  if (!success) throw new Error(`Cannot bundle main.ts: ${words}`);
  refuseOtherBundlers(denoDir);
  await packUi(uiFile);
}

/** What `zonewright version` says of this build; it stands beside the bundle, inside the binary. */
async function writeBuildFile(runtime: RuntimeInfo): Promise<void> {
  const info: BuildInfo = { ...await gitState(root), runtime };
  await Deno.writeTextFile(buildFile, `${JSON.stringify(info)}\n`);
  await setTimes();
}

/** Their times go into the binary: fixed ones make equal sources equal binaries. */
async function setTimes(): Promise<void> {
  const time = new Date(Number(Deno.env.get("SOURCE_DATE_EPOCH") ?? 1_700_000_000) * 1000);
  for await (const { name } of Deno.readDir(bundle)) {
    await Deno.utime(join(bundle, name), time, time);
  }
  await Deno.utime(bundle, time, time);
}

async function compile(
  compiler: string,
  env: Record<string, string>,
): Promise<Ran> {
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
    // Datagrams to a unix socket: how systemd learns that the agent is ready.
    "--unstable-net",
    `--v8-flags=${V8_FLAGS}`,
    ...PERMISSIONS,
    "--include",
    buildFile,
    "--include",
    uiFile,
    "--output",
    binary,
    join(bundle, "main.js"),
    // OTEL_DENO at build time is baked in: such a binary would always try to reach a collector.
  ], { ...env, OTEL_DENO: "false" });
}

async function build(): Promise<string> {
  await bundleSources();
  const given = Deno.env.get("DENORT_BIN");
  if (given !== undefined) {
    const sha256 = await sha256OfFile(given) ?? null;
    await writeBuildFile({ from: "given", sha256, compared: "the builder's own" });
    const { success, words } = await compile(Deno.execPath(), { DENORT_BIN: given });
    if (!success) throw new Error(`Cannot compile with DENORT_BIN=${given}: ${words}`);
    return `given by DENORT_BIN: ${given}`;
  }
  await writeBuildFile({ from: "deno", sha256: null, compared: "fetched by deno compile" });
  const own = await compile(Deno.execPath(), {});
  if (own.success) return Deno.version.deno;
  const why = /^ *\d+: (error sending.*|.*http status.*)$/m.exec(own.words)?.[1] ?? own.words;
  console.error(`build: cannot compile with the runtime of Deno ${Deno.version.deno}: ${why}`);
  console.error(`build: falling back to the pinned runtime, which was ${FALLBACK_WORDS}`);
  const tools: CompileTools = await fallbackTools(join(root, ".toolchain/fallback"));
  const { sha256, version } = FALLBACK_RUNTIME;
  await writeBuildFile({ from: "fallback", sha256, compared: FALLBACK_WORDS });
  const { success, words } = await compile(tools.compiler, { DENORT_BIN: tools.runtime });
  if (!success) throw new Error(`Cannot compile with the fallback runtime: ${words}`);
  return `fallback ${version}`;
}

const runtime = await build();
const { size } = await Deno.stat(binary);
console.error(`build: dist/zonewright, ${(size / 1_000_000).toFixed(1)} MB, runtime: ${runtime}`);
