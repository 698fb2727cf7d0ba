// The disks of a machine: each disk, the models of each brand, and the rules of the list as a whole.

import { orDigits, uuid } from "../description/formats.ts";
import type { Description, Findings } from "../description/description.ts";
import { type Fields, object, type Relation } from "../description/object.ts";
import {
  about,
  each,
  flag,
  kept,
  named,
  oneNumber,
  oneOf,
  only,
  text,
} from "../description/value.ts";
import { isJsonObject, type JsonObject, objectsIn } from "../json.ts";
import {
  allowedFields,
  boundedList,
  boundedSize,
  type MachineBrand,
  type Policy,
  refusedBy,
} from "../policy.ts";
import { REFUSED_DISK_PROPERTIES } from "./refused_properties.ts";

/** @see vmadm(8), disks.*.model */
const DISK_MODELS: Readonly<Record<MachineBrand, readonly string[]>> = {
  kvm: ["virtio", "scsi", "ide"],
  bhyve: ["virtio", "ahci", "nvme"],
};
/** The models that at least one brand has. */
export const ALL_DISK_MODELS: readonly string[] = [...new Set(Object.values(DISK_MODELS).flat())];

/**
 * IDE drives of a machine. vmadm numbers the drives of a kvm machine in order, whatever their models; drives given at
 * boot follow. The hypervisor exits at once if an ide drive has a higher number, and an old report says that it
 * cannot read a CD in the last place.
 * @see TritonDataCenter/smartos-live#331
 */
