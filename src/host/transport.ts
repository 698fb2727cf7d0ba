// The only interface between the agent and the host it manages: how vmadm runs there and how files get there.
// `local` is the global zone itself; `simulated` is this program acting as vmadm, with its state in a folder;
// both share the file operations. ssh/transport.ts manages a global zone from another machine.

import type { SelfCommand } from "../runtime/executable.ts";
import { abortedError, AgentError, messageOf } from "../domain/error.ts";
import { isAbsolute, join, normalize } from "@std/path";
import { type Locks, openLocks } from "./locks.ts";
import { checkAborted } from "../runtime/wait.ts";
import { type CommandOptions, type CommandResult, runCommand } from "./program.ts";
import { type HostFiles, localFiles } from "./host_files.ts";
import { withQuotas } from "./simulated_quota.ts";

/** A connection to a TCP port of the managed host, such as a Deno.TcpConn. */
export type HostConnection = Pick<
  Deno.TcpConn,
  "read" | "write" | "close" | "readable" | "writable"
>;

/** The path of zfs in every version of SmartOS. */
export const ZFS = "/usr/sbin/zfs";
/** Lists the NIC tags of the host; vmadm needs one for each NIC. */
export const NICTAGADM = "/usr/bin/nictagadm";
/** Lists the links of the host and their mtu. */
export const DLADM = "/usr/sbin/dladm";
/** Prints the resources of the host, from a cache of its own. */
export const SYSINFO = "/usr/bin/sysinfo";

/** Runs a program of the managed host with these arguments. @throws {AgentError} as runCommand() */
type HostProgram = (args: readonly string[], options: CommandOptions) => Promise<CommandResult>;

/** What the agent uses of the managed host. */
export interface Transport {
  readonly kind: "local" | "simulated" | "ssh";
  /** Names the host in records about its machines, since the agent may manage another host later. */
  readonly host: string;
  readonly vmadm: HostProgram;
  readonly zfs: HostProgram;
  readonly nictagadm: HostProgram;
  readonly dladm: HostProgram;
  readonly sysinfo: HostProgram;
  /** Absolute folder of all zonepaths, such as `/zones`. */
  readonly zonesRoot: string;
  readonly files: HostFiles;
  /** Orders calls that touch the same machine or file of the managed host. */
  readonly locks: Locks;
  /**
   * Connects from the managed host to an address, such as that of a VNC console.
   * @throws {AgentError} `host` when nothing answers; `aborted`
   */
  dial(hostname: string, port: number, signal?: AbortSignal): Promise<HostConnection>;
}

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
    host: "local",
    vmadm: (args, o) => runCommand(options.vmadm, args, o),
    zfs: (args, o) => runCommand(ZFS, args, o),
    nictagadm: (args, o) => runCommand(NICTAGADM, args, o),
    dladm: (args, o) => runCommand(DLADM, args, o),
    sysinfo: (args, o) => runCommand(SYSINFO, args, o),
    zonesRoot: absoluteFolder(options.zonesRoot),
    files: localFiles(),
    locks: openLocks(),
    dial: dialDirectly,
  };
}

/**
 * A host simulated by `zonewright simulate`, with real processes and listeners.
 * @param options `stateDir`: absolute folder of the simulated host, which holds `zones`; `name`: where there
 * are several
 * @throws {AgentError} `invalid_argument` when the folder is not absolute
 */
export function simulatedTransport(
  options: { self: SelfCommand; stateDir: string; name?: string },
): Transport {
  const { self, name = "simulated" } = options;
  const stateDir = absoluteFolder(options.stateDir);
  const simulate = (program: string): HostProgram => (args, o) => {
    const words = [...self.args, "simulate", "--state", stateDir, program, ...args];
    return runCommand(self.program, words, { ...o, env: { ...self.env, ...o.env } });
  };
  return {
    kind: "simulated",
    host: name,
    vmadm: simulate("vmadm"),
    zfs: simulate("zfs"),
    nictagadm: simulate("nictagadm"),
    dladm: simulate("dladm"),
    sysinfo: simulate("sysinfo"),
    zonesRoot: join(stateDir, "zones"),
    files: withQuotas(localFiles(), stateDir),
    locks: openLocks(),
    dial: dialDirectly,
  };
}

/** Decides when something may begin on a host. */
export interface HostGuard {
  /** Rejects when nothing may begin. */
  mayAct: () => Promise<void>;
}

/**
 * The same host, on which each command and change of a file waits for its guard; what has begun goes on, such as
 * a file that is being written. Its rename waits. A connection is not a change: it reads a banner, or is an operator's.
 * @returns with the host its guard, which allows everything until it is changed
 */
export function guardedTransport(
  transport: Transport,
): { readonly transport: Transport; readonly guard: HostGuard } {
  const guard: HostGuard = { mayAct: () => Promise.resolve() };
  const guarded =
    <Args extends unknown[], T>(act: (...args: Args) => Promise<T>) => async (...args: Args) => {
      await guard.mayAct();
      return await act(...args);
    };
  const { vmadm, zfs, nictagadm, dladm, sysinfo, files } = transport;
  const waiting = {
    ...transport,
    vmadm: guarded(vmadm),
    zfs: guarded(zfs),
    nictagadm: guarded(nictagadm),
    dladm: guarded(dladm),
    sysinfo: guarded(sysinfo),
    files: {
      ...files,
      create: guarded(files.create),
      moveWithin: guarded(files.moveWithin),
      removeWithin: guarded(files.removeWithin),
      remove: guarded(files.remove),
    },
  };
  return { transport: waiting, guard };
}

/**
 * An absolute folder in the form that the agent's paths begin with.
 * @throws {AgentError} `invalid_argument` when it is not absolute
 */
export function absoluteFolder(path: string): string {
  if (!isAbsolute(path)) {
    const message = `Cannot use ${JSON.stringify(path)} as a folder, expected an absolute path`;
    throw new AgentError("invalid_argument", message);
  }
  const normal = normalize(path);
  return normal.length > 1 && normal.endsWith("/") ? normal.slice(0, -1) : normal;
}
