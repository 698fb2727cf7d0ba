// What Node is told when it starts the program: for the agent, and for what is shut in.

/** A Node whose permission model covers the network, and lets a process give permissions up. */
const NETWORK_MAJOR = 25;

/** Major version of a Node, like 24 of "24.18.0". */
export function majorOf(version: string): number {
  return Number(version.split(".")[0]);
}

/**
 * The checks that a Node cannot pass: `sys` in any version (the host's name, the user, the interfaces, and
 * signals), the network in older ones.
 */
export function cannotRefuse(major: number): readonly string[] {
  return major >= NETWORK_MAJOR ? ["sys"] : ["sys", "net"];
}

/** The V8 of this and later ones reserves room for code. */
const RESERVING_MAJOR = 24;

/** Data segment of a fresh process, bytes: measured on Linux, with the stacks of all its threads. */
export function reservedDataBytes(major: number): number {
  return major >= RESERVING_MAJOR ? 630_000_000 : 90_000_000;
}

export const NO_CODE = "--disallow-code-generation-from-strings";
/** V8 writes files for some of its flags, and asks no permission model. */
const NO_FLAGS = "--freeze-flags-after-init";
/** What shuts a guest in. */
export const WALL = "--permission";
/** A signal must not open an inspector. */
export const NO_INSPECTOR = "--disable-sigusr1";
const QUIET = "--no-warnings";
/** The traps of WebAssembly reserve gigabytes of addresses, which a process with a limit of those has not. */
const NO_TRAPS = "--disable-wasm-trap-handler";
/** The permission model does not cover node:sqlite, which reads and makes files all the same. */
export const NO_SQLITE = "--no-experimental-sqlite";

/** Options of Node for each face of the program that lies in `file`. */
export function optionsOf(
  file: string,
  major: number,
  heapMib: { readonly agent: number; readonly walled: number },
) {
  const walled = [
    WALL,
    `--allow-fs-read=${file}`,
    // The guest still has to reach its agent; it gives this up afterwards.
    ...(major >= NETWORK_MAJOR ? ["--allow-net"] : []),
    NO_INSPECTOR,
    NO_SQLITE,
    NO_TRAPS,
    NO_CODE,
    NO_FLAGS,
    QUIET,
    `--max-old-space-size=${heapMib.walled}`,
  ];
  return {
    agent: [NO_CODE, QUIET, `--max-old-space-size=${heapMib.agent}`],
    guest: walled,
    decoder: walled,
  };
}
