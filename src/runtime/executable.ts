// How to start this program again: the sandbox runs it as `guest`, the simulated host as
// `simulate vmadm`. A compiled binary starts itself; from source, Deno starts main.ts.

import { fromFileUrl } from "@std/path";
import { otherRuntime } from "./other_runtime.ts";

/** A program with the arguments and environment that come before anyone's own. */
export interface SelfCommand {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Whether this is one file that holds everything: what `deno compile` makes, or the file for Node. */
  readonly compiled: boolean;
  /** The file that holds the program, the last of `args`, where `program` is the runtime that runs it. */
  readonly file?: string;
  /** How the runtime shuts in what it starts, where that is not by Deno's permissions. */
  readonly walled?: WalledSelf;
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

/** The program as it is started to be shut in. */
export interface WalledSelf {
  /** Arguments instead of those of the agent. */
  readonly guest: readonly string[];
  readonly decoder: readonly string[];
  /** Data segment of a fresh process, bytes: its memory limit is added to that. */
  readonly reservedDataBytes: number;
  /** Names of the checks that the runtime cannot pass by itself: the kernel may, and doctor says so. */
  readonly cannotRefuse: readonly string[];
}

/** How this process was started, as far as another of its kind needs it. */
export function selfCommand(): SelfCommand {
  const other = otherRuntime();
  if (other !== undefined) {
    const { program, file, options, reservedDataBytes, cannotRefuse } = other;
    return {
      program,
      args: [...options.agent, file],
      file,
      env: {},
      compiled: true,
      walled: {
        guest: [...options.guest, file],
        decoder: [...options.decoder, file],
        reservedDataBytes,
        cannotRefuse,
      },
    };
  }
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

/** This program as it is installed: the one file that holds it, and the command that runs such a file. */
export function installableSelf(): {
  readonly file: string;
  /** The runtime and its options; nothing where the file runs by itself. */
  readonly runtime: readonly string[];
} {
  const { program, args, file } = selfCommand();
  if (file === undefined) return { file: program, runtime: [] };
  return { file, runtime: [program, ...args.slice(0, -1)] };
}
