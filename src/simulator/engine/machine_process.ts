// The process of one running machine: it plays the hypervisor in its zone, owns the VNC listener and any
// emulator, and ends when its machine is stopped or deleted, or its folder disappears. It runs in its own
// session, without its caller's streams. Signals are actions of the host:
//
//   SIGTERM  the power button: shut down, or be ended by the timer
//   SIGINT   the guest shuts down by itself
//   SIGHUP   reset: boot again with the same drives; `once` is spent
//   SIGUSR1  the VNC proxy restarts: the listener moves to another port
//   SIGKILL  halt

import { join } from "@std/path";
import { absent } from "../../runtime/regular_file.ts";
import { messageOf } from "../../domain/error.ts";
import { faultMs, spend, strikes } from "../fault.ts";
import { exists, sleep, type State, writeJson } from "../host_folder.ts";
import {
  announcePresence,
  changeMachine,
  halted,
  type Machine,
  machineFile,
  processFile,
  readMachine,
  zonepath,
} from "../machine.ts";
import { type Engine, hasTooManyDrives, type VncClient } from "./engine.ts";
import { FakeEngine } from "./fake.ts";
import { QemuEngine } from "./qemu.ts";

/** Milliseconds between two checks that the machine still exists. */
const WATCH_MS = 250;

/** Runs the machine until it ends. Returns the exit status of the hypervisor. */
export async function runMachine(state: State, uuid: string, bootId: string): Promise<number> {
  const machine = await readMachine(state, uuid);
  // This start was abandoned meanwhile, or another one was faster.
  if (machine?.boot?.id !== bootId || machine.state !== "ready") return 1;
  await beginLog(state, machine);
  const fatal = hasTooManyDrives(machine)
    ? "too many drives of model ide"
    : await strikes(state, "start_dies")
    ? "the fault start_dies ends this hypervisor"
    : null;
  if (fatal !== null) {
    await writeLog(state, machine, fatal);
    await changeMachine(state, uuid, (it) => halted(it, 1));
    return 1;
  }
  // Never closed here, so that only the end of this process closes it.
  const presence_port = announcePresence(bootId);
  await writeJson(processFile(state, uuid), { pid: Deno.pid, boot_id: bootId, presence_port });
  const hypervisor = new Hypervisor(state, uuid);
  const status = await hypervisor.run(machine).catch(async (error: unknown) => {
    await writeLog(state, machine, messageOf(error));
    return 1;
  });
  // A host folder may disappear while a machine ends: nothing is left to change.
  await changeMachine(state, uuid, (it) => {
    // The call that halts a machine by force marks it itself.
    if (it.boot?.id === bootId && it.state !== "stopped") halted(it, status);
  }).catch(absent);
  return status;
}

/** kvm empties its log at each start; bhyve appends to it. */
async function beginLog(state: State, machine: Machine): Promise<void> {
  if (machine.brand === "kvm") await Deno.writeTextFile(logFile(state, machine), "").catch(absent);
  else await Deno.mkdir(join(zonepath(state, machine.uuid), "logs"), { recursive: true });
  await writeLog(state, machine, "the simulated hypervisor begins");
}

/** The log of a machine's hypervisor: kvm's is in the zone, bhyve's beside its root. */
function logFile(state: State, { uuid, brand }: Machine): string {
  return join(zonepath(state, uuid), brand === "kvm" ? "root/tmp/vm.log" : "logs/platform.log");
}

/** kvm writes plain lines, bhyve one JSON object per line. */
async function writeLog(state: State, machine: Machine, text: string): Promise<void> {
  const record = { log: `${text}\n`, stream: "stderr", time: new Date().toISOString() };
  const line = machine.brand === "kvm" ? text : JSON.stringify(record);
  await Deno.writeTextFile(logFile(state, machine), `${line}\n`, { append: true }).catch(absent);
}

/** Opened at the start of a machine, closed at its end. */
class Hypervisor {
  readonly #state: State;
  readonly #uuid: string;
  readonly #engine: Engine;
  readonly #ended = Promise.withResolvers<number>();
  #listener: VncListener | null = null;

  constructor(state: State, uuid: string) {
    this.#state = state;
    this.#uuid = uuid;
    this.#engine = state.host.engine === "qemu"
      ? new QemuEngine(state, uuid)
      : new FakeEngine(state, uuid);
  }

