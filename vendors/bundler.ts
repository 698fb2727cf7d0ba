// The bundler behind `deno bundle`. Deno fetches it by itself when it is not there, so it is put in its
// place before, and compared with its pinned digest before every build.

import { join } from "@std/path";
import { fetchPackageFile } from "./fetch_package.ts";
import { BUNDLER, BUNDLER_SHA256 } from "./pins.ts";
import { sha256OfFile } from "./runtime.ts";

const PLATFORM = "x86_64-unknown-linux-gnu";

/** The folder in which Deno keeps its bundlers, and the name of the pinned one in there. */
function placeIn(denoDir: string) {
  return { folder: join(denoDir, "dl"), name: `esbuild-${BUNDLER.version}-1` };
}

/** The bundler itself, once placed. */
export function bundlerPath(denoDir: string): string {
  const { folder, name } = placeIn(denoDir);
  return join(folder, name, "esbuild-linux-x64");
}

/**
 * Puts the pinned bundler where Deno looks for it.
 * @throws {Error} when another one is there, the package is not the pinned one, or none is pinned for this
 *   platform
 */
export async function placeBundler(
  denoDir: string,
  target: string = Deno.build.target,
): Promise<void> {
  if (target !== PLATFORM) {
    throw new Error(`Cannot bundle: no bundler is pinned for ${target}, see vendors/pins.ts`);
  }
  const path = bundlerPath(denoDir);
  await fetchPackageFile(BUNDLER, path);
  const found = await sha256OfFile(path);
  if (found === BUNDLER_SHA256) return;
  throw new Error(`Cannot bundle: ${path} has SHA-256 ${found}, pinned is ${BUNDLER_SHA256}`);
}

/** Fails when Deno has taken another bundler, as another version of Deno would. @throws {Error} */
export function refuseOtherBundlers(denoDir: string): void {
  const { folder, name } = placeIn(denoDir);
  const others = Array.from(Deno.readDirSync(folder), (entry) => entry.name)
    .filter((one) => one.startsWith("esbuild-") && one !== name);
  if (others.length === 0) return;
  throw new Error(`Cannot use the bundle: ${folder} holds ${others.join(", ")} besides ${name}`);
}

// Fetched while the packages are, so that nothing is fetched later.
if (import.meta.main) await placeBundler(Deno.env.get("DENO_DIR") ?? ".toolchain/cache");
