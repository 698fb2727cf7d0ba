// The properties of machine descriptions for the brands kvm and bhyve: which brand takes them, when,
// and which values are valid. It covers the table of vmadm(8) for those two brands. create drops any
// other property, and validate reports it.

import { isUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonValue } from "../../domain/json.ts";
import type { Brand } from "../machine.ts";

/** The rules of one property. @see vmadm(8), PROPERTIES */
export interface Property {
  readonly brands: readonly Brand[];
  /** Whether create and update take it. */
  readonly on: readonly ("create" | "update")[];
  readonly valid: (value: JsonValue) => boolean;
}

const BOTH: readonly Brand[] = ["kvm", "bhyve"];
const KVM: readonly Brand[] = ["kvm"];
const BHYVE: readonly Brand[] = ["bhyve"];

const IPV4 = /^(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}$/;
const MAC = /^([0-9a-f]{1,2}:){5}[0-9a-f]{1,2}$/i;
const COMPRESSION = /^(off|on|lz4|lzjb|zle|gzip(-[1-9])?)$/;

const text = (value: JsonValue) => typeof value === "string";
const list = (value: JsonValue) => Array.isArray(value);
const uuid = (value: JsonValue) => isUuid(value);
const ip = (value: JsonValue) => typeof value === "string" && IPV4.test(value);
const ips = (value: JsonValue) => Array.isArray(value) && value.every((item) => text(item));
const flag = (value: JsonValue) =>
  [true, false, 0, 1, "true", "false", "0", "1"].some((word) => word === value);
const flat = (value: JsonValue) =>
  isJsonObject(value) && Object.values(value).every((item) => typeof item !== "object");

/** A whole number in a range; a text of digits counts, as k=v words bring one. */
function whole(min: number, max = Number.MAX_SAFE_INTEGER): (value: JsonValue) => boolean {
  return (value) => {
    const number = typeof value === "string" && /^-?\d+$/.test(value) ? Number(value) : value;
    return Number.isSafeInteger(number) && Number(number) >= min && Number(number) <= max;
  };
}

function matching(pattern: RegExp): (value: JsonValue) => boolean {
  return (value) => typeof value === "string" && pattern.test(value);
}

function powerOfTwo(min: number, max: number): (value: JsonValue) => boolean {
  return (value) => whole(min, max)(value) && Number.isInteger(Math.log2(Number(value)));
}

function both(valid: Property["valid"]): Property {
  return { brands: BOTH, on: ["create", "update"], valid };
}

function onCreate(valid: Property["valid"], brands = BOTH): Property {
  return { brands, on: ["create"], valid };
}

function onUpdate(valid: Property["valid"]): Property {
  return { brands: BOTH, on: ["update"], valid };
}

function only(brands: readonly Brand[], valid: Property["valid"]): Property {
  return { brands, on: ["create", "update"], valid };
}

