// The process of one running machine: it stands for the hypervisor in its zone, owns the VNC
// listener, and ends when its machine is stopped, deleted, or has no folder any more. It is started
// in its own session with no streams of its caller. Signals are what the host does to it:
//
//   SIGTERM  the power button: shut down, or be ended by the timer
//   SIGINT   the guest shuts down by itself
//   SIGHUP   reset: boot again with the same drives; `once` is spent
//   SIGUSR1  the VNC proxy restarts: the listener moves to another port
//   SIGKILL  halt

import { join } from "@std/path";
import { faultMs, spend, strikes } from "./fault.ts";
import { bootDevice, greeting, hasTooManyDrives, isBlind } from "./guest.ts";
import {
  changeMachine,
  halted,
  type Machine,
  machineFile,
  processFile,
  readMachine,
} from "./machine.ts";
import { announcePresence } from "./presence.ts";
import { listenVnc, type VncListener } from "./rfb_server.ts";
import { Screen } from "./screen.ts";
import { exists, sleep, type State, writeJson } from "./state.ts";

/** Between two looks whether the machine is still there, ms. */
const WATCH_MS = 250;
/** Keys and pointer positions that are logged of one start. */
const INPUTS_MAX = 10_000;
/** Characters of a typed line that are kept. */
const LINE_MAX = 200;

/** Runs the machine until it ends. Returns the exit status of the hypervisor. */
export async function runMachine(state: State, uuid: string, bootId: string): Promise<number> {
  const machine = await readMachine(state, uuid);
  // A start that was given up meanwhile, or another start that came first.
  if (machine?.boot?.id !== bootId || machine.state !== "ready") return 1;
  if (hasTooManyDrives(machine) || await strikes(state, "start_dies")) {
    await changeMachine(state, uuid, (it) => halted(it, 1));
    return 1;
  }
  // Never closed: the end of this process closes it, and not a moment before.
  const presence_port = announcePresence(bootId);
  await writeJson(processFile(state, uuid), { pid: Deno.pid, boot_id: bootId, presence_port });
  const hypervisor = new Hypervisor(state, uuid);
  const status = await hypervisor.run(machine);
  await changeMachineIfThere(state, uuid, (it) => {
    // A machine that is being halted by force is marked by the call that does it.
    if (it.boot?.id === bootId && it.state !== "stopped") halted(it, status);
  });
  return status;
}

