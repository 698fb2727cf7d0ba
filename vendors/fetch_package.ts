// Takes one file out of a pinned npm package. npm brings the package; nothing of it is used before
// its digest is the pinned one.

import { dirname } from "@std/path";
import type { PinnedPackage } from "./pins.ts";

/**
 * Puts the package's file at `target`, once.
 * @throws {Error} when npm is missing or fails, or when the package is not the pinned one
 */
export async function fetchPackageFile(pin: PinnedPackage, target: string): Promise<void> {
  if (await exists(target)) return;
  await Deno.mkdir(dirname(target), { recursive: true });
  const work = await Deno.makeTempDir({ dir: dirname(target), prefix: "fetch." });
  try {
    await run("npm", ["pack", "--loglevel=error", `${pin.name}@${pin.version}`], work);
    const [tarball] = Array.from(Deno.readDirSync(work), ({ name }) => `${work}/${name}`);
    if (tarball === undefined) throw new Error(`Cannot fetch ${pin.name}: npm left no package`);
    const found = await sha512(tarball);
    if (found !== pin.sha512) {
      throw new Error(
        `Cannot use ${pin.name}@${pin.version}: its SHA-512 is ${found}, pinned is ${pin.sha512}`,
      );
    }
    await run("tar", ["-xzf", tarball, "-C", work, pin.file], work);
    await Deno.chmod(`${work}/${pin.file}`, 0o755);
    await Deno.rename(`${work}/${pin.file}`, target);
  } finally {
    await Deno.remove(work, { recursive: true });
  }
}

async function run(program: string, args: string[], cwd: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args, cwd, stdout: "null" })
    .output();
  if (success) return;
  throw new Error(`Cannot run ${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

async function sha512(file: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-512", await Deno.readFile(file));
  return btoa(String.fromCharCode(...new Uint8Array(digest)));
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
