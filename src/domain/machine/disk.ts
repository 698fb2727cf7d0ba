// The disks of a machine: shape, models per brand, and what only the list as a whole can tell.

import { type Check, type Findings, flag, oneOf, readObject, uuid } from "../field_check.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { atMost, type Policy, refusedBy } from "../policy.ts";
import { REFUSED_DISK_PROPERTIES } from "./refused_properties.ts";

/** A brand that the policy knows. */
export type Brand = Policy["brands"][number];

/** @see vmadm(8), disks.*.model */
export const DISK_MODELS: Readonly<Record<Brand, readonly string[]>> = {
  kvm: ["virtio", "scsi", "ide"],
  bhyve: ["virtio", "ahci", "nvme"],
};
/** Those that some brand has. */
export const ALL_DISK_MODELS: readonly string[] = [...new Set(Object.values(DISK_MODELS).flat())];

/**
 * IDE has four places and qemu numbers drives in order: behind three disks a CD may not be readable,
 * behind four qemu ends at once.
 * @see TritonDataCenter/smartos-live#331
 */
const IDE_DISKS_MAX = 2;
const BLOCK_BYTES_MIN = 512;
const BLOCK_BYTES_MAX = 131_072;
/** How vmadm lets zfs compress a dataset. */
export const COMPRESSIONS: readonly string[] = [
  ...["off", "on", "lz4", "lzjb", "zle", "gzip"],
  ...Array.from({ length: 9 }, (_, index) => `gzip-${index + 1}`),
];
/** One size, or the logical and the physical one; both are powers of two. */
const GUEST_BLOCKS = /^(\d{3,6})(?:\/(\d{3,6}))?$/;
/** `bus:device:function`, `device:function` or `device`. */
const PCI_SLOT = /^(?:(?:(\d{1,3}):)?(\d{1,2}):)?(\d{1,2})$/;
const PCI_BUS_MAX = 255;
const PCI_DEVICE_MAX = 31;
const PCI_FUNCTION_MAX = 7;
/** Devices of bus 0 that bhyve itself has. */
const PCI_DEVICES_TAKEN = [0, 6, 30, 31];

