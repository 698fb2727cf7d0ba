// The properties of machine descriptions for the brands kvm and bhyve: which brand takes them, when, and
// which values are valid. The table is that of the tool, so it also accepts what vmadm(8) does not describe:
// numbers and lists as text, and empty values for unset properties. create drops any other property, and
// validate reports it.

import { isUuid } from "../../domain/id.ts";
import { IPV4, IPV6 } from "../../domain/ip_address.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../domain/json.ts";
import type { Brand } from "../machine.ts";
import { crash } from "../outcome.ts";

/** The tool's own types of values. */
export type PropertyType =
  | "text"
  | "integer"
  | "flag"
  | "uuid"
  | "list"
  | "flat"
  | "objects"
  | "zpool";

/** The rules of one property. @see vmadm(8), PROPERTIES */
export interface Property {
  readonly type: PropertyType;
  readonly brands: readonly Brand[];
  /** Whether create and update take it. */
  readonly on: readonly ("create" | "update")[];
  readonly valid: (value: JsonValue | undefined) => boolean;
}

type Check = Property["valid"];
type On = Property["on"];

const BOTH: readonly Brand[] = ["kvm", "bhyve"];
const KVM: readonly Brand[] = ["kvm"];
const BHYVE: readonly Brand[] = ["bhyve"];
const ALWAYS: On = ["create", "update"];
const CREATE: On = ["create"];
const UPDATE: On = ["update"];

/** Whether a value is missing or blank: the property is then unset. */
function isBlank(value: JsonValue | undefined): boolean {
  return value === undefined || value === null || String(value).trim() === "";
}

function property(type: PropertyType, valid: Check, brands = BOTH, on = ALWAYS): Property {
  return { type, brands, on, valid };
}

function text(brands = BOTH, on = ALWAYS, check?: (value: string) => boolean): Property {
  const valid: Check = (value) =>
    isBlank(value) || (check === undefined ? typeof value === "string" : isText(value, check));
  return property("text", valid, brands, on);
}

function isText(value: JsonValue | undefined, check: (value: string) => boolean): boolean {
  // Its checks assume that every value is a string.
  if (typeof value === "number") throw crash(`Object ${value} has no method 'split'`);
  return typeof value === "string" && check(value);
}

function integer(min: number, max = Infinity, brands = BOTH): Property {
  const valid: Check = (value) => {
    if (isBlank(value)) return true;
    if (typeof value === "boolean") return false;
    const number = Number(value);
    return Number.isInteger(number) && number >= min && number <= max;
  };
  return property("integer", valid, brands);
}

function flag(brands = BOTH): Property {
  const words: readonly unknown[] = [true, false, 1, "1", "true", "false"];
  return property("flag", (value) => words.includes(value), brands);
}

function uuid(brands = BOTH, on = ALWAYS): Property {
  return property("uuid", isUuid, brands, on);
}

/** A list, or its entries in one string with commas, so none may contain a comma. */
function list(
  check: (entry: string) => boolean = () => true,
  brands = BOTH,
  on = ALWAYS,
): Property {
  const valid: Check = (value) => {
    const entries = typeof value === "string" ? value.split(",").filter(Boolean) : value;
    return Array.isArray(entries) &&
      entries.every((entry) =>
        (typeof entry === "string" || typeof entry === "number") &&
        !String(entry).includes(",") && check(String(entry))
      );
  };
  return property("list", valid, brands, on);
}

function flat(on: On): Property {
  const valid: Check = (value) =>
    isJsonObject(value) && Object.values(value).every((item) => typeof item !== "object");
  return property("flat", valid, BOTH, on);
}

/** A list of objects, whose entries are checked by tables of their own. */
function objects(on: On, brands = BOTH): Property {
  const valid: Check = (value) =>
    Array.isArray(value) && value.every((item) => typeof item === "object");
  return property("objects", valid, brands, on);
}

/** Such as `512` or `512/4096`. */
function isSectorSize(value: string): boolean {
  const sizes = value.split("/");
  return sizes.length <= 2 &&
    sizes.every((size) => /^[1-9]\d*$/.test(size) && Number.isInteger(Math.log2(Number(size))));
}

/** A DHCP client identifier, in whole bytes. */
function isClientId(value: string): boolean {
  return /^0x(?:[0-9a-fA-F]{2}){1,255}$/.test(value);
}

const MAC = /^(?:(?:[0-9a-f]{1,2}:){5}[0-9a-f]{1,2}|[0-9a-f]{12})$/i;

