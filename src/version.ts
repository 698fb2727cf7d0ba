// The version of the agent. Here and in deno.json; a test compares them.

/** Semantic version of the command line and of the HTTP interface under /agent/v1. */
export const VERSION = "0.1.0";

/** The Deno that runs, tests and compiles the program; a binary may carry an older runtime. */
export const DENO_PINNED = "2.9.6";

/** How the runtime of this process is named: its version, and whether it is the pinned one. */
export function runtimeLabel(version: string): string {
  return version === DENO_PINNED ? version : `fallback ${version}`;
}

/** Where a binary comes from. */
export interface BuildInfo {
  /** The commit, or null when the sources had no history or the program runs from source. */
  readonly commit: string | null;
  /** Whether the sources differed from the commit. */
  readonly changed: boolean;
}

/** What the build wrote beside the bundle; from source there is no such file. */
export async function readBuildInfo(): Promise<BuildInfo> {
  if (!Deno.build.standalone) return { commit: null, changed: false };
  const text = await Deno.readTextFile(new URL("build.json", import.meta.url));
  // Written by the build of this very binary.
  return JSON.parse(text) as BuildInfo;
}