export const IDE_PLACES = 4;
const BLOCK_BYTES_MIN = 512;
const BLOCK_BYTES_MAX = 131_072;
/** The compression algorithms of zfs that vmadm accepts. */
export const ZFS_COMPRESSIONS: readonly string[] = [
  ...["off", "on", "lz4", "lzjb", "zle", "gzip"],
  ...Array.from({ length: 9 }, (_, index) => `gzip-${index + 1}`),
];
const BLOCK_SIZES = powersOfTwo(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
const BLOCK_SIZE = `(?:${BLOCK_SIZES.map(sixDigits).join("|")})`;
/** One size, or a logical and a physical one. */
const GUEST_BLOCKS = new RegExp(`^${BLOCK_SIZE}(?:/${BLOCK_SIZE})?$`);
const PCI_DEVICE = "(?:[0-2]?[0-9]|3[01])";
const PCI_FUNCTION = "0?[0-7]";
/** `bus:device:function`, `device:function` or only `device`. */
const PCI_SLOT = new RegExp(
  "^(?:(?:(?:[01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5]):)?" +
    `${PCI_DEVICE}:${PCI_FUNCTION}|${PCI_DEVICE})$`,
);
/** Devices of PCI bus 0 that bhyve itself uses. */
const PCI_DEVICES_TAKEN = [0, 6, 30, 31];
const PCI_TAKEN = `0{0,1}(?:${PCI_DEVICES_TAKEN.join("|")})`;
const PCI_SLOT_FREE = new RegExp(
  `^(?!(?:0{1,3}:)?${PCI_TAKEN}:[0-9]+$|${PCI_TAKEN}$)`,
);

/** A pattern of a size in at most six digits. */
function sixDigits(size: number): string {
  return `0{0,${6 - `${size}`.length}}${size}`;
}

/** The powers of two of a range. */
function powersOfTwo(min: number, max: number): number[] {
  const powers = Array.from({ length: 32 }, (_, exponent) => 2 ** exponent);
  return powers.filter((power) => power >= min && power <= max);
}

/** A power of two of a range, both ends of which are powers of two. */
export function powerOfTwo(min: number, max: number): Description<number> {
  return orDigits(oneNumber(powersOfTwo(min, max), `a power of two from ${min} to ${max}`));
}

/** One new, empty disk. @param brand that of the machine; without it, a disk of either brand */
function disk(policy: Policy, brand: MachineBrand | undefined): Description<JsonObject> {
  const fields: Fields = {
    boot: about("For one disk at most.", flag),
    model: oneOf(brand === undefined ? ALL_DISK_MODELS : DISK_MODELS[brand]),
    size: about("MiB.", boundedSize(policy, "diskMiBMax")),
    media: about("The medium of the request is separate.", only("disk", "disk")),
    compression: oneOf(ZFS_COMPRESSIONS),
    refreservation: about(
      "MiB, at most `size`.",
      boundedSize(policy, "diskMiBMax", { min: 0 }),
    ),
    block_size: about("Bytes.", powerOfTwo(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)),
    ...OF_BHYVE,
  };
  const own = withoutOther(fields, DISK_BRANDS, brand);
  return object(allowedFields(own, policy.diskProperties), {
    required: ["model", "size"],
    refused: refusedFor(fields, DISK_BRANDS, brand, refusedBy(fields, REFUSED_DISK_PROPERTIES)),
    relations: [RESERVATION],
  });
}

const OF_BHYVE: Fields = {
  guest_block_size: about(
    "Bytes that the guest sees: one size, or the logical and the physical one.",
    text(
      GUEST_BLOCKS,
      'a text of one or two powers of two, such as "4096" or "512/4096"',
    ),
  ),
  notrim: flag,
  pci_slot: about(
    "For one disk at most, and not one that bhyve itself uses.",
    kept(
      each(
        text(PCI_SLOT, "bus:device:function, such as 0:4:1"),
        text(
          PCI_SLOT_FREE,
          `a slot that bhyve has not taken itself: device ${PCI_DEVICES_TAKEN.join(", ")} of bus 0`,
        ),
      ),
      wholeSlot,
    ),
  ),
  uuid: about("For one disk at most.", uuid),
};

/** The brand of each disk property that only one brand has. */
const DISK_BRANDS: Readonly<Record<string, MachineBrand>> = Object.fromEntries(
  Object.keys(OF_BHYVE).map((name) => [name, "bhyve"]),
);

/** Leaves out the fields of the other brand; `owners` names the brand of fields that only one has. */
export function withoutOther(
  fields: Fields,
  owners: Readonly<Record<string, MachineBrand>>,
  brand: MachineBrand | undefined,
): Fields {
  return Object.fromEntries(
    Object.entries(fields).filter(([name]) => !isOfOther(name, owners, brand)),
  );
}

function isOfOther(
  name: string,
  owners: Readonly<Record<string, MachineBrand>>,
  brand: MachineBrand | undefined,
): boolean {
  return brand !== undefined && Object.hasOwn(owners, name) && owners[name] !== brand;
}

/** Explains a field of the other brand, which vmadm would drop silently. */
export function refusedFor(
  fields: Fields,
  owners: Readonly<Record<string, MachineBrand>>,
  brand: MachineBrand | undefined,
  otherwise: (name: string) => string | undefined,
): (name: string) => string | undefined {
  return (name) =>
    Object.hasOwn(fields, name) && isOfOther(name, owners, brand)
      ? `is only for machines of brand ${owners[name]}`
      : otherwise(name);
}

/** A slot with all three numbers; omitted ones are 0. */
function wholeSlot(slot: string): string {
  const [first = 0, second, third] = slot.split(":").map(Number);
  if (third !== undefined) return `${first}:${second}:${third}`;
  return `0:${first}:${second ?? 0}`;
}

const RESERVATION: Relation = {
  check({ refreservation, size }, field, findings) {
    if (typeof refreservation !== "number" || typeof size !== "number") return;
    if (refreservation <= size) return;
    const words = `must not be over the size of ${size} MiB, found ${refreservation}`;
    findings.add(`${field}.refreservation`, "Invalid", words, "reservation");
  },
};

const SCHEMA_NAMES: Readonly<Record<MachineBrand, string>> = { kvm: "KvmDisk", bhyve: "BhyveDisk" };

/** The disks of a new machine. */
export function disks(
  policy: Policy,
  brand: MachineBrand | undefined,
): Description<(JsonObject | null)[]> {
  return boundedList(
    policy,
    "disksMax",
    brand === undefined ? disk(policy, brand) : named(SCHEMA_NAMES[brand], disk(policy, brand)),
    "disks",
  );
}

/** Rules between the disks of one machine. */
export function diskRelations(brand: MachineBrand | undefined): readonly Relation[] {
  return [
    atMostOf(
      "disks",
      1,
      { boot: { const: true } },
      ({ boot }) => boot === true,
      (found) => `must have at most one disk with boot: found ${found}`,
    ),
    ...(brand === "kvm" ? [IDE_FIRST] : []),
    DISTINCT,
  ];
}

/** Not stated by the schema: a request, which also has a medium, allows fewer disks. */
const IDE_FIRST: Relation = {
  check({ disks }, field, findings) {
    for (const [index, disk] of (Array.isArray(disks) ? disks : []).entries()) {
      if (index < IDE_PLACES || !isJsonObject(disk) || disk.model !== "ide") continue;
      const words = `must not be ide: only the first ${IDE_PLACES} disks have a place there`;
      findings.add(`${field}.disks[${index}].model`, "Invalid", words);
    }
  },
};

/** Keeps an IDE place free for the medium of a kvm machine. */
export const PLACE_FOR_MEDIUM: Relation = {
  check({ disks }, field, findings) {
    const found = Array.isArray(disks) ? disks.length : 0;
    if (found < IDE_PLACES) return;
    const words =
      `must hold at most ${IDE_PLACES - 1} disks of a kvm machine: with more of them IDE has ` +
      `no place for the medium, and the hypervisor ends; found ${found}`;
    findings.add(`${field}.disks`, "Invalid", words);
  },
  schema: { properties: { disks: { maxItems: IDE_PLACES - 1 } } },
};

/** At most so many items of a list are of some kind, which a schema of their fields states too. */
export function atMostOf(
  name: string,
  max: number,
  properties: JsonObject,
  isOne: (item: JsonObject) => boolean,
  words: (found: number) => string,
): Relation {
  const contains = { properties, required: Object.keys(properties) };
  return {
    check(object, field, findings) {
      const found = objectsIn(object[name]).filter(isOne).length;
      if (found > max) findings.add(`${field}.${name}`, "Invalid", words(found));
    },
    schema: { properties: { [name]: { contains, minContains: 0, maxContains: max } } },
  };
}

const DISTINCT: Relation = {
  check({ disks }, field, findings) {
    for (const name of ["pci_slot", "uuid"]) refuseDoubles(objectsIn(disks), field, name, findings);
  },
};

function refuseDoubles(
  disks: readonly JsonObject[],
  field: string,
  name: string,
  findings: Findings,
): void {
  const given = disks.map((one) => one[name]).filter((value) => value !== undefined);
  const double = given.find((value, index) => given.indexOf(value) !== index);
  if (double === undefined) return;
  const words = `must not have two disks with the same ${name}: found ${double} twice`;
  findings.add(`${field}.disks`, "Invalid", words, "distinct_disks");
}