/** Properties of the machine itself. Sizes are MiB, except quota, which is GiB. */
export const MACHINE_PROPERTIES: Readonly<Record<string, Property>> = {
  alias: text(),
  archive_on_delete: flag(),
  autoboot: flag(),
  bhyve_extra_opts: text(BHYVE),
  billing_id: text(),
  boot: text(),
  bootrom: text(BHYVE),
  brand: text(BOTH, CREATE),
  com1: text(BHYVE),
  com2: text(BHYVE),
  cpu_cap: integer(0),
  cpu_shares: integer(0),
  cpu_type: text(KVM),
  customer_metadata: flat(CREATE),
  disk_driver: text(),
  disks: objects(CREATE),
  do_not_inventory: flag(),
  firewall_enabled: flag(),
  flexible_disk_size: integer(0, Infinity, BHYVE),
  hostname: text(),
  image_uuid: uuid(BOTH, CREATE),
  indestructible_delegated: flag(),
  indestructible_zoneroot: flag(),
  internal_metadata: flat(CREATE),
  internal_metadata_namespaces: list((entry) => /^[A-Za-z0-9._-]+$/.test(entry)),
  limit_priv: list(),
  max_locked_memory: integer(0),
  max_lwps: integer(0),
  max_msg_ids: integer(0),
  max_physical_memory: integer(0),
  max_sem_ids: integer(0),
  max_shm_ids: integer(0),
  max_shm_memory: integer(0),
  max_swap: integer(256),
  nic_driver: text(),
  nics: objects(CREATE),
  owner_uuid: text(),
  package_name: text(KVM),
  package_version: text(KVM),
  pci_devices: objects(ALWAYS, BHYVE),
  qemu_extra_opts: text(KVM),
  qemu_opts: text(KVM),
  quota: integer(0),
  ram: integer(0),
  resolvers: list((entry) => IPV4.test(entry) || IPV6.test(entry)),
  routes: flat(CREATE),
  spice_opts: text(KVM),
  spice_password: text(KVM),
  spice_port: integer(-1, Infinity, KVM),
  tags: flat(CREATE),
  uuid: uuid(BOTH, CREATE),
  vcpus: integer(1),
  vga: text(KVM),
  virtio_txburst: integer(0, Infinity, KVM),
  virtio_txtimer: integer(0, Infinity, KVM),
  vnc_password: text(),
  vnc_port: integer(-1),
  zfs_filesystem_limit: integer(0),
  zfs_io_priority: integer(0),
  zfs_root_compression: text(),
  zfs_root_recsize: integer(0),
  zfs_snapshot_limit: integer(0),
  zpool: property("zpool", (value) => typeof value === "string", BOTH, CREATE),
  add_disks: objects(UPDATE),
  add_nics: objects(UPDATE),
  remove_customer_metadata: list(undefined, BOTH, UPDATE),
  remove_disks: list(undefined, BOTH, UPDATE),
  remove_internal_metadata: list(undefined, BOTH, UPDATE),
  remove_nics: list(undefined, BOTH, UPDATE),
  remove_routes: list(undefined, BOTH, UPDATE),
  remove_tags: list(undefined, BOTH, UPDATE),
  set_customer_metadata: flat(UPDATE),
  set_internal_metadata: flat(UPDATE),
  set_routes: flat(UPDATE),
  set_tags: flat(UPDATE),
  update_disks: objects(UPDATE),
  update_nics: objects(UPDATE),
};

/** Properties of one disk. Sizes are MiB. */
export const DISK_PROPERTIES: Readonly<Record<string, Property>> = {
  block_size: integer(0),
  boot: flag(),
  compression: text(),
  guest_block_size: text(BHYVE, ALWAYS, isSectorSize),
  image_name: text(KVM),
  image_size: integer(0),
  image_uuid: uuid(),
  media: text(),
  model: text(),
  nocreate: flag(),
  notrim: flag(BHYVE),
  path: text(),
  pci_slot: text(BHYVE),
  refreservation: integer(0),
  size: integer(0),
  uuid: uuid(BHYVE),
  zpool: text(),
};

/** Properties of one entry of `nics`, by brand, as vmadm(8) lists them. */
export const NIC_PROPERTIES: Readonly<Record<string, Property>> = {
  allow_dhcp_spoofing: flag(),
  allow_ip_spoofing: flag(),
  allow_mac_spoofing: flag(),
  allow_restricted_traffic: flag(),
  allow_unfiltered_promisc: flag(),
  allowed_dhcp_cids: list(isClientId, KVM),
  allowed_ips: list(),
  blocked_outgoing_ports: list(),
  dhcp_server: flag(),
  gateway: text(),
  gateways: list(),
  interface: text(),
  ip: text(),
  ips: list(),
  mac: text(BOTH, ALWAYS, (value) => MAC.test(value)),
  model: text(),
  mtu: integer(576, 9000),
  netmask: text(),
  network_uuid: uuid(),
  nic_tag: text(),
  primary: flag(),
  vlan_id: integer(0, 4095),
  vrrp_primary_ip: text(),
  vrrp_vrid: integer(0, 255),
};

/** Whether a flag is true, in any of its accepted spellings. */
export function isSet(value: JsonValue | undefined): boolean {
  return value === true || value === 1 || value === "1" || value === "true";
}

/** Properties that may have been given without a value. */
export type Draft = Record<string, JsonValue | undefined>;

/** A draft as JSON: without properties that have no value. */
export function settled(draft: Draft): JsonObject {
  return JSON.parse(JSON.stringify(draft));
}
