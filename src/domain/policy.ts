// What a machine may be. Anyone who may post a job may write a payload, and vmadm takes properties that reach out of
// the zone: folders of the host as file systems, options of the hypervisor, a VNC port. So the properties are an
// allowlist, and sizes have largest values. Workflows and requests over HTTP are checked against the same policy, and
// a refusal names the setting that the operator chose. This is the one place where a size, a count or a word of the
// policy becomes a bound.

import { BYTES_PER_GIB } from "./bytes.ts";
import { AgentError } from "./error.ts";
import { orDigits } from "./description/formats.ts";
import type { Fields } from "./description/object.ts";
import type { Description } from "./description/description.ts";
import { integer, listOf, oneOf } from "./description/value.ts";
import type { JsonObject, JsonValue } from "./json.ts";

/** The brands that an agent can make. */
export const BRANDS = ["kvm", "bhyve"] as const;
/** A brand of machines with a hypervisor, as vmadm spells it. */
export type MachineBrand = typeof BRANDS[number];

/** A quota is GiB; what disks and volumes reserve is MiB. */
export const MIB_PER_GIB = 1024;

/** Bounds of what a task or a request may ask of vmadm. */
export interface Policy {
  readonly brands: readonly MachineBrand[];
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
   * is added here and has no description in domain/machine/ is still refused.
   */
  readonly machineProperties: readonly string[];
  readonly diskProperties: readonly string[];
  readonly nicProperties: readonly string[];
}

/** The tag by which a machine names the job that made it; only the agent sets it. */
export const JOB_TAG = "zonewright_job";

/** What tasks may do with machines that no job made. @see Policy.foreignMachines */
export type ForeignMachines = "change" | "read";

/** The settings behind the fields of a policy, by their names in the configuration file. */
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
    "zfs_filesystem_limit",
    "zfs_snapshot_limit",
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

/** A policy by the names of its settings, as it is sent. */
export function policyOnWire(policy: Policy): JsonObject {
  const fields = Object.entries(POLICY_SETTINGS).map(([field, setting]): [string, JsonValue] => {
    const value = field === "forbidden" ? forbiddenBy(policy) : policy[field as keyof Policy];
    return [setting.replace("policy.", ""), typeof value === "object" ? [...value] : value];
  });
  return Object.fromEntries(fields);
}

/** The properties that a policy does not have and the default has. */
function forbiddenBy(policy: Policy): string[] {
  const lists = [
    ["", "machineProperties"],
    ["disks.", "diskProperties"],
    ["nics.", "nicProperties"],
  ] as const;
  return lists.flatMap(([prefix, list]) =>
    DEFAULT_POLICY[list].filter((name) => !policy[list].includes(name)).map((name) => prefix + name)
  );
}

/** Accepts everything that any policy can accept. */
export const WIDEST_POLICY: Policy = {
  ...DEFAULT_POLICY,
  vcpusMax: Number.MAX_SAFE_INTEGER,
  ramMiBMax: Number.MAX_SAFE_INTEGER,
  disksMax: Number.MAX_SAFE_INTEGER,
  diskMiBMax: Number.MAX_SAFE_INTEGER,
  nicsMax: Number.MAX_SAFE_INTEGER,
  quotaGiBMax: Number.MAX_SAFE_INTEGER,
};

const DEFAULT_PROPERTIES = [
  ...DEFAULT_POLICY.machineProperties,
  ...DEFAULT_POLICY.diskProperties,
  ...DEFAULT_POLICY.nicProperties,
];

/** Why a property is refused that the operator has forbidden. */
export const FORBIDDEN_WORDS =
  `is not allowed by the policy (setting ${POLICY_SETTINGS.forbidden})`;

/** Reasons by the name of the property. */
export type Reasons = Readonly<Record<string, string>>;

/**
 * Why names are refused that an object does not have here: the reason where vmadm knows the name, the
 * setting where the operator has forbidden it; undefined for other names, which are unknown.
 */
