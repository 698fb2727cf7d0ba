// The arguments of vmadm.boot() and media.remove() that name files: paths as they are seen from
// inside the zone. host/boot_words.ts makes the words of the command of them.

import { invalidArgument } from "../domain/error.ts";
import { oneOf, openFindings, readObject, refuseFindings } from "../domain/field_check.ts";
import type { JsonValue } from "../domain/json.ts";
import { mediumPath, parseMediaName } from "../domain/machine/media.ts";
import { BOOT_DEVICES } from "../host/vmadm/boot_words.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";

/** What one boot is asked for. */
export type BootArguments = Parameters<Vmadm["boot"]>[1];

/**
 * Reads `{order, once, cdrom, disk}`, all of them optional.
 * @throws {AgentError} `invalid_argument` naming the field
 */
export function parseBootArguments(value: JsonValue | undefined): BootArguments {
  const findings = openFindings();
  // The first boot looks at one device, then `order` holds.
  const single = BOOT_DEVICES.filter((word) => word.length === 1);
  const checks = {
    order: oneOf(BOOT_DEVICES),
    once: oneOf(single),
    cdrom: mediumPath,
    disk: mediumPath,
  };
  const read = readObject(value ?? {}, "boot", { checks, required: [] }, findings) ?? {};
  refuseFindings(findings, "boot arguments");
  const args: BootArguments = {};
  const order = BOOT_DEVICES.find((word) => word === read.order);
  const once = BOOT_DEVICES.find((word) => word === read.once);
  if (order !== undefined) args.order = order;
  if (once !== undefined) args.once = once;
  if (typeof read.cdrom === "string") args.cdrom = read.cdrom;
  if (typeof read.disk === "string") args.disk = read.disk;
  return args;
}

/**
 * The name of a medium in the root of a zone, given as `/name` or `name`.
 * @throws {AgentError} `invalid_argument` naming `field`
 */
export function parseZoneFile(value: JsonValue | undefined, field: string): string {
  if (typeof value !== "string") {
    throw invalidArgument(field, `Cannot read ${field}: expected the path of a medium in the zone`);
  }
  return parseMediaName(value.startsWith("/") ? value.slice(1) : value, field);
}
