// How to start this program again: the sandbox runs it as `guest`, the simulated host as
// `simulate vmadm`. A compiled binary starts itself; from source, Deno starts main.ts.

import { fromFileUrl } from "@std/path";

/** A program with the arguments and environment that come before anyone's own. */
export interface SelfCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Whether this is the single binary that `deno compile` makes. */
  readonly compiled: boolean;
}

/** Permissions of the agent and of what it starts; a guest gives all of them up at once. */
const PERMISSIONS = [
  "--allow-read",
  "--allow-write",
  "--allow-net",
  "--allow-env",
  "--allow-run",
  "--allow-sys",
] as const;

/** How this process was started, as far as another of its kind needs it. */
export function selfCommand(): SelfCommand {
  const program = Deno.execPath();
  if (Deno.build.standalone) return { program, args: [], env: {}, compiled: true };
  const main = fromFileUrl(new URL("../../main.ts", import.meta.url));
  const config = fromFileUrl(new URL("../../deno.json", import.meta.url));
  const cache = Deno.env.get("DENO_DIR");
  return {
    program,
    // --cached-only: a program started by the agent never asks a registry.
    args: [
      "run",
      "--quiet",
      "--no-prompt",
      "--cached-only",
      "--config",
      config,
      ...PERMISSIONS,
      main,
    ],
    env: { NO_COLOR: "1", ...(cache === undefined ? {} : { DENO_DIR: cache }) },
    compiled: false,
  };
}
