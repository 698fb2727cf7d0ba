// What a machine may be. A payload is written by whoever may post a job, and vmadm takes properties
// that reach out of the zone: folders of the host as file systems, options of the hypervisor, a VNC
// port. So the properties are an allowlist, and sizes have largest values. Both workflows and
// requests over HTTP are held against the same policy; policy_check.ts does it, and names the setting
// by which the operator chose what is refused.

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
    "quota",
    "cpu_cap",
    "cpu_shares",
    "max_physical_memory",
    "tags",
    "customer_metadata",
    "bootrom",
    "vga",
    "zfs_io_priority",
  ],
  diskProperties: ["boot", "model", "size", "compression", "refreservation", "block_size"],
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

/** The reason why a property of the real tool is refused, for a list that does not hold it. */
export function refusedBy(
  allowed: readonly string[],
  checked: readonly string[],
  known: readonly string[],
): (name: string) => string | undefined {
  return (name) => {
    if (allowed.includes(name) && checked.includes(name)) return undefined;
    // What the default policy allows was taken out by the operator; the rest no setting can allow.
    if (DEFAULT_PROPERTIES.includes(name) && checked.includes(name)) return FORBIDDEN_WORDS;
    return checked.includes(name) || known.includes(name)
      ? "is not allowed by the policy"
      : undefined;
  };
}

/** Properties of vmadm that no payload may have here. @see vmadm(8), PROPERTIES */
export const OTHER_MACHINE_PROPERTIES: readonly string[] = [
  "archive_on_delete",
  "bhyve_extra_opts",
  "billing_id",
  "boot",
  "boot_timestamp",
  "com1",
  "com2",
  "cpu_type",
  "create_timestamp",
  "datacenter_name",
  "dataset_uuid",
  "delegate_dataset",
  "disk_driver",
  "dns_domain",
  "do_not_inventory",
  "docker",
  "exit_status",
  "exit_timestamp",
  "failed",
  "filesystems",
  "firewall_enabled",
  "flexible_disk_size",
  "free_space",
  "fs_allowed",
  "hvm",
  "image_uuid",
  "indestructible_delegated",
  "indestructible_zoneroot",
  "init_name",
  "init_restart",
  "internal_metadata",
  "internal_metadata_namespaces",
  "kernel_version",
  "last_modified",
  "limit_priv",
  "maintain_resolvers",
  "max_locked_memory",
  "max_lwps",
  "max_msg_ids",
  "max_sem_ids",
  "max_shm_ids",
  "max_shm_memory",
  "max_swap",
  "mdata_exec_timeout",
  "nic_driver",
  "nowait",
  "owner_uuid",
  "package_name",
  "package_version",
  "pci_devices",
  "pid",
  "qemu_extra_opts",
  "qemu_opts",
  "routes",
  "server_uuid",
  "snapshots",
  "spice_opts",
  "spice_password",
  "spice_port",
  "state",
  "tmpfs",
  "transition",
  "transition_expire",
  "transition_to",
  "type",
  "v",
  "virtio_txburst",
  "virtio_txtimer",
  "vnc_password",
  "vnc_port",
  "zfs_data_compression",
  "zfs_data_recsize",
  "zfs_filesystem",
  "zfs_filesystem_limit",
  "zfs_root_compression",
  "zfs_root_recsize",
  "zfs_snapshot_limit",
  "zlog_max_size",
  "zlog_mode",
  "zone_state",
  "zonedid",
  "zoneid",
  "zonename",
  "zonepath",
  "zpool",
];

/** @see vmadm(8), disks.* */
export const OTHER_DISK_PROPERTIES: readonly string[] = [
  "disk_driver",
  "guest_block_size",
  "image_name",
  "image_size",
  "image_uuid",
  "lun",
  "media",
  "missing",
  "nocreate",
  "notrim",
  "path",
  "pci_slot",
  "uuid",
  "zfs_filesystem",
  "zpool",
];

/** @see vmadm(8), nics.* */
export const OTHER_NIC_PROPERTIES: readonly string[] = [
  "allow_dhcp_spoofing",
  "allow_ip_spoofing",
  "allow_mac_spoofing",
  "allow_restricted_traffic",
  "allow_unfiltered_promisc",
  "allowed_dhcp_cids",
  "allowed_ips",
  "blocked_outgoing_ports",
  "dhcp_server",
  "interface",
  "network_uuid",
  "nic_driver",
  "over",
  "vrrp_primary_ip",
  "vrrp_vrid",
];
