// This program: how to start it again, and which version and build it is. The sandbox runs it as `guest`, the simulated
// host as `simulate vmadm`. A compiled binary starts itself; from source, Deno starts main.ts.

import { fromFileUrl } from "@std/path";
import { nodeRuntime, readBeside } from "./node.ts";
import { absent } from "./regular_file.ts";

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
  const other = nodeRuntime();
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

/** What became of the file of this program. */
export interface ProgramFile {
  readonly file: string;
  readonly state: "same" | "replaced" | "removed";
}

/**
 * Remembers the file that holds this program, from which guests are started.
 * @returns compares it with what is there now
 */
export function rememberProgramFile(file = installableSelf().file): () => Promise<ProgramFile> {
  const look = async () => {
    const info = await Deno.stat(file).catch(absent);
    return info && [info.ino, info.size, info.mtime?.getTime()].join();
  };
  const before = look();
  return async () => {
    const now = await look();
    const state = now === undefined ? "removed" : now === await before ? "same" : "replaced";
    return { file, state };
  };
}

/** Semantic version of the command line and of the HTTP interface under /agent/v1. deno.json has it too. */
export const VERSION = "0.1.0";

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
