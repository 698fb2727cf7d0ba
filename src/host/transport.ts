// The one seam between the agent and the machine it manages: how vmadm is run there and how files
// get there. `local` is the global zone itself; `simulated` is this program playing vmadm, with its
// state in a folder. Both reach files in the same way. An agent on another machine drives a global
// zone through ssh: ssh_transport.ts.

import type { SelfCommand } from "../program/executable.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import { isAbsolute, join, normalize } from "@std/path";
import { abortedError, checkAborted } from "./abort.ts";
import { type CommandOptions, type CommandResult, runCommand } from "./command.ts";
import { type HostFiles, localFiles } from "./host_files.ts";
import { type Locks, openLocks } from "./locks.ts";
import { withQuotas } from "./simulated_files.ts";

/** A connection to a TCP port of the managed host; a Deno.TcpConn is one. */
export type HostConnection = Pick<
  Deno.TcpConn,
  "read" | "write" | "close" | "readable" | "writable"
>;

/** Where SmartOS has them, in every version. */
export const ZFS = "/usr/sbin/zfs";
export const NICTAGADM = "/usr/bin/nictagadm";

/** The managed host, as far as the agent touches it. */
export interface Transport {
  readonly kind: "local" | "simulated" | "ssh";
  /**
   * Runs vmadm with these arguments.
   * @throws {AgentError} as runCommand
   */
  vmadm(args: readonly string[], options: CommandOptions): Promise<CommandResult>;
  /**
   * Runs zfs with these arguments.
   * @throws {AgentError} as runCommand
   */
  zfs(args: readonly string[], options: CommandOptions): Promise<CommandResult>;
  /**
   * Runs nictagadm with these arguments.
   * @throws {AgentError} as runCommand
   */
  nictagadm(args: readonly string[], options: CommandOptions): Promise<CommandResult>;
  /** Absolute folder under which every zonepath must lie, e.g. `/zones`. */
  readonly zonesRoot: string;
  /** Files of the managed host. */
  readonly files: HostFiles;
  /** Order among calls that touch the same machine or file of the managed host. */
  readonly locks: Locks;
  /**
   * Connects to an address as the managed host reaches it, such as that of a VNC console.
   * @throws {AgentError} `host` when nobody answers there; `aborted`
   */
  dial(hostname: string, port: number, signal?: AbortSignal): Promise<HostConnection>;
}

/** Connects from this machine. */
async function dialDirectly(
  hostname: string,
  port: number,
  signal?: AbortSignal,
): Promise<HostConnection> {
  const action = `Cannot connect to ${hostname}:${port}`;
  checkAborted(action, signal);
  try {
    return await Deno.connect({ hostname, port, ...(signal === undefined ? {} : { signal }) });
  } catch (cause) {
    if (signal?.aborted) throw abortedError(action, signal);
    throw new AgentError("host", `${action}: ${messageOf(cause)}`, { cause });
  }
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
    zfs: (args, o) => runCommand(ZFS, args, o),
    nictagadm: (args, o) => runCommand(NICTAGADM, args, o),
    zonesRoot: absoluteFolder(options.zonesRoot),
    files: localFiles(),
    locks: openLocks(),
    dial: dialDirectly,
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
  const simulate = (program: string): Transport["vmadm"] => (args, o) => {
    const words = [...self.args, "simulate", "--state", stateDir, program, ...args];
    return runCommand(self.program, words, { ...o, env: { ...self.env, ...o.env } });
  };
  return {
    kind: "simulated",
    vmadm: simulate("vmadm"),
    zfs: simulate("zfs"),
    nictagadm: simulate("nictagadm"),
    zonesRoot: join(stateDir, "zones"),
    files: withQuotas(localFiles(), stateDir),
    locks: openLocks(),
    dial: dialDirectly,
  };
}

/**
 * A folder as the agent's paths begin with it.
 * @throws {AgentError} `invalid_argument` when it is not absolute
 */
export function absoluteFolder(path: string): string {
  if (!isAbsolute(path)) {
    const message = `Cannot use ${JSON.stringify(path)} as a folder: expected an absolute path`;
    throw new AgentError("invalid_argument", message);
  }
  const normal = normalize(path);
  return normal.length > 1 && normal.endsWith("/") ? normal.slice(0, -1) : normal;
}
