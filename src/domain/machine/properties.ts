// The properties of a machine that are read alike when it is made and when it is changed. Each has a
// type and bounds here; those of sizes come from the policy.

import { type Brand, COMPRESSIONS, onlyFor, powerOfTwo } from "./disk.ts";
import {
  type Check,
  type Findings,
  flag,
  integer,
  listOf,
  oneOf,
  text,
  uuid,
} from "../field_check.ts";
import { isCidr, isIpv4, isIpv6 } from "../ip_address.ts";
import { isJsonObject, type JsonObject } from "../json.ts";
import { atMost, type Policy } from "../policy.ts";

const RESOLVERS_MAX = 8;
const ROUTES_MAX = 64;
/** MiB by which limits of memory may pass the largest ram; the hypervisor needs some itself. */
const HYPERVISOR_MIB_MAX = 4096;
/** vmadm takes no less, MiB. */
const SWAP_MIB_MIN = 256;
const CPU_SHARES_MAX = 65_535;
const IO_PRIORITY_MAX = 1024;
/** Threads of the zone; vmadm's own default is 2000. */
const LWPS_MAX = 100_000;
/** Bytes of a block of the zone's own files. */
const RECSIZE_MIN = 512;
const RECSIZE_MAX = 131_072;
/** Packets of one flush of a virtio nic. */
const TX_BURST_MAX = 65_535;
/** Nanoseconds until a virtio nic flushes: a second. */
const TX_TIMER_MAX = 1_000_000_000;
const ALIAS = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,188}$/;
const HOSTNAME =
  /^(?=.{1,253}$)[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
/** qemu's letters, each once, as vmadm hands them to it. */
const BOOT = /^order=(?![cdn]*([cdn])[cdn]*\1)[cdn]{1,3}(?:,once=[cdn])?$/;
const ROUTE_BY_NIC = /^nics\[(?:[0-9]|[1-2][0-9]|3[01])\]$/;
const VGAS = ["cirrus", "std", "vmware", "qxl", "xenfb"];
const CPU_TYPES = ["qemu64", "host"];
/** Never a path, which vmadm takes here too. */
const BOOTROMS = ["bios", "uefi"];

/** The brands of those properties that one brand alone has. */
export const BRAND_OF: Readonly<Record<string, Brand>> = {
  boot: "kvm",
  cpu_type: "kvm",
  vga: "kvm",
  virtio_txburst: "kvm",
  virtio_txtimer: "kvm",
  bootrom: "bhyve",
};

/**
 * The checks of what create and update take alike.
 * @param brand that of the machine; without it a property of either brand is taken
 */
export function settingChecks(policy: Policy, brand: Brand | undefined): Record<string, Check> {
  const memory = { plus: HYPERVISOR_MIB_MAX };
  const checks: Record<string, Check> = {
    vcpus: atMost(policy, "vcpusMax"),
    ram: atMost(policy, "ramMiBMax"),
    // 0 means no quota to vmadm, which no policy with a largest quota can allow.
    quota: atMost(policy, "quotaGiBMax"),
    alias: text(ALIAS, "a name of at most 189 letters, digits, dots, dashes and underscores"),
    hostname: text(HOSTNAME, "a host name"),
    owner_uuid: uuid,
    billing_id: uuid,
    do_not_inventory: flag,
    firewall_enabled: flag,
    resolvers: listOf(address, RESOLVERS_MAX, "addresses"),
    cpu_cap: atMost(policy, "vcpusMax", { times: 100 }),
    cpu_shares: integer(1, CPU_SHARES_MAX),
    max_physical_memory: atMost(policy, "ramMiBMax", memory),
    max_locked_memory: atMost(policy, "ramMiBMax", memory),
    max_swap: atMost(policy, "ramMiBMax", { ...memory, min: SWAP_MIB_MIN }),
    max_lwps: integer(1, LWPS_MAX),
    boot: text(BOOT, "order=cd with letters of c, d and n, each once, or order=cd,once=d"),
    bootrom: oneOf(BOOTROMS),
    cpu_type: oneOf(CPU_TYPES),
    vga: oneOf(VGAS),
    virtio_txburst: integer(1, TX_BURST_MAX),
    virtio_txtimer: integer(1, TX_TIMER_MAX),
    zfs_io_priority: integer(0, IO_PRIORITY_MAX),
    zfs_root_compression: oneOf(COMPRESSIONS),
    zfs_root_recsize: powerOfTwo(RECSIZE_MIN, RECSIZE_MAX),
  };
  for (const [name, owner] of Object.entries(BRAND_OF)) {
    const check = checks[name];
    if (check !== undefined) checks[name] = onlyFor(owner, brand, check);
  }
  return checks;
}

/** Static routes: where to, as an address or a network, and by which gateway or nic. */
export const routes: Check = (value, field, findings) => {
  if (!isJsonObject(value)) {
    findings.add(field, "Invalid", "must be an object of gateways by destination");
    return undefined;
  }
  const entries = Object.entries(value);
  if (entries.length > ROUTES_MAX) {
    findings.add(field, "TooLarge", `must have at most ${ROUTES_MAX} entries`);
    return undefined;
  }
  for (const [to, by] of entries) {
    const path = `${field}.${to.slice(0, 64)}`;
    if (!isDestination(to)) {
      findings.add(path, "Invalid", "must be named by an IPv4 address or network: 192.0.2.0/24");
    } else if (!isIpv4(by) && !(typeof by === "string" && ROUTE_BY_NIC.test(by))) {
      findings.add(path, "Invalid", 'must be the IPv4 address of a gateway, or a nic as "nics[0]"');
    }
  }
  return Object.fromEntries(entries);
};

/** Destinations whose routes are taken away. */
export const destinations: Check = listOf(
  (value, field, findings) => {
    if (isDestination(value)) return value;
    findings.add(field, "Invalid", "must be an IPv4 address or network, such as 192.0.2.0/24");
    return undefined;
  },
  ROUTES_MAX,
  "destinations",
);

function isDestination(value: unknown): value is string {
  return isIpv4(value) || (isCidr(value) && !value.includes(":"));
}

/**
 * What limits of memory are to each other: vmadm would move them without a word.
 * @see vmadm(8), max_locked_memory and max_swap
 */
export function checkMemory(machine: JsonObject, field: string, findings: Findings): void {
  const { max_physical_memory: most, max_locked_memory: locked, max_swap: swap } = machine;
  if (typeof most !== "number") return;
  if (typeof locked === "number" && locked > most) {
    const words = `must not be over max_physical_memory, ${most} MiB`;
    findings.add(`${field}.max_locked_memory`, "Invalid", words);
  }
  if (typeof swap === "number" && swap < most) {
    const words = `must not be below max_physical_memory, ${most} MiB`;
    findings.add(`${field}.max_swap`, "Invalid", words);
  }
}

const address: Check = (value, field, findings) => {
  if (isIpv4(value) || isIpv6(value)) return value;
  findings.add(field, "Invalid", "must be an IP address");
  return undefined;
};
