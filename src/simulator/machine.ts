// One machine of the simulated host: its record, and the process that plays its hypervisor.
//
//   configured -> incomplete -> provisioning -> stopped <-> ready -> running -> stopping -> stopped
//                      (create)          \-> failed          (boot)       \-> shutting_down ^
//
// A record says "running" only while the machine's process answers (isAlive below), so when a hypervisor dies,
// in whatever way, the next reader finds the machine stopped; nothing has to watch it.

import { join } from "@std/path";
import type { JsonObject } from "../domain/json.ts";
import { writeAll } from "../domain/bytes.ts";
import { locked, namesIn, readJson, type State, writeJson } from "./host_folder.ts";

/** The brands that are simulated. */
export type Brand = "kvm" | "bhyve";
/** What users see. @see vmadm(8), states */
type MachineState =
  | "configured"
  | "incomplete"
  | "provisioning"
  | "stopped"
  | "ready"
  | "running"
  | "stopping"
  | "shutting_down"
  | "failed";
/** The state of the zone in the kernel's words. */
type ZoneState =
  | "configured"
  | "incomplete"
  | "installed"
  | "ready"
  | "running"
  | "shutting_down";

/** A file named at boot, relative to the zone root. */
export interface BootFile {
  readonly path: string;
  readonly model: string;
  readonly media: "cdrom" | "disk";
}

/** The words of the last start. */
export interface Boot {
  /** New at each start, to recognize the process of an older start. */
  readonly id: string;
  readonly started_ms: number;
  /** qemu's -boot text, such as `order=cd,once=d`; null if neither the words nor the property set one. */
  readonly order: string | null;
  readonly files: readonly BootFile[];
}

/** The device that a guest booted from. */
export type BootedFrom =
  | { readonly kind: "cd"; readonly path: string }
  | { readonly kind: "disk"; readonly path: string }
  | { readonly kind: "nothing" };

/** What the process of a running machine has reported. */
interface Process {
  readonly pid: number;
  /** The port of the VNC listener; null while there is none. */
  readonly port: number | null;
}

/** States of a machine that has a process, or is about to. */
export const UP: readonly MachineState[] = ["ready", "running", "stopping", "shutting_down"];

/** A machine as stored in its file. */
export interface Machine {
  readonly uuid: string;
  readonly brand: Brand;
  /** Configuration with the names that `get` prints, disks and nics included. */
  vm: JsonObject;
  state: MachineState;
  zone_state: ZoneState;
  /** When to give up provisioning, milliseconds since 1970. */
  transition_expire: number | null;
  boot: Boot | null;
  process: Process | null;
  /** The device of the last start or reset; null before the first. */
  booted: BootedFrom | null;
  boot_timestamp: string | null;
  exit_timestamp: string | null;
  /** May be negative or above 255. */
  exit_status: number | null;
  /** Milliseconds that a guest has to stop before it is halted. */
  stop_timeout_ms: number | null;
  /** Whether something bootable has been installed on the boot disk. */
  installed: boolean;
}

/** How long a start may be in state `ready` without a process before it counts as dead, milliseconds. */
const READY_MS_MAX = 10_000;
/** The exit status of a killed hypervisor: the number of the signal. */
export const KILLED = 9;

/** Where the record of a machine is stored. */
export function machineFile(state: State, uuid: string): string {
  return join(state.dir, "machines", `${uuid}.json`);
}

/** The file in which the process of a machine reports its pid and its port. */
export function processFile(state: State, uuid: string): string {
  return join(state.dir, "processes", `${uuid}.json`);
}

/** The absolute zonepath of a machine. */
export function zonepath(state: State, uuid: string): string {
  return join(state.dir, "zones", uuid);
}

/** The machine as it is now, or null when there is none. */
export async function readMachine(state: State, uuid: string): Promise<Machine | null> {
  const machine = await readRecord(state, uuid);
  if (machine === null || !await isStale(state, machine)) return machine;
  return await changeMachine(state, uuid, () => {});
}

/** Every machine of the state folder, oldest first. */
export async function readMachines(state: State): Promise<Machine[]> {
  const machines: Machine[] = [];
  for (const name of await namesIn(join(state.dir, "machines"))) {
    if (!name.endsWith(".json")) continue;
    const machine = await readMachine(state, name.slice(0, -".json".length));
    if (machine !== null) machines.push(machine);
  }
  return machines.sort((a, b) => createdAt(a).localeCompare(createdAt(b)));
}

function createdAt(machine: Machine): string {
  return String(machine.vm.create_timestamp);
}