/** The folder of the host may be gone while a machine ends; there is then nothing to change. */
async function changeMachineIfThere(
  state: State,
  uuid: string,
  change: (machine: Machine) => void,
): Promise<void> {
  try {
    await changeMachine(state, uuid, change);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** Opened at the start of a machine, closed at its end. */
class Hypervisor {
  readonly #state: State;
  readonly #uuid: string;
  readonly #screen = new Screen();
  readonly #ended = Promise.withResolvers<number>();
  #listener: VncListener | null = null;
  #machine: Machine | null = null;
  #bootPassword = "";
  #onceSpent = false;
  #line = "";
  #inputs = 0;
  #inputsTaken: Promise<void> = Promise.resolve();

  constructor(state: State, uuid: string) {
    this.#state = state;
    this.#uuid = uuid;
  }

  async run(machine: Machine): Promise<number> {
    this.#machine = machine;
    this.#bootPassword = String(machine.vm.vnc_password ?? "");
    Deno.addSignalListener("SIGTERM", () => this.#attempt(this.#powerButton()));
    Deno.addSignalListener("SIGINT", () => this.#ended.resolve(0));
    Deno.addSignalListener("SIGHUP", () => this.#attempt(this.#reset()));
    Deno.addSignalListener("SIGUSR1", () => this.#attempt(this.#relisten()));
    await this.#bootGuest();
    if (!await this.#announce(machine)) return 1;
    this.#attempt(this.#listenLater());
    const watch = setInterval(() => this.#attempt(this.#watch()), WATCH_MS);
    const status = await this.#ended.promise;
    clearInterval(watch);
    this.#listener?.close();
    return status;
  }

  /** Says that the machine runs; false when its start was given up meanwhile. */
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

  /** Inputs are taken one after another, in the order in which they came. */
  #queue(take: () => Promise<void>): void {
    this.#inputsTaken = this.#inputsTaken.then(take);
    this.#attempt(this.#inputsTaken);
  }

  /** A hypervisor that cannot go on ends with 1, as a crash does. */
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
    this.#machine = machine;
    this.#listener?.stopListening();
    this.#listener = null;
    const wanted = Number(machine.vm.vnc_port ?? 0);
    const spice = Number(machine.vm.spice_port ?? 0) > 0;
    let port: number | null = null;
    if (wanted >= 0 && !spice) {
      this.#listener = listenVnc({
        hostname: this.#state.host.admin_ip,
        port: wanted,
        name: `${String(machine.vm.alias ?? machine.uuid)} (${machine.uuid})`,
        password: () => this.#password(),
        screen: this.#screen,
        behaviour: () => this.#behaviour(),
        onKey: (keysym) => this.#queue(() => this.#key(keysym)),
        onPointer: (x, y, buttons) => this.#queue(() => this.#log({ pointer: { x, y, buttons } })),
      });
      port = this.#listener.port;
      // The port stays known, and nobody is behind it.
      if (await strikes(this.#state, "vnc_refuse")) this.#listener.stopListening();
    }
    await changeMachine(this.#state, this.#uuid, (it) => {
      if (it.process !== null) it.process = { pid: it.process.pid, port };
    });
  }

  /** A password that was set at boot may change live on kvm; one that was not stays without effect. */
  async #password(): Promise<string> {
    if (this.#bootPassword === "" || this.#machine?.brand !== "kvm") return this.#bootPassword;
    const machine = await readMachine(this.#state, this.#uuid);
    return String(machine?.vm.vnc_password ?? "");
  }

  async #behaviour() {
    return {
      silent: await strikes(this.#state, "vnc_silent"),
      closes: await strikes(this.#state, "vnc_close"),
      old: await strikes(this.#state, "vnc_old"),
      delayMs: await faultMs(this.#state, "vnc_slow"),
    };
  }

  async #bootGuest(): Promise<void> {
    const machine = await readMachine(this.#state, this.#uuid) ?? this.#machine;
    if (machine === null) return;
    const from = await bootDevice(this.#state, machine, this.#onceSpent);
    const lines = isBlind(machine) ? [] : greeting(machine, from);
    this.#line = "";
    this.#screen.show(lines, from.kind);
    await changeMachine(this.#state, this.#uuid, (it) => it.booted = from);
  }

  async #reset(): Promise<void> {
    this.#onceSpent = true;
    await this.#bootGuest();
  }

  async #powerButton(): Promise<void> {
    const machine = await readMachine(this.#state, this.#uuid);
    if (await strikes(this.#state, "acpi_ignored")) {
      // The timer of kvm is here, so that it goes on without the call that started it.
      if (machine?.brand !== "kvm") return;
      await sleep(machine.stop_timeout_ms ?? this.#state.host.timeouts.stop);
    } else await spend(this.#state, "shutdown");
    this.#ended.resolve(0);
  }

  async #key(keysym: number): Promise<void> {
    await this.#log({ key: keysym });
    const character = keysym >= 0x20 && keysym <= 0x7e ? String.fromCharCode(keysym) : "";
    if (character !== "" && this.#line.length < LINE_MAX) {
      this.#line += character;
      this.#screen.type(character);
    } else if (keysym === BACKSPACE && this.#line !== "") {
      this.#line = this.#line.slice(0, -1);
      this.#screen.backspace();
    } else if (keysym === RETURN || keysym === KEYPAD_ENTER) {
      const line = this.#line.trim();
      this.#line = "";
      await this.#obey(line);
    }
  }

  async #obey(line: string): Promise<void> {
    if (line === "poweroff") return this.#ended.resolve(0);
    if (line === "reboot") return await this.#reset();
    if (line === "install") {
      await changeMachine(this.#state, this.#uuid, (it) => it.installed = true);
      this.#screen.type("\nInstalled on the boot disk. Type reboot.");
    }
    this.#screen.type("\n> ");
  }

  async #log(input: object): Promise<void> {
    this.#inputs += 1;
    if (this.#inputs > INPUTS_MAX) return;
    const file = join(this.#state.dir, "processes", `${this.#uuid}.input`);
    await Deno.writeTextFile(file, JSON.stringify(input) + "\n", { append: true });
  }
}

/** Key symbols of X11, which RFB uses. */
const BACKSPACE = 0xff08;
const RETURN = 0xff0d;
const KEYPAD_ENTER = 0xff8d;
