// The state folder of a simulated host: the place of each file, atomic replacement, and the lock that parallel calls
// take to change it. docs/simulator.md lists the files. host.json, written with defaults at first use, holds the facts
// and delays of the host; every call reads it, and a test edits it.

import { isAbsolute, join, resolve } from "@std/path";
import { absent } from "../runtime/regular_file.ts";
import { AgentError } from "../domain/error.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { whileOpen } from "../runtime/run.ts";

/** Milliseconds that the host takes for each phase, before `factor` is applied. */
interface Delays {
  readonly factor: number;
  /** While the volumes are made. */
  readonly volumes: number;
  /** zonecfg, seen as state `configured`. */
  readonly configure: number;
  /** zoneadm install, seen as state `incomplete`. */
  readonly install: number;
  /** Until the provisioning flag is cleared, seen as state `provisioning`. */
  readonly provision: number;
  /** While zoneadm boots it, seen as state `ready`. */
  readonly boot: number;
  /** Between the start of a machine and its VNC listener. */
  readonly vnc: number;
  /** From the power button to the end of the guest's shutdown. */
  readonly shutdown: number;
  /** Halting a zone, seen as state `shutting_down`. */
  readonly halt: number;
  readonly delete: number;
}

/** Timeouts of the documented tool in milliseconds; a test may shorten them in host.json. */
interface Timeouts {
  /** Waiting for a machine to come up. */
  readonly start: number;
  /** Waiting for the provisioning flag with autoboot. */
  readonly provision: number;
  /** A graceful stop without `-t`, after which the machine is halted. */
  readonly stop: number;
  /** Waiting for the event that reports a change. */
  readonly event: number;
}

/** Facts of the simulated host. Sizes are MiB. */
interface Host {
  readonly uuid: string;
  /** The address of VNC listeners; on a real host, that of the admin network. */
  readonly admin_ip: string;
  readonly nic_tags: readonly string[];
  /** The `nic_tags` that are virtual switches without a link to the outside. */
  readonly etherstubs: readonly string[];
  /** The mtu of the links of `nic_tags`, bytes, if it is not 1500, or 9000 for an etherstub. */
  readonly nic_mtus: Readonly<Record<string, number>>;
  readonly pool: { readonly name: string; readonly size: number };
  /** Images that are imported, with the size of their volume. */
  readonly images: readonly { readonly uuid: string; readonly size: number }[];
  readonly bhyve: boolean;
  /** Logical processors, as sysinfo counts them. */
  readonly cpus: number;
  /** Memory of the host, MiB. */
  readonly ram: number;
  /** The engine of machines that start from now on (engine.ts). */
  readonly engine: "fake" | "qemu";
  /** Absolute path of the emulator that the engine qemu runs; empty if none was chosen. */
  readonly emulator: string;
  readonly delays: Delays;
  readonly timeouts: Timeouts;
}

/** A simulated host on disk. */
export interface State {
  readonly dir: string;
  readonly host: Host;
}

const DEFAULT_HOST: Omit<Host, "uuid"> = {
  admin_ip: "127.0.0.1",
  nic_tags: ["external", "admin"],
  etherstubs: [],
  nic_mtus: {},
  pool: { name: "zones", size: 1024 * 1024 },
  images: [],
  bhyve: true,
  cpus: 16,
  ram: 64 * 1024,
  engine: "fake",
  emulator: "",
  delays: {
    factor: 1,
    volumes: 0,
    configure: 0,
    install: 0,
    provision: 0,
    boot: 0,
    vnc: 0,
    shutdown: 0,
    halt: 0,
    delete: 0,
  },
  timeouts: { start: 300_000, provision: 300_000, stop: 180_000, event: 60_000 },
};

/** Opens the folder of a simulated host; a new one gets the default files. */
export async function openState(dir: string): Promise<State> {
  const absolute = isAbsolute(dir) ? dir : resolve(dir);
  for (const part of ["machines", "processes", "zones"]) {
    await Deno.mkdir(join(absolute, part), { recursive: true });
  }
  const file = join(absolute, "host.json");
  if (await readJson(file) === null) {
    await locked(absolute, async () => {
      if (await readJson(file) !== null) return;
      await writeJson(file, { uuid: crypto.randomUUID(), ...DEFAULT_HOST });
    });
  }
  return { dir: absolute, host: hostOf(await readJson(file) ?? {}) };
}

/** Fills in what an edited host.json leaves out. */
function hostOf(facts: JsonObject): Host {
  const delays = isJsonObject(facts.delays) ? facts.delays : {};
  const timeouts = isJsonObject(facts.timeouts) ? facts.timeouts : {};
  const pool = isJsonObject(facts.pool) ? facts.pool : {};
  // The folder is the tester's, who will notice a wrong type at once.
  return {
    ...DEFAULT_HOST,
    ...facts,
    pool: { ...DEFAULT_HOST.pool, ...pool },
    delays: { ...DEFAULT_HOST.delays, ...delays },
    timeouts: { ...DEFAULT_HOST.timeouts, ...timeouts },
  } as Host;
}

/** Changes facts of a host for later calls. */
export async function changeHost(state: State, facts: Partial<Host>): Promise<void> {
  const file = join(state.dir, "host.json");
  await locked(state.dir, async () => {
    await writeJson(file, { ...await readJson(file), ...facts });
  });
}

/** Runs a function while no other call changes this host. Not reentrant. */
export async function locked<T>(dir: string, run: () => Promise<T>): Promise<T> {
  const file = await Deno.open(join(dir, "lock"), { create: true, read: true, write: true });
  return await whileOpen(file, async () => {
    await file.lock(true);
    return await run();
  });
}

/**
 * The object in a JSON file, or null when there is no such file.
 * @throws {AgentError} `internal` when the file holds no object
 */
export async function readJson(file: string): Promise<JsonObject | null> {
  const text = await Deno.readTextFile(file).catch(absent);
  if (text === undefined) return null;
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) {
    throw new AgentError("internal", `Cannot read ${file}, expected a JSON object`);
  }
  return value;
}

/**
 * Replaces a JSON file as a whole. It is not flushed to the disk: a simulated host need not survive a power
 * loss of the real one.
 */
export async function writeJson(file: string, value: object): Promise<void> {
  const temporary = `${file}.${crypto.randomUUID()}.tmp`;
  await Deno.writeTextFile(temporary, JSON.stringify(value, null, 2) + "\n");
  await Deno.rename(temporary, file);
}

/** Whether a file or folder is there, without following a link at its end. @throws any other error of the system */
export async function exists(path: string): Promise<boolean> {
  try {
    await Deno.lstat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return false;
    }
    throw error;
  }
}

/** Names in a folder, sorted; none if the folder is gone. @throws any other error of the system */
export async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(folder)) names.push(entry.name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return names.sort();
}

/** Waits; 0 or less does not. */
export function sleep(ms: number): Promise<void> {
  return ms <= 0 ? Promise.resolve() : new Promise((done) => setTimeout(done, ms));
}
