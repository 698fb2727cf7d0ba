// What a machine may be. A payload is written by whoever may post a job, and vmadm takes properties
// that reach out of the zone: folders of the host as file systems, options of the hypervisor, a VNC
// port. So the properties are an allowlist, and sizes have largest values. Both workflows and
// requests over HTTP are held against the same policy; policy_check.ts does it, and names the setting
// by which the operator chose what is refused.

import type { Reasons } from "./machine/refused_properties.ts";
import { AgentError } from "./error.ts";
import { type Check, integer, listOf, oneOf } from "./field_check.ts";
import type { JsonObject } from "./json.ts";
import { JOB_TAG } from "./machine/metadata.ts";

/** The brands that an agent can make. */
export const BRANDS = ["kvm", "bhyve"] as const;

/** Bounds of what a task or a request may ask of vmadm. */
export interface Policy {
  readonly brands: readonly (typeof BRANDS[number])[];
  readonly vcpusMax: number;
  /** Guest memory of one machine. */
  readonly ramMiBMax: number;
  readonly disksMax: number;
  readonly diskMiBMax: number;
  readonly nicsMax: number;
  readonly quotaGiBMax: number;
  /** Networks that nics may be on; an empty list allows all. */
  readonly nicTags: readonly string[];
  /** What tasks may do with machines that no job made: change them like others, or only read them. */
  readonly foreignMachines: ForeignMachines;
  /**
   * Properties that a machine, its disks and its nics may have. A list may be narrowed; a name that
   * is added here and has no check in domain/machine.ts, disk.ts or nic.ts is still refused.
   */
  readonly machineProperties: readonly string[];
  readonly diskProperties: readonly string[];
  readonly nicProperties: readonly string[];
}

/** @see Policy.foreignMachines */
export type ForeignMachines = "change" | "read";

/** The settings behind the fields of a policy, as they stand in the operator's file. */
export const POLICY_SETTINGS = {
  brands: "policy.allow_brand",
  vcpusMax: "policy.vcpus_max",
  ramMiBMax: "policy.ram_mib_max",
  disksMax: "policy.disks_max",
  diskMiBMax: "policy.disk_mib_max",
  nicsMax: "policy.nics_max",
  quotaGiBMax: "policy.quota_gib_max",
  nicTags: "policy.allow_nic_tag",
  foreignMachines: "policy.foreign_machines",
  forbidden: "policy.forbid_property",
} as const;

/** The policy that holds unless the operator has set another. */
export const DEFAULT_POLICY: Policy = {
  brands: BRANDS,
  vcpusMax: 64,
  ramMiBMax: 262_144,
  disksMax: 8,
  diskMiBMax: 4_194_304,
  nicsMax: 8,
  quotaGiBMax: 1024,
  nicTags: [],
  foreignMachines: "change",
  machineProperties: [
    "brand",
    "vcpus",
    "autoboot",
    "ram",
    "resolvers",
    "disks",
    "nics",
    "alias",
    "hostname",
    "owner_uuid",
    "billing_id",
    "do_not_inventory",
    "firewall_enabled",
    "quota",
    "cpu_cap",
    "cpu_shares",
    "max_physical_memory",
    "max_locked_memory",
    "max_swap",
    "max_lwps",
    "tags",
    "customer_metadata",
    "routes",
    "boot",
    "bootrom",
    "cpu_type",
    "vga",
    "virtio_txburst",
    "virtio_txtimer",
    "zfs_io_priority",
    "zfs_root_compression",
    "zfs_root_recsize",
  ],
  diskProperties: [
    "boot",
    "model",
    "media",
    "size",
    "compression",
    "refreservation",
    "block_size",
    "guest_block_size",
    "notrim",
    "pci_slot",
    "uuid",
  ],
  nicProperties: [
    "nic_tag",
    "model",
    "ip",
    "netmask",
    "gateway",
    "primary",
    "mac",
    "vlan_id",
    "ips",
    "gateways",
    "mtu",
    "network_uuid",
    "allowed_dhcp_cids",
    "blocked_outgoing_ports",
  ],
};

const DEFAULT_PROPERTIES = [
  ...DEFAULT_POLICY.machineProperties,
  ...DEFAULT_POLICY.diskProperties,
  ...DEFAULT_POLICY.nicProperties,
];