/** The check of one disk that vmadm is to make, an empty one: never of an image. */
export function diskCheck(policy: Policy, brand: Brand | undefined): Check {
  const models = brand === undefined ? ALL_DISK_MODELS : DISK_MODELS[brand];
  const checks: Record<string, Check> = {
    boot: flag,
    model: oneOf(models),
    size: atMost(policy, "diskMiBMax"),
    media: oneOf(["disk"]),
    compression: oneOf(COMPRESSIONS),
    refreservation: atMost(policy, "diskMiBMax", { min: 0 }),
    block_size: powerOfTwo(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
    guest_block_size: onlyFor("bhyve", brand, guestBlocks),
    notrim: onlyFor("bhyve", brand, flag),
    pci_slot: onlyFor("bhyve", brand, pciSlot),
    uuid: onlyFor("bhyve", brand, uuid),
  };
  const refused = refusedBy(policy.diskProperties, Object.keys(checks), REFUSED_DISK_PROPERTIES);
  const shape = { checks, required: ["model", "size"], refused };
  return (value, field, findings) => readObject(value, field, shape, findings);
}

/** A power of two in a range, both ends of which are powers of two. */
export function powerOfTwo(min: number, max: number): Check {
  return (value, field, findings) => {
    if (isPowerOfTwo(value, min, max)) return value;
    findings.add(field, "Invalid", `must be a power of two from ${min} to ${max}`);
    return undefined;
  };
}

function isPowerOfTwo(value: unknown, min: number, max: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max &&
    (value & (value - 1)) === 0;
}

/**
 * A property that machines of one brand have. vmadm drops it silently on the other; whoever wrote it
 * should know. Without a `brand` it is taken.
 */
export function onlyFor(owner: Brand, brand: Brand | undefined, check: Check): Check {
  return (value, field, findings) => {
    if (brand === undefined || brand === owner) return check(value, field, findings);
    findings.add(field, "Invalid", `is only for machines of brand ${owner}`);
    return undefined;
  };
}

const guestBlocks: Check = (value, field, findings) => {
  const [, ...sizes] = typeof value === "string" ? GUEST_BLOCKS.exec(value) ?? [] : [];
  const given = sizes.filter((size) => size !== undefined).map(Number);
  const fits = given.length > 0 &&
    given.every((size) => isPowerOfTwo(size, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX));
  if (fits && typeof value === "string") return value;
  const words = 'must be a text of one or two powers of two, such as "4096" or "512/4096"';
  findings.add(field, "Invalid", words);
  return undefined;
};

const pciSlot: Check = (value, field, findings) => {
  const slot = typeof value === "string" ? slotOf(value) : null;
  if (slot === null) {
    findings.add(field, "Invalid", "must be bus:device:function, such as 0:4:1");
    return undefined;
  }
  if (slot.bus === 0 && PCI_DEVICES_TAKEN.includes(slot.device)) {
    const words = `must not be on device ${PCI_DEVICES_TAKEN.join(", ")} of bus 0: bhyve has these`;
    findings.add(field, "Invalid", words);
    return undefined;
  }
  return `${slot.bus}:${slot.device}:${slot.fn}`;
};

/** The numbers of a slot; what is left out is 0. */
function slotOf(text: string): { bus: number; device: number; fn: number } | null {
  const parts = PCI_SLOT.exec(text);
  if (parts === null) return null;
  const [, first, second, last = "0"] = parts;
  const [bus, device, fn] = second === undefined
    ? [0, Number(last), 0]
    : [Number(first ?? 0), Number(second), Number(last)];
  const fits = bus <= PCI_BUS_MAX && device <= PCI_DEVICE_MAX && fn <= PCI_FUNCTION_MAX;
  return fits ? { bus, device, fn } : null;
}

/** What is wrong with the disks of a machine together. */
export function checkDisks(
  disks: readonly unknown[],
  brand: Brand | undefined,
  field: string,
  findings: Findings,
): void {
  const objects = disks.filter(isJsonObject);
  const boot = objects.filter((disk) => disk.boot === true).length;
  if (boot > 1) {
    findings.add(field, "Invalid", `must have at most one disk with boot: found ${boot}`);
  }
  const ide = objects.filter((disk) => disk.model === "ide").length;
  if (brand === "kvm" && ide > IDE_DISKS_MAX) {
    const words = `must have at most ${IDE_DISKS_MAX} disks of model ide, since the medium needs ` +
      `an IDE place of its own: found ${ide}`;
    findings.add(field, "Invalid", words);
  }
  const slots = objects.map(({ pci_slot }) => pci_slot)
    .map((slot) => typeof slot === "string" ? JSON.stringify(slotOf(slot)) : undefined);
  refuseDoubles(slots, field, "pci_slot", findings);
  refuseDoubles(objects.map(({ uuid }) => uuid), field, "uuid", findings);
  for (const [index, disk] of disks.entries()) {
    if (isJsonObject(disk)) checkReservation(disk, `${field}[${index}]`, findings);
  }
}

function refuseDoubles(
  values: readonly unknown[],
  field: string,
  name: string,
  findings: Findings,
): void {
  const given = values.filter((value) => value !== undefined);
  if (new Set(given).size === given.length) return;
  findings.add(field, "Invalid", `must not have two disks with the same ${name}`);
}

function checkReservation(disk: JsonObject, field: string, findings: Findings): void {
  const { refreservation, size } = disk;
  if (typeof refreservation === "number" && typeof size === "number" && refreservation > size) {
    findings.add(`${field}.refreservation`, "Invalid", `must not be over the size of ${size} MiB`);
  }
}
