// The one seam between the agent and the machine it manages: how vmadm is run there and how files
// get there. `local` is the global zone itself; `simulated` is this program playing vmadm, with its
// state in a folder. Both reach files in the same way. What an agent on another machine needs for
// driving a global zone through ssh is this interface and nothing else.

import type { SelfCommand } from "../executable.ts";
import { AgentError } from "../domain/error.ts";
import { isAbsolute, join, normalize } from "@std/path";
import { type CommandOptions, type CommandResult, runCommand } from "./command.ts";
import { type HostFiles, localFiles } from "./host_files.ts";
import { type Locks, openLocks } from "./locks.ts";

/** The managed host, as far as the agent touches it. */
export interface Transport {
  readonly kind: "local" | "simulated" | "ssh";
  /**
   * Runs vmadm with these arguments.
   * @throws {AgentError} as runCommand
   */
  vmadm(args: readonly string[], options: CommandOptions): Promise<CommandResult>;
  /** Absolute folder under which every zonepath must lie, e.g. `/zones`. */
  readonly zonesRoot: string;
  /** Files of the managed host. */
  readonly files: HostFiles;
  /** Order among calls that touch the same machine or file of the managed host. */
  readonly locks: Locks;
}

/**
 * The host that the agent runs on.
 * @param options `vmadm`: absolute path of the program; `zonesRoot`: absolute folder
 * @throws {AgentError} `invalid_argument` when a path is not absolute
 */
export function localTransport(options: { vmadm: string; zonesRoot: string }): Transport {
  return {
    kind: "local",
    vmadm: (args, o) => runCommand(options.vmadm, args, o),
    zonesRoot: absoluteFolder(options.zonesRoot),
    files: localFiles(),
    locks: openLocks(),
  };
}

/**
 * A host that is only played, by `zonewright simulate`, with real processes and listeners.
 * @param options `stateDir`: absolute folder of the simulated host, which holds `zones`
 * @throws {AgentError} `invalid_argument` when the folder is not absolute
 */
export function simulatedTransport(options: { self: SelfCommand; stateDir: string }): Transport {
  const { self } = options;
  const stateDir = absoluteFolder(options.stateDir);
  const before = [...self.args, "simulate", "--state", stateDir, "vmadm"];
  return {
    kind: "simulated",
    vmadm: (args, o) =>
      runCommand(self.program, [...before, ...args], { ...o, env: { ...self.env, ...o.env } }),
    zonesRoot: join(stateDir, "zones"),
    files: localFiles(),
    locks: openLocks(),
  };
}

function absoluteFolder(path: string): string {
  if (!isAbsolute(path)) {
    const message = `Cannot use ${JSON.stringify(path)} as a folder: expected an absolute path`;
    throw new AgentError("invalid_argument", message);
  }
  const normal = normalize(path);
  return normal.length > 1 && normal.endsWith("/") ? normal.slice(0, -1) : normal;
}
