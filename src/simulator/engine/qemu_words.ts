// The command line of the emulator for one machine, decided without doing anything: drives, the order
// in which they are tried, and a screen. There is no network, and nothing that needs the processor's
// help: it is slow, and runs wherever the emulator is installed.

import { objectsIn } from "../../domain/json.ts";
import { isBlind } from "./guest.ts";
import type { BootFile, Machine } from "../machine.ts";
import { volumeOf } from "../pool.ts";

/** Names of the sockets, in the folder that the emulator runs in. */
export const VNC_SOCKET = "vm.vnc";
/** The control socket. */
export const QMP_SOCKET = "vm.qmp";

/** Where the bytes of drives are. */
export interface DriveFiles {
  /** The file that stands for a volume. */
  volume(name: string): string;
  /** A file in the zone, by its path as the machine sees it. */
  inZone(path: string): string;
}

/** The words after the program. @throws {RangeError} when a path cannot be told to the emulator */
export function qemuWords(machine: Machine, files: DriveFiles): string[] {
  const isKvm = machine.brand === "kvm";
  const password = String(machine.vm.vnc_password ?? "") === "" ? "" : ",password=on";
  return [
    ...["-name", `zonewright-${machine.uuid}`, "-nodefaults", "-no-user-config"],
    // A bhyve machine has AHCI, which is what this emulator's IDE is on a q35.
    ...["-accel", "tcg", "-machine", isKvm ? "pc" : "q35", "-cpu", "max"],
    ...["-m", String(machine.vm.ram), "-smp", String(machine.vm.vcpus)],
    ...["-nic", "none", "-vga", isBlind(machine) ? "none" : "std"],
    ...["-display", "none", "-vnc", `unix:${VNC_SOCKET}${password}`],
    ...["-qmp", `unix:${QMP_SOCKET},server=on,wait=off`],
    ...["-device", "virtio-scsi-pci,id=scsi"],
    ...["-boot", isKvm ? machine.boot?.order ?? "order=cd" : "order=cd"],
    ...drivesOf(machine, files).flatMap(driveWords),
  ];
}

interface Drive {
  readonly file: string;
  readonly model: string;
  readonly media: "cdrom" | "disk";
  /** What the guest writes is forgotten at its end. */
  readonly isVolatile: boolean;
  /** Tried before everything else. */
  readonly isFirst: boolean;
}

/** Files of the start before the machine's own disks: a CD is tried in the order they have. */
function drivesOf(machine: Machine, files: DriveFiles): Drive[] {
  const given = (machine.boot?.files ?? []).map((file): Drive => ({
    ...file,
    file: files.inZone(file.path),
    isVolatile: true,
    // Which disk the real firmware prefers is not documented.
    isFirst: file.media === "disk",
  }));
  const own = objectsIn(machine.vm.disks).flatMap((disk): Drive[] => {
    const volume = volumeOf(disk);
    // A drive without a path is a device without a medium.
    if (volume === null && typeof disk.path !== "string") return [];
    const media: BootFile["media"] = disk.media === "cdrom" ? "cdrom" : "disk";
    const file = volume === null ? files.inZone(String(disk.path)) : files.volume(volume);
    return [{
      file,
      model: String(disk.model),
      media,
      isVolatile: volume === null,
      isFirst: false,
    }];
  });
  return [...given, ...own];
}

const DEVICES: Readonly<Record<string, Readonly<Record<Drive["media"], string>>>> = {
  ide: { disk: "ide-hd", cdrom: "ide-cd" },
  ahci: { disk: "ide-hd", cdrom: "ide-cd" },
  scsi: { disk: "scsi-hd,bus=scsi.0", cdrom: "scsi-cd,bus=scsi.0" },
  virtio: { disk: "virtio-blk-pci", cdrom: "virtio-blk-pci" },
  nvme: { disk: "nvme", cdrom: "nvme" },
};

function driveWords({ file, model, media, isVolatile, isFirst }: Drive, index: number): string[] {
  const id = `drive${index}`;
  const device = DEVICES[model]?.[media];
  if (device === undefined) throw new RangeError(`Cannot emulate a disk of model ${model}`);
  // A comma ends a word of the emulator unless it is doubled.
  const path = file.replaceAll(",", ",,");
  const writes = media === "cdrom" ? ",readonly=on" : isVolatile ? ",snapshot=on" : "";
  const serial = model === "nvme" ? `,serial=${id}` : "";
  return [
    ...["-drive", `if=none,id=${id},format=raw,file=${path}${writes}`],
    ...["-device", `${device},drive=${id}${serial}${isFirst ? ",bootindex=0" : ""}`],
  ];
}