/** What is said of a property that the operator has taken out. */
export const FORBIDDEN_WORDS =
  `is not allowed by the policy (setting ${POLICY_SETTINGS.forbidden})`;

/**
 * The words for a property that is not taken: why not, where vmadm knows it; undefined where it does
 * not, or where it is allowed.
 */
export function refusedBy(
  allowed: readonly string[],
  checked: readonly string[],
  reasons: Reasons,
): (name: string) => string | undefined {
  return (name) => {
    if (allowed.includes(name) && checked.includes(name)) return undefined;
    if (Object.hasOwn(reasons, name)) return `is not allowed: ${reasons[name]}`;
    // What the default policy allows was taken out by the operator.
    const isDefault = DEFAULT_PROPERTIES.includes(name) && checked.includes(name);
    return isDefault ? FORBIDDEN_WORDS : undefined;
  };
}

// The operator's policy as checks of fields: the one place where a size, a count or a word is held
// against it. machine.ts, machine_changes.ts, disk.ts and nic.ts build their shapes from these, so
// that a task and a request over HTTP meet the same refusals, which name the setting behind them.

/** The fields of a policy that are largest values. */
type Largest = "vcpusMax" | "ramMiBMax" | "diskMiBMax" | "quotaGiBMax" | "disksMax" | "nicsMax";

/** How a field's largest value is made of the policy's; least values are 1 unless told. */
export interface Bound {
  readonly min?: number;
  readonly times?: number;
  readonly plus?: number;
}

/** A whole number that the policy bounds. */
export function atMost(
  policy: Policy,
  name: Exclude<Largest, "disksMax" | "nicsMax">,
  { min = 1, times = 1, plus = 0 }: Bound = {},
): Check {
  const max = policy[name] * times + plus;
  const check = integer(min, max);
  return (value, field, findings) => {
    if (typeof value !== "number" || !Number.isInteger(value) || value <= max) {
      return check(value, field, findings);
    }
    const words = `must be an integer from ${min} to ${max} (setting ${POLICY_SETTINGS[name]})`;
    findings.add(field, "TooLarge", words);
    return undefined;
  };
}

/** A list whose length the policy bounds. */
export function listAtMost(
  policy: Policy,
  name: "disksMax" | "nicsMax",
  check: Check,
  noun: string,
): Check {
  const max = policy[name];
  const read = listOf(check, max, noun);
  return (value, field, findings) => {
    if (!Array.isArray(value) || value.length <= max) return read(value, field, findings);
    const words = `must hold at most ${max} ${noun} (setting ${POLICY_SETTINGS[name]})`;
    findings.add(field, "TooLarge", words);
    return undefined;
  };
}

/** A brand that may be made. */
export function allowedBrand(policy: Policy, known: readonly string[]): Check {
  const check = oneOf(policy.brands);
  return (value, field, findings) => {
    const refused = typeof value === "string" && known.includes(value) &&
      !policy.brands.some((brand) => brand === value);
    if (!refused) return check(value, field, findings);
    const words = `must be one of ${policy.brands.join(", ")} (setting ${POLICY_SETTINGS.brands})`;
    findings.add(field, "Invalid", words);
    return undefined;
  };
}

/** The name of a network on which nics may be; `check` reads its form. */
export function allowedNicTag({ nicTags }: Policy, check: Check): Check {
  if (nicTags.length === 0) return check;
  return (value, field, findings) => {
    if (typeof value !== "string" || nicTags.includes(value)) return check(value, field, findings);
    const words = `must be one of ${nicTags.join(", ")} (setting ${POLICY_SETTINGS.nicTags})`;
    findings.add(field, "Invalid", words);
    return undefined;
  };
}

/**
 * Refuses to act on a machine that no job made, where the policy says so.
 * @param machine The machine as vmadm describes it
 * @throws {AgentError} `forbidden`
 */
export function requireOwnMachine(policy: Policy, uuid: string, machine: JsonObject): void {
  if (policy.foreignMachines === "change") return;
  const tags = machine.tags;
  const made = typeof tags === "object" && tags !== null && Object.hasOwn(tags, JOB_TAG);
  if (made) return;
  const message = `Cannot act on machine ${uuid}: no job made it, and the policy allows only to ` +
    `read such machines (setting ${POLICY_SETTINGS.foreignMachines})`;
  throw new AgentError("forbidden", message);
}