/** Changes a machine under the host's lock and returns it; null if it no longer exists. */
export function changeMachine(
  state: State,
  uuid: string,
  change: (machine: Machine) => void,
): Promise<Machine | null> {
  return locked(state.dir, async () => {
    const machine = await readRecord(state, uuid);
    if (machine === null) return null;
    if (await isStale(state, machine)) settle(machine);
    change(machine);
    await writeJson(machineFile(state, uuid), machine);
    return machine;
  });
}

async function readRecord(state: State, uuid: string): Promise<Machine | null> {
  const record: object | null = await readJson(machineFile(state, uuid));
  // Only this program writes it, and replaces it as a whole.
  return record as Machine | null;
}

/** Whether a record is outdated, because its process has died or its time is up. */
async function isStale(state: State, machine: Machine): Promise<boolean> {
  switch (machine.state) {
    case "running":
    case "stopping":
    case "shutting_down":
      return !await isAlive(state, machine.uuid);
    case "ready":
      return Date.now() - (machine.boot?.started_ms ?? 0) > READY_MS_MAX &&
        !await isAlive(state, machine.uuid);
    case "provisioning":
      return machine.transition_expire !== null && Date.now() > machine.transition_expire;
    default:
      return false;
  }
}

function settle(machine: Machine): void {
  if (machine.state === "provisioning") {
    machine.state = "failed";
    machine.transition_expire = null;
    return;
  }
  halted(machine, KILLED);
}

/** Marks a machine as stopped, with the exit status of its hypervisor. */
export function halted(machine: Machine, exitStatus: number): void {
  machine.state = "stopped";
  machine.zone_state = "installed";
  machine.process = null;
  machine.stop_timeout_ms = null;
  machine.exit_status = exitStatus;
  machine.exit_timestamp = new Date().toISOString();
}

/** Whether the process of a machine is alive. */
export async function isAlive(state: State, uuid: string): Promise<boolean> {
  const process = await readJson(processFile(state, uuid));
  if (process === null) return false;
  return await isPresent(Number(process.presence_port), String(process.boot_id));
}

/** Sends a signal to the process of a machine, if it lives. @throws any other error of the system */
export async function signalMachine(
  state: State,
  machine: Machine,
  signal: Deno.Signal,
): Promise<void> {
  if (machine.process === null || !await isAlive(state, machine.uuid)) return;
  try {
    Deno.kill(machine.process.pid, signal);
  } catch (error) {
    // It ended since the check.
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

const HOSTNAME = "127.0.0.1";
/** Longest wait for an answer, milliseconds: a slow process must not count as dead. */
const ANSWER_MS = 10_000;
/** Most bytes read of an answer. */
const ANSWER_BYTES_MAX = 64;

/**
 * Answers every connection with a word while this process lives: a pid is not enough, since pids
 * are reused and a dead process may keep its pid as a zombie.
 * @returns the port, on which nothing answers once the process has ended, for any reason
 */
export function announcePresence(word: string): number {
  const listener = Deno.listen({ hostname: HOSTNAME, port: 0 });
  const answer = async () => {
    for await (const conn of listener) {
      await writeAll(conn, new TextEncoder().encode(word)).catch(() => {});
      conn.close();
    }
  };
  answer().catch(() => {});
  return listener.addr.port;
}

/** Whether the process that announced this word on this port is alive. */
async function isPresent(port: number, word: string): Promise<boolean> {
  let conn: Deno.TcpConn;
  try {
    conn = await Deno.connect({ hostname: HOSTNAME, port });
  } catch (error) {
    // Reset, or no longer connected: it died between connection and answer.
    const { ConnectionRefused, ConnectionReset, NotConnected } = Deno.errors;
    const gone = [ConnectionRefused, ConnectionReset, NotConnected];
    if (gone.some((kind) => error instanceof kind)) return false;
    throw error;
  }
  const timer = setTimeout(() => conn.close(), ANSWER_MS);
  try {
    const bytes = new Uint8Array(ANSWER_BYTES_MAX);
    let length = 0;
    while (length < bytes.length) {
      const count = await conn.read(bytes.subarray(length));
      if (count === null) break;
      length += count;
    }
    return new TextDecoder().decode(bytes.subarray(0, length)) === word;
  } catch (error) {
    // It died during the check, or is silent: only the end of the connection proves its death.
    return error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted;
  } finally {
    clearTimeout(timer);
    try {
      conn.close();
    } catch {
      // The timer has closed it.
    }
  }
}
