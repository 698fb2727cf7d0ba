// The engine that boots nothing: it decides which device the guest would boot from, draws that as a picture,
// and obeys a few typed words. It needs no other program.

import { join } from "@std/path";
import { ByteReader } from "../console/byte_reader.ts";
import { bootDevice, type Engine, greeting, isBlind, type VncClient } from "./engine.ts";
import { spend } from "../fault.ts";
import { changeMachine, type Machine, readMachine } from "../machine.ts";
import { handshake } from "../console/handshake.ts";
import { RfbSession } from "../console/session.ts";
import { Screen } from "../console/screen.ts";
import type { State } from "../host_folder.ts";

/** Keys and pointer positions that are logged for one start. */
const INPUTS_MAX = 10_000;
/** Most characters of a typed line. */
const LINE_MAX = 200;
/** Key symbols of X11, which RFB uses. */
const BACKSPACE = 0xff08;
const RETURN = 0xff0d;
const KEYPAD_ENTER = 0xff8d;

/** Made for one start of a machine. */
export class FakeEngine implements Engine {
  readonly ended: Promise<number>;
  readonly #end = Promise.withResolvers<number>();
  readonly #state: State;
  readonly #uuid: string;
  readonly #screen = new Screen();
  #name = "";
  #brand = "";
  #bootPassword = "";
  #onceSpent = false;
  #line = "";
  #inputs = 0;
  #inputsTaken: Promise<void> = Promise.resolve();

  constructor(state: State, uuid: string) {
    this.#state = state;
    this.#uuid = uuid;
    this.ended = this.#end.promise;
  }

  async boot(machine: Machine): Promise<void> {
    this.#name = `${String(machine.vm.alias ?? machine.uuid)} (${machine.uuid})`;
    this.#brand = machine.brand;
    this.#bootPassword = String(machine.vm.vnc_password ?? "");
    await this.#bootGuest(machine);
  }

  async reset(): Promise<void> {
    this.#onceSpent = true;
    const machine = await readMachine(this.#state, this.#uuid);
    if (machine !== null) await this.#bootGuest(machine);
  }

  async pressPowerButton(): Promise<void> {
    await spend(this.#state, "shutdown");
    this.#end.resolve(0);
  }

  async serve(conn: Deno.Conn, { old }: VncClient): Promise<void> {
    const reader = new ByteReader(conn);
    const password = await this.#password();
    if (!await handshake(conn, reader, { name: this.#name, password, old })) return;
    const session = new RfbSession(conn, reader, this.#screen, {
      onKey: (keysym) => this.#queue(() => this.#key(keysym)),
      onPointer: (x, y, buttons) => this.#queue(() => this.#log({ pointer: { x, y, buttons } })),
    });
    await session.run();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async #bootGuest(machine: Machine): Promise<void> {
    const from = await bootDevice(this.#state, machine, this.#onceSpent);
    this.#line = "";
    this.#screen.show(isBlind(machine) ? [] : greeting(machine, from), from.kind);
    await changeMachine(this.#state, this.#uuid, (it) => it.booted = from);
  }

  /** On kvm, a password set at boot can be changed live; without one at boot, a new one has no effect. */
  async #password(): Promise<string> {
    if (this.#bootPassword === "" || this.#brand !== "kvm") return this.#bootPassword;
    const machine = await readMachine(this.#state, this.#uuid);
    return String(machine?.vm.vnc_password ?? "");
  }

  /** Handles inputs one after another, in order of arrival. */
  #queue(take: () => Promise<void>): void {
    this.#inputsTaken = this.#inputsTaken.then(take);
    // A hypervisor that cannot continue ends with 1, as a crash does.
    this.#inputsTaken.catch(() => this.#end.resolve(1));
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
    if (line === "poweroff") return this.#end.resolve(0);
    if (line === "reboot") return await this.reset();
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
