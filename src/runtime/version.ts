// The version of the agent. Here and in deno.json; a test compares them.

import { readBeside } from "./other_runtime.ts";

/** Semantic version of the command line and of the HTTP interface under /agent/v1. */
export const VERSION = "0.1.0";

/** The Deno that runs, tests and compiles the program; a binary may carry an older runtime. */
export const DENO_PINNED = "2.9.6";

/** Where the runtime of a binary comes from. */
export interface RuntimeInfo {
  /** Deno's own by `deno compile`, one that the builder gave, or the pinned fallback. */
  readonly from: "deno" | "given" | "fallback";
  /** Lower-case hex; null where nobody has looked. */
  readonly sha256: string | null;
  /** What it was compared with, and what not. */
  readonly compared: string;
}

/** Where a binary comes from. */
export interface BuildInfo {
  /** The commit, or null when the sources had no history or the program runs from source. */
  readonly commit: string | null;
  /** Whether the sources differed from the commit. */
  readonly changed: boolean;
  /** Absent from source, where it is the Deno that runs. */
  readonly runtime?: RuntimeInfo;
}

/** How a runtime is named: its version, and where it comes from unless that is Deno itself. */
export function runtimeLabel(version: string, runtime: RuntimeInfo | undefined): string {
  return runtime === undefined || runtime.from === "deno" ? version : `${runtime.from} ${version}`;
}

/** What the build wrote beside the bundle; from source there is no such file. */
export async function readBuildInfo(): Promise<BuildInfo> {
  if (!Deno.build.standalone) return { commit: null, changed: false };
  const text = await readBeside("build.json", new URL("build.json", import.meta.url));
  // Written by the build of this very binary.
  return JSON.parse(text) as BuildInfo;
}
