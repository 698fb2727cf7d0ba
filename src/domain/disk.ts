// The disks of a machine: shape, models per brand, and what only the list as a whole can tell.

import { type Check, type Findings, flag, oneOf, readObject } from "./field_check.ts";
import { isJsonObject, type JsonObject } from "./json.ts";
import { OTHER_DISK_PROPERTIES, type Policy, refusedBy } from "./policy.ts";
import { atMost } from "./policy_check.ts";

/** A brand that the policy knows. */
export type Brand = Policy["brands"][number];

/** @see vmadm(8), disks.*.model */
export const DISK_MODELS: Readonly<Record<Brand, readonly string[]>> = {
  kvm: ["virtio", "scsi", "ide"],
  bhyve: ["virtio", "ahci", "nvme"],
};

/**
 * IDE has four places and qemu numbers drives in order: behind three disks a CD may not be readable,
 * behind four qemu ends at once.
 * @see TritonDataCenter/smartos-live#331
 */
const IDE_DISKS_MAX = 2;
const BLOCK_BYTES_MIN = 512;
const BLOCK_BYTES_MAX = 131_072;
const COMPRESSIONS = ["off", "on", "lz4", "lzjb", "zle", "gzip"];
const GZIP_LEVELS = Array.from({ length: 9 }, (_, index) => `gzip-${index + 1}`);

/** The check of one disk that vmadm is to make, an empty one: never of an image. */
export function diskCheck(policy: Policy, brand: Brand | undefined): Check {
  const models = brand === undefined
    ? [...new Set(Object.values(DISK_MODELS).flat())]
    : DISK_MODELS[
      brand
    ];
  const checks: Record<string, Check> = {
    boot: flag,
    model: oneOf(models),
    size: atMost(policy, "diskMiBMax"),
    compression: oneOf([...COMPRESSIONS, ...GZIP_LEVELS]),
    refreservation: atMost(policy, "diskMiBMax", { min: 0 }),
    block_size: blockSize,
  };
  const refused = refusedBy(policy.diskProperties, Object.keys(checks), OTHER_DISK_PROPERTIES);
  const shape = { checks, required: ["model", "size"], refused };
  return (value, field, findings) => readObject(value, field, shape, findings);
}

const blockSize: Check = (value, field, findings) => {
  const fits = typeof value === "number" && Number.isInteger(value) &&
    value >= BLOCK_BYTES_MIN && value <= BLOCK_BYTES_MAX && (value & (value - 1)) === 0;
  if (fits) return value;
  const words = `must be a power of two from ${BLOCK_BYTES_MIN} to ${BLOCK_BYTES_MAX}`;
  findings.add(field, "Invalid", words);
  return undefined;
};

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
  for (const [index, disk] of disks.entries()) {
    if (isJsonObject(disk)) checkReservation(disk, `${field}[${index}]`, findings);
  }
}

function checkReservation(disk: JsonObject, field: string, findings: Findings): void {
  const { refreservation, size } = disk;
  if (typeof refreservation === "number" && typeof size === "number" && refreservation > size) {
    findings.add(`${field}.refreservation`, "Invalid", `must not be over the size of ${size} MiB`);
  }
}
