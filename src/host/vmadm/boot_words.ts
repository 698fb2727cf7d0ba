// The arguments of `vmadm boot` after the uuid. vmadm passes the value of `order=` unchanged to qemu, so
// only a closed set of letters is accepted; paths are names in the zone's root.

import { invalidArgument } from "../../domain/error.ts";
import { BOOT_ORDER_WORDS } from "../../domain/machine/action.ts";
import { isMediaName } from "../../domain/machine/media.ts";

/** Letters as qemu reads them: c is the disk, d the CD, n the network; tried from left to right. */
export const BOOT_DEVICES = [
  "c",
  "d",
  "n",
  "cd",
  "cn",
  "dc",
  "dn",
  "nc",
  "nd",
  "cdn",
  "cnd",
  "dcn",
  "dnc",
  "ncd",
  "ndc",
] as const;

/** The options of a boot, not checked yet. */
interface BootChoice {
  /** One of BOOT_DEVICES. */
  order?: string;
  /** One letter: where the first boot of this run of the machine looks before `order`. */
  once?: string;
  /** `/name` of an ISO file in the zone's root. */
  cdrom?: string;
  /** `/name` of a raw disk image in the zone's root. */
  disk?: string;
}

/** What vmadm itself tries without an order: disk, then CD. */
const DEFAULT_ORDER = "cd";

/** The only bus that every kvm guest can boot a CD or a raw image from. */
const BUS = "ide";

/**
 * The arguments of one boot, such as `order=cd,once=d` and `cdrom=/install.iso,ide`.
 * @throws {AgentError} `invalid_argument` naming `order`, `once`, `cdrom` or `disk`
 * @see document 3, Endpoints
 */
export function bootWords({ order, once, cdrom, disk }: BootChoice): string[] {
  if (order !== undefined && !isBootDevice(order)) {
    throw invalidArgument(
      "order",
      `Cannot boot in order ${quoted(order)}: expected ${BOOT_ORDER_WORDS}`,
    );
  }
  if (once !== undefined && !(isBootDevice(once) && once.length === 1)) {
    const wanted = "c (disk), d (CD) or n (network)";
    throw invalidArgument("once", `Cannot boot once from ${quoted(once)}: expected ${wanted}`);
  }
  const words: string[] = [];
  // `once` is part of the value of `order`.
  if (once !== undefined) words.push(`order=${order ?? DEFAULT_ORDER},once=${once}`);
  else if (order !== undefined) words.push(`order=${order}`);
  if (cdrom !== undefined) words.push(`cdrom=${checkedPath("cdrom", cdrom)},${BUS}`);
  if (disk !== undefined) words.push(`disk=${checkedPath("disk", disk)},${BUS}`);
  return words;
}

function isBootDevice(text: string): boolean {
  return BOOT_DEVICES.some((device) => device === text);
}

function checkedPath(field: "cdrom" | "disk", path: string): string {
  if (path.startsWith("/") && isMediaName(path.slice(1))) return path;
  const message = `Cannot boot from ${quoted(path)}: expected "/" and a name of [A-Za-z0-9._-]`;
  throw invalidArgument(field, message);
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}