export function refusedBy(
  described: Fields,
  reasons: Reasons,
): (name: string) => string | undefined {
  return (name) => {
    if (Object.hasOwn(reasons, name)) return `is not allowed: ${reasons[name]}`;
    const forbidden = DEFAULT_PROPERTIES.includes(name) && Object.hasOwn(described, name);
    return forbidden ? FORBIDDEN_WORDS : undefined;
  };
}

/** The fields of a policy that are largest values of numbers. */
type LargestNumber = "vcpusMax" | "ramMiBMax" | "diskMiBMax" | "quotaGiBMax";

/** How the largest value of a field follows from the policy's. The least is 1 unless given. */
interface SizeBound {
  readonly min?: number;
  readonly times?: number;
  readonly plus?: number;
  /** Why nothing below the least value is taken. */
  readonly below?: string;
}

/** A whole number that the policy bounds, or its digits as a text. */
export function boundedSize(
  policy: Policy,
  name: LargestNumber,
  { min = 1, times = 1, plus = 0, below }: SizeBound = {},
): Description<number> {
  const chosen = { setting: POLICY_SETTINGS[name], ...(below === undefined ? {} : { below }) };
  return orDigits(integer(min, policy[name] * times + plus, chosen));
}

/** A list whose length the policy bounds. */
export function boundedList<T extends JsonValue>(
  policy: Policy,
  name: "disksMax" | "nicsMax",
  item: Description<T>,
  noun: string,
): Description<(T | null)[]> {
  return listOf(item, policy[name], noun, { setting: POLICY_SETTINGS[name] });
}

/** A brand that the policy allows. */
export function allowedBrand({ brands }: Policy): Description<MachineBrand> {
  return oneOf(brands, brands.length < BRANDS.length ? { setting: POLICY_SETTINGS.brands } : {});
}

/** The name of a network that nics may be on; `form` describes any. */
export function allowedNicTag({ nicTags }: Policy, form: Description<string>): Description<string> {
  return nicTags.length === 0 ? form : oneOf(nicTags, { setting: POLICY_SETTINGS.nicTags });
}

/** The fields that the policy allows, in the order of their descriptions. */
export function allowedFields(fields: Fields, allowed: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => allowed.includes(name)));
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
  const about = { kind: "setting", name: POLICY_SETTINGS.foreignMachines } as const;
  throw new AgentError("forbidden", message, { about });
}

/** GiB of quota that a zone has when its machine asks for none. @see vmadm(8), quota */
export const QUOTA_GIB_USUAL: Readonly<Record<MachineBrand, number>> = { kvm: 10, bhyve: 1 };

/** GiB besides the medium: the zone's own files, and the temporary name of a copy. */
export const ROOM_GIB = 1;

/**
 * The quota in GiB that a machine needs before a medium fits into the root of its zone, as most do
 * not fit into the usual one.
 * @param who for the error, such as `machine 0f5c…`
 * @returns undefined when it has enough
 * @throws {AgentError} `forbidden` when the policy does not allow as much
 * @see vmadm(8), quota
 */
export function quotaToRaise(
  policy: Policy,
  machine: JsonObject,
  bytes: number,
  who: string,
): number | undefined {
  const wanted = Math.ceil(bytes / BYTES_PER_GIB) + ROOM_GIB;
  const quota = typeof machine.quota === "number" ? machine.quota : 0;
  // 0 means no quota for kvm; bhyve reads it as its minimum, 1 GiB.
  if (quota >= wanted || (quota === 0 && machine.brand === "kvm")) return undefined;
  if (wanted <= policy.quotaGiBMax) return wanted;
  const message = `Cannot place the medium: ${who} would need a quota of ${wanted} GiB, ` +
    `the policy allows ${policy.quotaGiBMax} (setting ${POLICY_SETTINGS.quotaGiBMax})`;
  const about = { kind: "setting", name: POLICY_SETTINGS.quotaGiBMax } as const;
  throw new AgentError("forbidden", message, { about });
}
