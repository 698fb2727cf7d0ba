// Disks as create and `update add_disks` receive them: the checks with specific messages, the defaults,
// and what machines may not share.

import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import type { Brand, Machine } from "../machine.ts";
import { refusal } from "../outcome.ts";
import { volumeName } from "../pool.ts";
import { isSet } from "./property.ts";
import type { State } from "../host_folder.ts";

/** Disk models by brand, in the order in which the tool lists them. */
const DISK_MODELS: Readonly<Record<Brand, readonly string[]>> = {
  kvm: ["virtio", "scsi", "ide"],
  bhyve: ["virtio", "ahci", "nvme"],
};
/** In the order in which the tool lists them. */
const COMPRESSIONS: readonly unknown[] = [
  ...["on", "off", "gzip", ...Array.from({ length: 9 }, (_, level) => `gzip-${level + 1}`)],
  ...["lz4", "lzjb", "zle"],
];
/** From 512 bytes to 128 KiB. */
const BLOCK_SIZES: readonly number[] = Array.from({ length: 9 }, (_, power) => 512 * 2 ** power);

/**
 * Names an improper disk model as create, update and start do.
 * @throws {AgentError} as refusal() for a model that the brand does not have
 */
export function refuseDiskModel(brand: Brand, model: string): void {
  if (DISK_MODELS[brand].includes(model)) return;
  throw refusal(
    `"${model}" is not a valid disk model for ${brand} brand. Valid are: ` +
      DISK_MODELS[brand].join(","),
  );
}

/** @throws {AgentError} `host` naming what has the setting, such as `type for x` */
export function refuseCompression(setting: JsonValue | undefined, what: string): void {
  if (COMPRESSIONS.includes(setting)) return;
  throw refusal(`invalid compression ${what}, must be one of: ${COMPRESSIONS.join(", ")}`);
}

/** Whether zfs takes it as the size of a block or record. */
export function isBlockSize(bytes: JsonValue | undefined): boolean {
  return BLOCK_SIZES.includes(Number(bytes));
}

/** A disk with the properties that the tool adds before it checks any. */
export function draftDisk(disk: JsonObject, defaultModel: JsonValue | undefined): JsonObject {
  return {
    ...disk,
    ...(disk.model === undefined && defaultModel !== undefined ? { model: defaultModel } : {}),
    ...(disk.media === undefined ? { media: "disk" } : {}),
  };
}

/** Where bhyve puts a disk: the device of its PCI bus 0, by what it is. */
const PCI_DEVICES: Readonly<Record<string, number>> = { cdrom: 3, disk: 4 };
/** The host bridge, the nics, the screen and the ISA bridge. */
const PCI_RESERVED: readonly number[] = [0, 6, 30, 31];
const PCI_FUNCTIONS = 8;

/**
 * Disks of bhyve with their PCI slots and uuids, those that they have and new ones.
 * @param others disks that the machine has already
 * @throws {AgentError} `host` with the tool's words
 */
export function withSlots(
  disks: readonly JsonObject[],
  others: readonly JsonObject[],
): JsonObject[] {
  const taken = new Map<string, JsonValue | undefined>();
  const take = ({ pci_slot, path }: JsonObject) => {
    if (pci_slot === undefined) return;
    const [bus, device, at] = slotOf(String(pci_slot));
    const key = `${bus}:${device}:${at}`;
    if (bus === 0 && PCI_RESERVED.includes(device)) {
      throw refusal(`pci_slot "${pci_slot}" invalid: PCI device ${device} is reserved`);
    }
    if (taken.has(key)) {
      const paths = `"${String(taken.get(key))}" and "${String(path)}`;
      throw refusal(`VM has multiple disks in pci_slot "${pci_slot}": ${paths}`);
    }
    taken.set(key, path);
  };
  refuseSecondBoot(disks);
  for (const disk of [...others, ...disks]) take(disk);
  const uuids = others.map(({ uuid }) => uuid);
  return disks.map((disk) => {
    const slotted = { ...disk, pci_slot: disk.pci_slot ?? freeSlot(disk, taken) };
    const { uuid = crypto.randomUUID() } = disk;
    if (uuids.includes(uuid)) throw refusal(`duplicate disk uuid ${String(uuid)}`);
    uuids.push(uuid);
    return { ...slotted, uuid };
  });
}

function refuseSecondBoot(disks: readonly JsonObject[]): void {
  const [, second] = disks.filter(({ boot }) => isSet(boot));
  if (second === undefined) return;
  const { path, pci_slot } = second;
  const name = path !== undefined
    ? `path=${path}`
    : pci_slot !== undefined
    ? `pci_slot=${pci_slot}`
    : `"${JSON.stringify(second)}"`;
  // Of the first one it remembers only that it boots.
  throw refusal(`multiple boot disks: ""true"" and "${name}"`);
}

function freeSlot({ media }: JsonObject, taken: Map<string, JsonValue | undefined>): string {
  const device = PCI_DEVICES[String(media)];
  for (let at = 0; device !== undefined && at < PCI_FUNCTIONS; at += 1) {
    const slot = `0:${device}:${at}`;
    if (taken.has(slot)) continue;
    taken.set(slot, undefined);
    return slot;
  }
  throw refusal(
    `VM has no PCI bus or slot assigned for ${String(media)} devices; ` +
      "automatic pci_slot assignment not possible",
  );
}

