// Disks and nics as create and `update add_*` receive them: the checks with specific messages, the
// defaults, and the checks against other machines.

import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import type { Brand, Machine } from "../machine.ts";
import { refusal } from "../outcome.ts";
import { volumeName } from "../pool.ts";
import { isIpv4, isSet } from "./property.ts";
import type { State } from "../state.ts";

/** Disk models by brand, in the order in which the tool lists them. */
const DISK_MODELS: Readonly<Record<Brand, readonly string[]>> = {
  kvm: ["virtio", "scsi", "ide"],
  bhyve: ["virtio", "ahci", "nvme"],
};

/** Names an improper disk model as create, update and start do. */
export function refuseDiskModel(brand: Brand, model: string): void {
  if (DISK_MODELS[brand].includes(model)) return;
  throw refusal(
    `"${model}" is not a valid disk model for ${brand} brand. Valid are: ` +
      DISK_MODELS[brand].join(","),
  );
}

/**
 * One disk with its defaults. `index` is its place among the machine's disks.
 * @throws {AgentError} `host`
 */
export function diskOf(
  state: State,
  machine: { uuid: string; brand: Brand },
  disk: JsonObject,
  index: number,
  firstModel: JsonValue | undefined,
): JsonObject {
  const media = disk.media ?? "disk";
  const model = disk.model ?? disk.disk_driver ?? (media === "cdrom" ? firstModel : undefined);
  if (typeof model !== "string") {
    throw refusal(`missing .model option for disk: ${JSON.stringify(disk)}`);
  }
  refuseDiskModel(machine.brand, model);
  const common = { boot: isSet(disk.boot), model, media };
  if (media === "cdrom" || disk.nocreate === true) {
    return { ...common, ...(disk.path === undefined ? {} : { path: disk.path }) };
  }
  const image = imageOf(state, disk);
  const size = Number(image?.size ?? disk.size);
  const volume = volumeName(state, machine.brand, machine.uuid, index);
  return {
    path: `/dev/zvol/rdsk/${volume}`,
    ...common,
    ...(image === null ? {} : { image_uuid: image.uuid, image_size: size }),
    zfs_filesystem: volume,
    zpool: state.host.pool.name,
    size,
    compression: disk.compression ?? "off",
    refreservation: Number(disk.refreservation ?? size),
    block_size: Number(disk.block_size ?? 8192),
    ...(machine.brand === "bhyve" ? bhyveDisk(disk, index) : {}),
  };
}

/** What disks of bhyve alone have; each has a uuid, of the caller's choice or a new one. */
function bhyveDisk(disk: JsonObject, index: number): JsonObject {
  const { guest_block_size, notrim } = disk;
  return {
    pci_slot: disk.pci_slot ?? `0:4:${index}`,
    uuid: disk.uuid ?? crypto.randomUUID(),
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

/**
 * One nic with its defaults, under its interface name.
 * @throws {AgentError} `host`
 */
export function nicOf(state: State, nic: JsonObject, index: number): JsonObject {
  const model = nic.model ?? nic.nic_driver;
  const shown = JSON.stringify(nic);
  if (model === undefined) throw refusal(`missing .model option for NIC: ${shown}`);
  if (nic.nic_tag === undefined) {
    throw refusal(`invalid or missing .nic_tag option for NIC: ${shown}`);
  }
  const addresses = addressesOf(nic, shown);
  if (!state.host.nic_tags.includes(String(nic.nic_tag))) {
    throw refusal(`Invalid nic tag "${String(nic.nic_tag)}"`);
  }
  const gateways = Array.isArray(nic.gateways)
    ? nic.gateways
    : nic.gateway === undefined
    ? []
    : [nic.gateway];
  const kept = Object.fromEntries(
    Object.entries(nic).filter(([name]) => !["primary", "nic_driver"].includes(name)),
  );
  return {
    interface: `net${index}`,
    mac: randomMac(),
    ...kept,
    model,
    ...(addresses.length === 0 ? {} : { ips: addresses }),
    ...(gateways.length === 0 ? {} : { gateway: gateways[0] ?? null, gateways }),
    // Only falsy values are removed, so the text "false" counts as set.
    ...(nic.primary ? { primary: true } : {}),
  };
}

function addressesOf(nic: JsonObject, shown: string): JsonValue[] {
  if (Array.isArray(nic.ips)) return nic.ips;
  if (nic.ip === undefined) return [];
  if (nic.ip === "dhcp" || nic.ip === "addrconf") return [nic.ip];
  if (!isIpv4(nic.ip)) throw refusal(`Invalid IP for NIC: ${shown}`);
  if (nic.netmask === undefined) throw refusal(`Missing .netmask option for NIC: ${shown}`);
  const prefix = prefixOf(nic.netmask);
  if (prefix === null) throw refusal(`Specified netmask value is invalid: ${String(nic.netmask)}`);
  return [`${nic.ip}/${prefix}`];
}

/** Bits of a netmask, or null when its ones are not together. */
function prefixOf(netmask: JsonValue): number | null {
  if (!isIpv4(netmask)) return null;
  const bits = netmask.split(".").map((part) => Number(part).toString(2).padStart(8, "0")).join("");
  return /^1*0*$/.test(bits) ? bits.replace(/0/g, "").length : null;
}

/** A random address of the locally administered kind that the tool's interpreter makes. */
function randomMac(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(5));
  const rest = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  return ["e2", ...rest].join(":");
}

/** Unknown tags of all nics at once, one line per tag. */
export function refuseUnknownTags(state: State, nics: readonly JsonObject[]): void {
  const tags = nics.map(({ nic_tag }) => nic_tag).filter((tag) => typeof tag === "string");
  const unknown = tags.filter((tag) => !state.host.nic_tags.includes(tag));
  if (unknown.length > 0) {
    throw refusal([...new Set(unknown)].map((tag) => `Invalid nic tag "${tag}"`).join("\n"));
  }
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
