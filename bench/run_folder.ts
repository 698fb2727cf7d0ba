// Where a run keeps what it makes: in the folder for temporary files, which has to be on a disk.

import { join } from "@std/path";
import { descendants } from "./agent_under_test.ts";

/** File systems that keep nothing: a commit to one of them costs nothing either. */
const MEMORY_FILE_SYSTEMS = ["tmpfs", "ramfs"];

/** How long what was started may take to end after an interruption. */
const END_MS = 5_000;
/** What a shell has for a program that was ended by SIGINT. */
const INTERRUPTED = 130;

/**
 * A folder with subfolders for each round. It is removed after the run, also when that is
 * interrupted; whatever the run has started is ended then.
 * @throws {Error} when it would be in memory
 */
export async function withRunFolder<T>(run: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "zonewright-bench-" });
  const interrupted = () => void endRun(folder);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, interrupted);
  }
  try {
    const type = await fileSystemOf(folder);
    if (MEMORY_FILE_SYSTEMS.includes(type)) {
      const message = `Cannot measure durable commits: ${folder} is on ${type}, which keeps ` +
        "nothing; set TMPDIR to a folder on a disk";
      throw new Error(message);
    }
    return await openToOthers(folder, run);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function endRun(folder: string): Promise<never> {
  const deadline = performance.now() + END_MS;
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    for (const pid of descendants(Deno.pid)) kill(pid, signal);
    while (descendants(Deno.pid).length > 0 && performance.now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  await Deno.remove(folder, { recursive: true });
  Deno.exit(INTERRUPTED);
}

function kill(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** A folder for one round, removed after it. */
export async function withFolder<T>(
  parent: string,
  run: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = await Deno.makeTempDir({ dir: parent });
  try {
    return await openToOthers(folder, run);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Guests that root's agent has started, and PostgreSQL, run as others and have to get there. */
async function openToOthers<T>(folder: string, run: (folder: string) => Promise<T>): Promise<T> {
  await Deno.chmod(folder, 0o755);
  return await run(folder);
}

/** The type of the file system that a folder is on. */
async function fileSystemOf(folder: string): Promise<string> {
  const path = await Deno.realPath(folder);
  const mounts = (await Deno.readTextFile("/proc/self/mounts")).trim().split("\n")
    .map((line) => line.split(" "));
  let [longest, found] = ["", "unknown"];
  for (const [, point = "", type = ""] of mounts) {
    const inside = path === point || path.startsWith(join(point, "/"));
    if (inside && point.length >= longest.length) [longest, found] = [point, type];
  }
  return found;
}
