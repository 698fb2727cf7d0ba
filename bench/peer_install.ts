// Puts the peers' packages into .toolchain/ (git-ignored), once: they are no dependencies of the
// project. npm's own integrity check applies; Debian's packages are unpacked, not installed.

import { fromFileUrl, join } from "@std/path";

const FOLDER = fromFileUrl(new URL("../.toolchain/bench-peers", import.meta.url));
const INSTALL_SECONDS = 300;
/** Where none that is new enough is on PATH. */
const NODE_VERSION = "24.21.0";

export type Packages = Readonly<Record<string, string>>;

/** @returns the folder with its `node_modules` @throws {Error} telling why it cannot */
export async function installPackages(name: string, packages: Packages): Promise<string> {
  const folder = join(FOLDER, name);
  const manifest = JSON.stringify({ private: true, dependencies: packages }, undefined, 2);
  // Written when all is there.
  const stamp = join(folder, "installed.json");
  if (await textOf(stamp) === manifest) return folder;
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(join(folder, "package.json"), manifest);
  console.error(`bench: installing ${name} from npm`);
  await run("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], folder);
  await Deno.writeTextFile(stamp, manifest);
  return folder;
}

/** A Node of at least that `major.minor`. @throws {Error} telling why there is none */
export async function nodeFor(minimum: string): Promise<string> {
  const [major = 0, minor = 0] = minimum.split(".").map(Number);
  const [majorFound, minorFound] = await versionOnPath();
  if (majorFound > major || (majorFound === major && minorFound >= minor)) return "node";
  const folder = await installPackages("node", { node: NODE_VERSION });
  return join(folder, "node_modules/.bin/node");
}

export interface RedisProgram {
  readonly program: string;
  /** Folder of the libraries that it needs besides the system's. */
  readonly libraries: string;
}

/** The redis-server on PATH, or Debian's. @throws {Error} telling why there is none */
export async function redisProgram(): Promise<RedisProgram> {
  const onPath = await found("redis-server", ["--version"]);
  if (onPath !== undefined) return { program: "redis-server", libraries: "" };
  const folder = join(FOLDER, "redis");
  const redis = {
    program: join(folder, "usr/bin/redis-server"),
    libraries: join(folder, "usr/lib/x86_64-linux-gnu"),
  };
  const stamp = join(folder, "installed.json");
  if (await textOf(stamp) !== undefined) return redis;
  await Deno.mkdir(folder, { recursive: true });
  console.error("bench: unpacking redis-server from Debian's packages");
  const packages = ["redis-server", "redis-tools", "libjemalloc2", "liblzf1", "libatomic1"];
  await run("apt-get", ["download", "--quiet", ...packages], folder);
  for await (const { name } of Deno.readDir(folder)) {
    if (name.endsWith(".deb")) await run("dpkg-deb", ["--extract", name, "."], folder);
  }
  await Deno.writeTextFile(stamp, JSON.stringify(packages));
  return redis;
}

async function versionOnPath(): Promise<[major: number, minor: number]> {
  const version = await found("node", ["--version"]);
  const [, major = 0, minor = 0] = /^v(\d+)\.(\d+)/.exec(version ?? "")?.map(Number) ?? [];
  return [major, minor];
}

/** What a program on PATH says, or undefined when there is none. */
async function found(program: string, args: string[]): Promise<string | undefined> {
  try {
    const { success, stdout } = await new Deno.Command(program, { args }).output();
    return success ? new TextDecoder().decode(stdout) : undefined;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function run(program: string, args: string[], cwd: string): Promise<void> {
  let output: Deno.CommandOutput;
  try {
    const signal = AbortSignal.timeout(INSTALL_SECONDS * 1000);
    output = await new Deno.Command(program, { args, cwd, signal }).output();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw new Error(`${program} is not on PATH`);
    throw error;
  }
  const { success, signal, stderr } = output;
  if (success) return;
  const words = new TextDecoder().decode(stderr).trim().split("\n").at(-1) ?? "";
  const end = signal === null ? words : `ended by ${signal} after ${INSTALL_SECONDS} s at the most`;
  throw new Error(`${program} ${args[0]} failed: ${end}`);
}

async function textOf(path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
