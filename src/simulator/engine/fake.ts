// The engine that boots nothing: it decides which device the guest would boot from, draws that as a picture, and
// obeys a few typed words. It needs no other program. A new disk is empty; typing `install` after booting a CD
// installs a system on it.

import { join } from "@std/path";
import { ByteReader } from "../console/byte_reader.ts";
import { handshake } from "../console/handshake.ts";
import { Screen } from "../console/screen.ts";
import { spend } from "../fault.ts";
import { exists, type State } from "../host_folder.ts";
import { type BootedFrom, changeMachine, type Machine, readMachine, zonepath } from "../machine.ts";
import { type Engine, isBlind, type VncClient } from "./engine.ts";
import { RfbSession } from "./rfb_session.ts";
import { objectsIn } from "../../domain/json.ts";
import { bootOrder } from "../vmadm/boot.ts";

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

/** The device that a machine boots from, given the words of its start and the existing files. */
async function bootDevice(
  state: State,
  machine: Machine,
  onceSpent: boolean,
): Promise<BootedFrom> {
  const disk = await bootableDisk(state, machine);
  const cd = await firstFile(state, machine, "cdrom");
  // bhyve's firmware tries the disk, then the CD; it has no boot order.
  const order = machine.brand === "kvm" ? bootOrder(machine.boot?.order ?? null, onceSpent) : "cd";
  for (const letter of order) {
    if (letter === "c" && disk !== null) return { kind: "disk", path: disk };
    if (letter === "d" && cd !== null) return { kind: "cd", path: cd };
  }
  return { kind: "nothing" };
}

/** The machine's own boot disk if something is installed on it, else an image file given at boot. */
async function bootableDisk(state: State, machine: Machine): Promise<string | null> {
  if (machine.installed) {
    const disks = objectsIn(machine.vm.disks).filter(({ media }) => media !== "cdrom");
    const own = disks.find(({ boot }) => boot === true) ?? disks[0];
    if (own !== undefined) return String(own.path);
  }
  return await firstFile(state, machine, "disk");
}

/**
 * The first existing file of a kind in the zone root: first those of the start's words, then of the disks.
 */
async function firstFile(
  state: State,
  machine: Machine,
  media: "cdrom" | "disk",
): Promise<string | null> {
  const given = (machine.boot?.files ?? []).filter((file) => file.media === media);
  const own = objectsIn(machine.vm.disks).filter((disk) =>
    disk.media === media && disk.zfs_filesystem === undefined
  );
  for (const { path } of [...given, ...own]) {
    if (typeof path !== "string") continue;
    if (await exists(join(zonepath(state, machine.uuid), "root") + path)) return path;
  }
  return null;
}

/** Lines of the screen after booting. */
function greeting(machine: Machine, from: BootedFrom): string[] {
  const order = machine.boot?.order ?? null;
  const words = order === null ? "" : ` ${order.replaceAll(",", " ")}`;
  const title = String(machine.vm.alias ?? machine.vm.hostname ?? machine.uuid);
  const facts = [
    `machine  ${title}`,
    `uuid     ${machine.uuid}`,
    `brand    ${machine.brand}, ${machine.vm.vcpus} vcpus, ${machine.vm.ram} MiB`,
    ...objectsIn(machine.vm.nics).map((nic) => `nic      ${nic.model} ${nic.mac}`),
    "",
  ];
  switch (from.kind) {
    case "cd":
      return [
        `Booted from CD ${from.path}${words}`,
        "",
        ...facts,
        "Type install, reboot or poweroff, then Enter.",
        "> ",
      ];
    case "disk":
      return [
        `Booted from disk ${from.path}${words}`,
        "",
        ...facts,
        "Type reboot or poweroff, then Enter.",
        "> ",
      ];
    case "nothing":
      return [`No bootable device${words}`, "", ...facts];
  }
}
