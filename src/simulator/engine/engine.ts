// The engine of a running machine: `fake` draws a picture of what was booted, `qemu` is an emulator that
// really boots it. host.json says which of them a host uses; every call reads it.

import { join } from "@std/path";
import { AgentError } from "../../domain/error.ts";
import { objectsIn } from "../../domain/json.ts";
import { changeHost, exists, type State } from "../host_folder.ts";
import { type BootedFrom, type Machine, zonepath } from "../machine.ts";
import { bootOrder } from "../vmadm/boot.ts";

/** The hypervisor of one machine, from its start to its end. */
export interface Engine {
  /** Settles with the exit status when the guest or the hypervisor ends by itself. */
  readonly ended: Promise<number>;
  /** Starts the guest. @throws when the hypervisor cannot run this machine */
  boot(machine: Machine): Promise<void>;
  /** Restarts the guest with the same drives; `once` no longer applies. */
  reset(): Promise<void>;
  /** Presses the power button; a guest that handles it shuts down. */
  pressPowerButton(): Promise<void>;
  /** Serves a VNC client until one side ends. */
  serve(conn: Deno.Conn, client: VncClient): Promise<void>;
  /** Ends the guest at once. */
  close(): Promise<void>;
}

/** How a client is treated. */
export interface VncClient {
  /** Whether it is offered RFB 3.3 only. */
  readonly old: boolean;
}

const ENGINES = ["fake", "qemu"] as const;
/** `fake` or `qemu`. @see docs/simulator.md, Engines */
type EngineName = typeof ENGINES[number];

const EMULATOR = "qemu-system-x86_64";

/**
 * Chooses the engine for machines that start from now on.
 * @param path folders to search for the emulator, as in PATH
 * @returns the chosen name; `auto` means qemu if it is installed
 * @throws {AgentError} `invalid_argument` for another word, `not_found` without the emulator
 */
export async function chooseEngine(
  state: State,
  word: string,
  path: string,
): Promise<EngineName> {
  if (word !== "fake" && word !== "qemu" && word !== "auto") {
    const message = `Cannot choose engine "${word}": expected fake, qemu or auto`;
    throw new AgentError("invalid_argument", message);
  }
  const emulator = word === "fake" ? null : await findProgram(EMULATOR, path);
  if (word === "qemu" && emulator === null) {
    throw new AgentError("not_found", `Cannot choose engine "qemu": no ${EMULATOR} on PATH`);
  }
  const engine: EngineName = emulator === null ? "fake" : "qemu";
  // Callers of vmadm clear the environment, so the path is stored.
  await changeHost(state, { engine, emulator: emulator ?? state.host.emulator });
  return engine;
}

async function findProgram(name: string, path: string): Promise<string | null> {
  for (const folder of path.split(":").filter((folder) => folder.startsWith("/"))) {
    const file = join(folder, name);
    const found = await Deno.stat(file).catch(() => null);
    if (found?.isFile && ((found.mode ?? 0) & 0o111) !== 0) return file;
  }
  return null;
}

// Decides what a guest does and shows, without side effects: which device it boots from, and the lines on its
// screen. A new disk is empty; typing `install` after booting a CD installs a system on it.

/** The device that a machine boots from, given the words of its start and the existing files. */
export async function bootDevice(
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

/** Most IDE drives; given more, qemu ends at once. */
const IDE_DRIVES_MAX = 4;

/**
 * Whether a machine has an IDE drive beyond the last place: drives are numbered in order, whatever their
 * models, with those of the start last.
 */
export function hasTooManyDrives(machine: Machine): boolean {
  const drives = [...objectsIn(machine.vm.disks), ...machine.boot?.files ?? []];
  return drives.some(({ model }, index) => model === "ide" && index >= IDE_DRIVES_MAX);
}

/** Whether the screen of a machine stays empty: bhyve's CSM firmware draws nothing. */
export function isBlind(machine: Machine): boolean {
  return machine.brand === "bhyve" && (machine.vm.bootrom ?? "bios") === "bios";
}

/** Lines of the screen after booting. */
export function greeting(machine: Machine, from: BootedFrom): string[] {
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
