// Properties of vmadm(8) that no payload may have, with the reason for the refusal. A name that is neither here nor
// allowed is unknown to vmadm too.

import type { Reasons } from "../policy.ts";

const OUT_OF_ZONE = "it reaches out of the zone";
const HYPERVISOR = "it is an option of the hypervisor itself, which would reach out of the zone";
const READ_ONLY = "vmadm sets it itself";
const ZONES_ONLY = "it is for zones without a hypervisor, such as those of brand joyent or lx";
const SPOOFING = "it lets the machine pose as others on its network";
const NOT_BY_IMAGE = "the disks of an empty machine are made empty, not from an image";
const OTHER_LISTENER = "its console is the one that vmadm places; this would be another listener";
const SECRETS = "it holds what only the operator of the host may set";
const BLOCKS_DELETE = "the machine could not be deleted by the job that made it";
const ONE_POOL = "machines are made in the pool of their zones";
const OF_TRITON = "it is a private field of Triton";
const BY_MODEL = "each device names its own model";
const AT_CREATE = "it is chosen when the machine is made, and not changed later";

function named(reason: string, names: readonly string[]): Reasons {
  return Object.fromEntries(names.map((name) => [name, reason]));
}

/** Properties of a machine that no request may set, each with the reason. @see vmadm(8), PROPERTIES */
export const REFUSED_MACHINE_PROPERTIES: Reasons = {
  ...named(OUT_OF_ZONE, ["filesystems", "fs_allowed", "limit_priv", "pci_devices", "com1", "com2"]),
  ...named(HYPERVISOR, ["bhyve_extra_opts", "qemu_extra_opts", "qemu_opts"]),
  ...named(OTHER_LISTENER, ["spice_opts", "spice_password", "spice_port", "vnc_port"]),
  vnc_password: "its text would be kept in the job: say true for a random one",
  ...named(SECRETS, ["internal_metadata", "internal_metadata_namespaces"]),
  ...named(BLOCKS_DELETE, ["indestructible_delegated", "indestructible_zoneroot"]),
  archive_on_delete: "it keeps files of the machine on the host after its delete",
  ...named(ONE_POOL, ["zpool"]),
  flexible_disk_size: "it keeps room for snapshots, which the agent does not make",
  image_uuid: "the zone of an empty machine is not made from an image",
  ...named(BY_MODEL, ["disk_driver", "nic_driver"]),
  ...named(OF_TRITON, ["package_name", "package_version"]),
  uuid: "it stands beside the machine in the request",
  ...named(ZONES_ONLY, [
    "dataset_uuid",
    "delegate_dataset",
    "dns_domain",
    "docker",
    "init_name",
    "init_restart",
    "kernel_version",
    "maintain_resolvers",
    "max_msg_ids",
    "max_sem_ids",
    "max_shm_ids",
    "max_shm_memory",
    "mdata_exec_timeout",
    "nowait",
    "tmpfs",
    "zfs_data_compression",
    "zfs_data_recsize",
    "zlog_max_size",
    "zlog_mode",
  ]),
  ...named(READ_ONLY, [
    "boot_timestamp",
    "create_timestamp",
    "datacenter_name",
    "datasets",
    "exit_status",
    "exit_timestamp",
    "failed",
    "free_space",
    "hvm",
    "last_modified",
    "pid",
    "platform_buildstamp",
    "server_uuid",
    "snapshots",
    "state",
    "transition",
    "transition_expire",
    "transition_to",
    "type",
    "v",
    "zfs_filesystem",
    "zone_state",
    "zonedid",
    "zoneid",
    "zonename",
    "zonepath",
  ]),
};

/** Properties of a disk that no request may set, each with the reason. @see vmadm(8), disks.* */
export const REFUSED_DISK_PROPERTIES: Reasons = {
  disk_driver: "model says it",
  ...named(NOT_BY_IMAGE, ["image_name", "image_size", "image_uuid"]),
  nocreate: "it takes a device of the host as the disk",
  path: "it names a file or a device; the agent places the medium of the request",
  ...named(ONE_POOL, ["zpool"]),
  ...named(READ_ONLY, ["lun", "missing", "zfs_filesystem"]),
};

/** Properties of a nic that no request may set, each with the reason. @see vmadm(8), nics.* */
export const REFUSED_NIC_PROPERTIES: Reasons = {
  ...named(SPOOFING, [
    "allow_dhcp_spoofing",
    "allow_ip_spoofing",
    "allow_mac_spoofing",
    "allow_restricted_traffic",
    "allow_unfiltered_promisc",
    "allowed_ips",
    "dhcp_server",
    "vrrp_primary_ip",
    "vrrp_vrid",
  ]),
  interface: "it follows from the nic's place in the list",
  nic_driver: "model says it",
  over: READ_ONLY,
};

/** What `vmadm update` knows in addition to the properties of a machine. @see vmadm(8), update */
export const REFUSED_CHANGES: Reasons = {
  ...REFUSED_MACHINE_PROPERTIES,
  ...named(OUT_OF_ZONE, ["add_filesystems", "remove_filesystems", "update_filesystems"]),
  ...named(SECRETS, ["remove_internal_metadata", "set_internal_metadata"]),
  ...named(AT_CREATE, ["brand", "update_disks"]),
  disks: "add_disks and remove_disks attach and detach media",
  nics: "add_nics, update_nics and remove_nics change them",
  customer_metadata: "set_customer_metadata and remove_customer_metadata change it",
  routes: "set_routes and remove_routes change it",
  tags: "set_tags and remove_tags change it",
  uuid: "a machine keeps its uuid",
  vnc_password: "a password is chosen when the machine is made",
};