  async run(machine: Machine): Promise<number> {
    Deno.addSignalListener("SIGTERM", () => this.#attempt(this.#powerButton()));
    Deno.addSignalListener("SIGINT", () => this.#ended.resolve(0));
    Deno.addSignalListener("SIGHUP", () => this.#attempt(this.#engine.reset()));
    Deno.addSignalListener("SIGUSR1", () => this.#attempt(this.#relisten()));
    try {
      await this.#engine.boot(machine);
      if (!await this.#announce(machine)) return 1;
      this.#attempt(this.#engine.ended.then((status) => this.#ended.resolve(status)));
      this.#attempt(this.#listenLater());
      const watch = setInterval(() => this.#attempt(this.#watch()), WATCH_MS);
      const status = await this.#ended.promise;
      clearInterval(watch);
      return status;
    } finally {
      this.#listener?.close();
      await this.#engine.close();
    }
  }

  /** Records that the machine runs; false if its start was abandoned before. */
  async #announce(machine: Machine): Promise<boolean> {
    let mine = false;
    await changeMachine(this.#state, this.#uuid, (it) => {
      mine = it.boot?.id === machine.boot?.id && it.state === "ready";
      if (!mine) return;
      it.state = "running";
      it.zone_state = "running";
      it.process = { pid: Deno.pid, port: null };
      it.boot_timestamp = new Date().toISOString();
      it.exit_status = null;
      it.exit_timestamp = null;
    });
    return mine;
  }

  /** A hypervisor that cannot continue ends with 1, as a crash does. */
  #attempt(work: Promise<void>): void {
    work.catch(() => this.#ended.resolve(1));
  }

  async #watch(): Promise<void> {
    if (!await exists(machineFile(this.#state, this.#uuid))) this.#ended.resolve(0);
  }

  async #listenLater(): Promise<void> {
    await spend(this.#state, "vnc");
    await this.#relisten();
  }

  /** Opens the listener, or moves it: open sessions stay. vnc_port -1 means none. */
  async #relisten(): Promise<void> {
    const machine = await readMachine(this.#state, this.#uuid);
    if (machine === null) return;
    this.#listener?.stopListening();
    this.#listener = null;
    const wanted = Number(machine.vm.vnc_port ?? 0);
    const spice = Number(machine.vm.spice_port ?? 0) > 0;
    let port: number | null = null;
    if (wanted >= 0 && !spice) {
      this.#listener = listenVnc({
        hostname: this.#state.host.admin_ip,
        port: wanted,
        behaviour: () => this.#behaviour(),
        serve: (conn, client) => this.#engine.serve(conn, client),
      });
      port = this.#listener.port;
      // The port stays recorded, but nothing listens on it.
      if (await strikes(this.#state, "vnc_refuse")) this.#listener.stopListening();
    }
    await changeMachine(this.#state, this.#uuid, (it) => {
      if (it.process !== null) it.process = { pid: it.process.pid, port };
    });
  }

  async #behaviour() {
    return {
      silent: await strikes(this.#state, "vnc_silent"),
      closes: await strikes(this.#state, "vnc_close"),
      old: await strikes(this.#state, "vnc_old"),
      delayMs: await faultMs(this.#state, "vnc_slow"),
    };
  }

  /** Asks the guest to shut down. On kvm, the timer for a guest that ignores this runs here. */
  async #powerButton(): Promise<void> {
    if (!await strikes(this.#state, "acpi_ignored")) await this.#engine.pressPowerButton();
    const machine = await readMachine(this.#state, this.#uuid);
    if (machine?.brand !== "kvm") return;
    await sleep(machine.stop_timeout_ms ?? this.#state.host.timeouts.stop);
    this.#ended.resolve(0);
  }
}

/** Clients at the same time; further ones are disconnected at once. */
const CLIENTS_MAX = 32;
/** Bytes of one read of a silent listener. */
const IGNORED_BYTES = 4096;

/** How a listener treats the next client. */
interface Behaviour {
  /** Accepts and stays silent, like a proxy whose hypervisor has no socket. */
  readonly silent: boolean;
  /** Accepts and closes at once, before the first byte. */
  readonly closes: boolean;
  readonly old: boolean;
  readonly delayMs: number;
}

/** Options for the console of one machine. */
interface VncOptions {
  readonly hostname: string;
  /** 0 lets the system choose. */
  readonly port: number;
  readonly behaviour: () => Promise<Behaviour>;
  /** Serves a client until one side ends; the connection is then closed. */
  readonly serve: (conn: Deno.Conn, client: VncClient) => Promise<void>;
}

/**
 * The host's VNC proxy, with its faults: accepts clients until it is closed. The VNC server behind
 * it belongs to the engine.
 */
interface VncListener {
  readonly port: number;
  /** Stops accepting; open sessions stay. */
  stopListening(): void;
  /** Ends the open sessions as well. */
  close(): void;
}

/** Listens on the host and port of the options. */
function listenVnc(options: VncOptions): VncListener {
  const listener = Deno.listen({ hostname: options.hostname, port: options.port });
  const clients = new Set<Deno.Conn>();
  let listening = true;
  const accept = async () => {
    for await (const conn of listener) {
      if (clients.size >= CLIENTS_MAX) {
        conn.close();
        continue;
      }
      clients.add(conn);
      serve(conn, options).catch(() => {}).finally(() => {
        clients.delete(conn);
        closeQuietly(conn);
      });
    }
  };
  // Closing the listener ends the loop with an error.
  accept().catch(() => {});
  const stopListening = () => {
    if (listening) listener.close();
    listening = false;
  };
  return {
    port: listener.addr.port,
    stopListening,
    close: () => {
      stopListening();
      for (const conn of clients) closeQuietly(conn);
    },
  };
}

async function serve(conn: Deno.Conn, options: VncOptions): Promise<void> {
  const behaviour = await options.behaviour();
  if (behaviour.closes) return;
  if (behaviour.silent) {
    const ignored = new Uint8Array(IGNORED_BYTES);
    while (await conn.read(ignored) !== null);
    return;
  }
  await sleep(behaviour.delayMs);
  await options.serve(conn, { old: behaviour.old });
}

function closeQuietly(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource)) throw error;
  }
}
