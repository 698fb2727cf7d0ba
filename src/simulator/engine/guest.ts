// Decides what a guest does and shows, without side effects: which device it boots from, and the lines on its
// screen. A new disk is empty; typing `install` after booting a CD installs a system on it.

import { join } from "@std/path";
import { objectsIn } from "../../domain/json.ts";
import { bootOrder } from "../vmadm/boot.ts";
import { type BootedFrom, type Machine, zonepath } from "../machine.ts";
import { exists, type State } from "../host_folder.ts";

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