/** Properties of the machine itself. Sizes are MiB, except quota, which is GiB. */
export const MACHINE_PROPERTIES: Readonly<Record<string, Property>> = {
  alias: both(text),
  archive_on_delete: both(flag),
  autoboot: both(flag),
  bhyve_extra_opts: only(BHYVE, text),
  billing_id: both(text),
  boot: only(KVM, text),
  bootrom: only(BHYVE, text),
  brand: onCreate(text),
  com1: only(BHYVE, text),
  com2: only(BHYVE, text),
  cpu_cap: both(whole(0)),
  cpu_shares: both(whole(0, 65_535)),
  cpu_type: only(KVM, text),
  customer_metadata: onCreate(flat),
  disks: onCreate(list),
  do_not_inventory: both(flag),
  firewall_enabled: both(flag),
  flexible_disk_size: only(BHYVE, whole(0)),
  hostname: both(text),
  indestructible_zoneroot: both(flag),
  internal_metadata: onCreate(flat),
  max_locked_memory: both(whole(0)),
  max_lwps: both(whole(0)),
  max_physical_memory: both(whole(0)),
  max_swap: both(whole(256)),
  nics: onCreate(list),
  owner_uuid: both(text),
  pci_devices: only(BHYVE, list),
  qemu_extra_opts: only(KVM, text),
  qemu_opts: only(KVM, text),
  quota: both(whole(0)),
  ram: both(whole(0)),
  resolvers: both((value) => Array.isArray(value) && value.every(ip)),
  routes: onCreate(flat),
  spice_opts: only(KVM, text),
  spice_password: only(KVM, text),
  spice_port: only(KVM, whole(-1, 65_535)),
  tags: onCreate(flat),
  uuid: onCreate(uuid),
  vcpus: both(whole(1)),
  vga: only(KVM, matching(/^(cirrus|std|vmware|qxl|xenfb)$/)),
  virtio_txburst: only(KVM, whole(0)),
  virtio_txtimer: only(KVM, whole(0)),
  vnc_password: both(text),
  vnc_port: both(whole(-1, 65_535)),
  zfs_filesystem_limit: both(whole(0)),
  zfs_io_priority: both(whole(0)),
  zfs_root_compression: both(matching(COMPRESSION)),
  zfs_root_recsize: both(powerOfTwo(512, 131_072)),
  zfs_snapshot_limit: both(whole(0)),
  zpool: onCreate(text),
  add_disks: onUpdate(list),
  add_nics: onUpdate(list),
  remove_customer_metadata: onUpdate(list),
  remove_disks: onUpdate(list),
  remove_internal_metadata: onUpdate(list),
  remove_nics: onUpdate(list),
  remove_routes: onUpdate(list),
  remove_tags: onUpdate(list),
  set_customer_metadata: onUpdate(flat),
  set_internal_metadata: onUpdate(flat),
  set_routes: onUpdate(flat),
  set_tags: onUpdate(flat),
  update_disks: onUpdate(list),
  update_nics: onUpdate(list),
};

/** Properties of one disk. Sizes are MiB. */
export const DISK_PROPERTIES: Readonly<Record<string, Property>> = {
  block_size: both(powerOfTwo(512, 131_072)),
  boot: both(flag),
  compression: both(matching(COMPRESSION)),
  disk_driver: both(text),
  guest_block_size: only(BHYVE, text),
  image_name: both(text),
  image_size: both(whole(0)),
  image_uuid: both(uuid),
  media: both(matching(/^(disk|cdrom)$/)),
  model: both(text),
  nocreate: both(flag),
  notrim: only(BHYVE, flag),
  path: both(text),
  pci_slot: only(BHYVE, matching(/^\d+(:\d+){0,2}$/)),
  refreservation: both(whole(0)),
  size: both(whole(0)),
  uuid: only(BHYVE, uuid),
  zpool: both(text),
};

/** Properties of one entry of `nics`, by brand, as vmadm(8) lists them. */
export const NIC_PROPERTIES: Readonly<Record<string, Property>> = {
  allow_dhcp_spoofing: both(flag),
  allow_ip_spoofing: both(flag),
  allow_mac_spoofing: both(flag),
  allow_restricted_traffic: both(flag),
  allow_unfiltered_promisc: both(flag),
  allowed_dhcp_cids: both(ips),
  allowed_ips: both(ips),
  blocked_outgoing_ports: both(list),
  dhcp_server: both(flag),
  gateway: both(ip),
  gateways: both(ips),
  interface: both(text),
  // Its form is checked later, with a message of its own.
  ip: both(text),
  ips: both(ips),
  mac: both(matching(MAC)),
  model: both(text),
  mtu: both(whole(576, 9000)),
  netmask: both(text),
  network_uuid: both(uuid),
  nic_driver: both(text),
  nic_tag: both(matching(/^[A-Za-z0-9_/]+$/)),
  // Whatever is set; 0 and false are removed later.
  primary: both((value) => flag(value) || text(value)),
  vlan_id: both(whole(0, 4095)),
  vrrp_primary_ip: both(ip),
  vrrp_vrid: both(whole(0, 255)),
};

/** Whether a text is an IPv4 address. */
export function isIpv4(value: unknown): value is string {
  return typeof value === "string" && IPV4.test(value);
}

/** The truth of a flag in any of its accepted spellings. */
export function isSet(value: JsonValue | undefined): boolean {
  return value === true || value === 1 || value === "1" || value === "true";
}
