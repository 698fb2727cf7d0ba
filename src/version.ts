// The version of the agent. Here and in deno.json; a test compares them.

/** Semantic version of the command line and of the HTTP interface under /agent/v1. */
export const VERSION = "0.1.0";

/** The Deno that runs, tests and compiles the program; a binary may carry an older runtime. */
export const DENO_PINNED = "2.9.6";

/** How the runtime of this process is named: its version, and whether it is the pinned one. */
export function runtimeLabel(version: string): string {
  return version === DENO_PINNED ? version : `fallback ${version}`;
}