/** Reads `device`, `device:function` or `bus:device:function`. */
function slotOf(slot: string): [bus: number, device: number, at: number] {
  const parts = slot.split(":").map((part) => /^\d{1,3}$/.test(part) ? Number(part) : NaN);
  const [bus = 0, device = NaN, at = 0] = parts.length === 3 ? parts : [0, ...parts];
  if (parts.length <= 3 && bus <= 255 && device <= 31 && at < PCI_FUNCTIONS) {
    return [bus, device, at];
  }
  throw refusal(`pci_slot "${slot}" is not valid`);
}

/**
 * Checks one disk that is to be made.
 * @throws {AgentError} `host` with the tool's words
 */
export function refuseDisk(brand: Brand, disk: JsonObject): void {
  const { path, media, nocreate, block_size, compression, model } = disk;
  if (path !== undefined && media !== "cdrom" && !isSet(nocreate)) {
    throw refusal("you cannot specify a path for a disk unless you set nocreate=true");
  }
  if (block_size !== undefined && !isBlockSize(block_size)) {
    throw refusal(`invalid .block_size(${block_size}), must be 512-131072 and a power of 2.`);
  }
  if (compression !== undefined) refuseCompression(compression, "setting for disk");
  if (typeof model !== "string" || model === "undefined") {
    throw refusal(`missing .model option for disk: ${JSON.stringify(disk)}`);
  }
  refuseDiskModel(brand, model);
}

/**
 * A checked disk as the machine has it. `index` is its place among the machine's disks.
 * @throws {AgentError} `host` when its image is missing
 */
export function diskOf(
  state: State,
  machine: { uuid: string; brand: Brand },
  disk: JsonObject,
  index: number,
): JsonObject {
  const { media = "disk", model = null } = disk;
  const common = { boot: isSet(disk.boot), model, media };
  if (media === "cdrom" || isSet(disk.nocreate)) {
    return {
      ...(disk.path === undefined ? {} : { path: disk.path }),
      ...common,
      ...(machine.brand === "bhyve" ? bhyveDisk(disk) : {}),
    };
  }
  const image = imageOf(state, disk);
  const size = Number(image?.size ?? disk.size);
  const volume = volumeName(state, machine.brand, machine.uuid, index);
  return {
    path: `/dev/zvol/rdsk/${volume}`,
    ...common,
    ...(image === null ? {} : { image_uuid: image.uuid, image_size: size }),
    ...(machine.brand === "bhyve" ? bhyveDisk(disk) : {}),
    zfs_filesystem: volume,
    zpool: state.host.pool.name,
    size,
    compression: disk.compression ?? "off",
    refreservation: Number(disk.refreservation ?? size),
    block_size: Number(disk.block_size ?? 8192),
  };
}

/** What disks of bhyve alone have. */
function bhyveDisk({ pci_slot, uuid, guest_block_size, notrim }: JsonObject): JsonObject {
  return {
    ...(pci_slot === undefined ? {} : { pci_slot }),
    ...(uuid === undefined ? {} : { uuid }),
    ...(guest_block_size === undefined ? {} : { guest_block_size }),
    ...(isSet(notrim) ? { notrim: true } : {}),
  };
}

function imageOf(state: State, disk: JsonObject): { uuid: string; size: number } | null {
  if (disk.image_uuid === undefined) return null;
  const image = state.host.images.find(({ uuid }) => uuid === disk.image_uuid);
  // The wording is the simulator's own.
  if (image === undefined) throw refusal(`Image ${String(disk.image_uuid)} not found`);
  return image;
}

/** What a nic claims for itself alone: MAC, address on its network, VRID on its network. */
function claimsOf(vm: JsonObject): string[] {
  const claims: string[] = [];
  for (const nic of objectsIn(vm.nics)) {
    const network = `${nic.nic_tag}/${nic.vlan_id ?? 0}`;
    claims.push(`mac ${String(nic.mac).toLowerCase()}`);
    for (const ip of Array.isArray(nic.ips) ? nic.ips : []) {
      if (ip !== "dhcp") claims.push(`ip ${network} ${String(ip).split("/")[0]}`);
    }
    if (nic.vrrp_vrid !== undefined) claims.push(`vrid ${network} ${nic.vrrp_vrid}`);
  }
  if (Number(vm.vnc_port) > 0) claims.push(`vnc_port ${vm.vnc_port}`);
  return claims;
}

/**
 * Refuses a machine whose MAC, address, VRID or VNC port another machine has.
 * @throws {AgentError} `host`
 */
export function refuseConflict(
  vm: JsonObject,
  others: readonly Machine[],
  forced = false,
): void {
  const taken = new Set(others.flatMap((other) => claimsOf(other.vm)));
  if (forced || claimsOf(vm).some((claim) => taken.has(claim))) {
    throw refusal(
      "Conflict detected with another vm, please check the MAC, IP, and VRID",
    );
  }
}
