// Makes the configuration of a new machine from a payload: adds defaults before its values are checked, as
// the tool does, and runs the checks that follow those of values and missing properties.

import { isJsonObject, type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import {
  diskOf,
  draftDisk,
  isBlockSize,
  refuseCompression,
  refuseDisk,
  withSlots,
} from "./device.ts";
import type { Brand } from "../machine.ts";
import { draftNic, nicOf, nicsIn, refuseNics, refuseRoutes } from "./nic.ts";
import { refusal } from "../outcome.ts";
import { zoneDataset } from "../pool.ts";
import { type Draft, isSet, MACHINE_PROPERTIES, type PropertyType } from "./property.ts";
import { type State } from "../host_folder.ts";

const VNC_PASSWORD_LENGTH_MAX = 8;
/** MiB that the tool adds to the guest's memory for the hypervisor. */
const OVERHEAD: Readonly<Record<Brand, number>> = { kvm: 1024, bhyve: 1280 };
/** Least overhead of a machine, MiB. */
const OVERHEAD_MIN = 256;
/** Least swap of a machine, MiB. */
const SWAP_MIN = 256;
/** Higher shares are reduced to this. */
const CPU_SHARES_KEPT = 0xffff;
const IPC_IDS = 4096;
const RECORD_BYTES = 131_072;
const NOBODY = "00000000-0000-0000-0000-000000000000";
/** In the order in which the tool lists them. */
const VGA_TYPES = "cirrus,std,vmware,qxl,xenfb";
const PRIVILEGES = "default,-file_link_any,-net_access,-proc_fork,-proc_info,-proc_session";

/** Whether a property counts as not given: empty text or null unsets it. */
export function isUnset(value: JsonValue | undefined): boolean {
  return value === undefined || value === null || value === "";
}

/**
 * A payload with its numbers as numbers and the defaults that the tool adds before it checks values.
 * @throws {AgentError} `host` for anything that is not a number
 */
export function draftOf(payload: JsonObject, brand: Brand, pool: string): Draft {
  const draft: Draft = { ...payload };
  for (const [name, value] of Object.entries(draft)) {
    if (MACHINE_PROPERTIES[name]?.type !== "integer") continue;
    draft[name] = isUnset(value) ? undefined : Number(value);
    if (Number.isNaN(draft[name])) throw refusal(`Invalid value for ${name}: null:number`);
  }
  if (Object.hasOwn(draft, "quota")) draft.quota ??= 0;
  const defaults: JsonObject = {
    owner_uuid: NOBODY,
    autoboot: true,
    zpool: pool,
    cpu_shares: 100,
    zfs_io_priority: 100,
    max_lwps: 2000,
    ram: 256,
    vcpus: 1,
    quota: brand === "bhyve" ? 1 : 10,
    billing_id: NOBODY,
  };
  for (const [name, value] of Object.entries(defaults)) {
    if (!Object.hasOwn(draft, name)) draft[name] = value;
  }
  if (Number(draft.cpu_shares) > CPU_SHARES_KEPT) draft.cpu_shares = CPU_SHARES_KEPT;
  Object.assign(draft, memoryOf(draft, numberOf(draft.ram), brand));
  const { disks, nics, disk_driver, nic_driver } = draft;
  if (Array.isArray(disks)) {
    draft.disks = disks.map((disk) => isJsonObject(disk) ? draftDisk(disk, disk_driver) : disk);
  }
  if (Array.isArray(nics) && nic_driver !== undefined) {
    draft.nics = nics.map((nic) => isJsonObject(nic) ? { model: nic_driver, ...nic } : nic);
  }
  return draft;
}

/** NaN for anything that is not a number, and so for whatever is computed from it. */
function numberOf(value: JsonValue | undefined): number {
  return typeof value === "number" ? value : NaN;
}

/** Memory limits, which follow the guest's memory unless the payload gives higher ones. */
export function memoryOf(payload: Draft, ram: number, brand: Brand): JsonObject {
  const given = (name: string, otherwise: number) =>
    Object.hasOwn(payload, name) ? numberOf(payload[name]) : otherwise;
  const asked = given("max_physical_memory", ram + OVERHEAD[brand]);
  const least = ram + OVERHEAD_MIN;
  // Comparisons with NaN are false, so it is kept and refused later.
  const max = least > asked ? least : asked;
  const locked = given("max_locked_memory", asked);
  const swap = given("max_swap", asked < SWAP_MIN ? SWAP_MIN : asked);
  return {
    max_physical_memory: max,
    // vmadm silently adjusts limits that contradict each other.
    max_locked_memory: Math.min(least > locked ? least : locked, max),
    max_swap: Math.max(swap, max),
    max_shm_memory: given("max_shm_memory", asked),
    ...Object.fromEntries(
      ["max_msg_ids", "max_sem_ids", "max_shm_ids"].map((name) => [name, given(name, IPC_IDS)]),
    ),
  };
}

/**
 * The configuration of a new machine, with the names that `get` prints.
 * @param draft result of draftOf(), with valid values
 * @throws {AgentError} `host` with the tool's words
 */
export function configurationOf(
  state: State,
  draft: JsonObject,
  machine: { uuid: string; brand: Brand },
  createTimestamp: string,
): JsonObject {
  const { brand, uuid } = machine;
  if (brand === "bhyve" && !state.host.bhyve) throw refusal("Bhyve not supported");
  const given = objectsIn(draft.disks);
  const disks = brand === "bhyve" ? withSlots(given, []) : given;
  const nics = nicsIn(draft.nics).map((nic) => draftNic(nic));
  for (const disk of disks) refuseDisk(brand, disk);
  refuseNics(nics);
  refuseSettings(draft, nics);
  const configured = nics.map((nic, index) => nicOf(nic, index));
  const [first] = configured;
  if (first !== undefined && configured.every(({ primary }) => primary !== true)) {
    first.primary = true;
  }
  return {
    ...settingsOf(draft),
    ...(brand === "bhyve" ? ofBhyve(draft) : {}),
    uuid,
    brand,
    zonename: uuid,
    quota: quotaOf(draft.quota, brand),
    limit_priv: PRIVILEGES,
    zfs_filesystem: zoneDataset(state, uuid),
    server_uuid: state.host.uuid,
    create_timestamp: createTimestamp,
    last_modified: createTimestamp,
    disks: disks.map((disk, index) => diskOf(state, machine, disk, index)),
    nics: configured,
    hvm: true,
    v: 1,
  };
}

/** Settings as they are stored: flags as booleans, and without unset ones. */
function settingsOf(
  { disks: _disks, nics: _nics, disk_driver: _d, nic_driver: _n, ...rest }: JsonObject,
) {
  const kept: JsonObject = {
    customer_metadata: {},
    internal_metadata: {},
    tags: {},
    routes: {},
    resolvers: [],
    firewall_enabled: false,
  };
  for (const [name, value] of Object.entries(rest)) {
    if (!isUnset(value)) kept[name] = settingOf(MACHINE_PROPERTIES[name]?.type, value);
  }
  kept.zfs_root_recsize = Number(kept.zfs_root_recsize) || RECORD_BYTES;
  if (kept.zfs_root_compression === "off") delete kept.zfs_root_compression;
  return kept;
}

/** A value as it is stored: numbers, flags and lists in one form. */
export function settingOf(type: PropertyType | undefined, value: JsonValue): JsonValue {
  if (type === "integer") return Number(value);
  if (type === "flag") return isSet(value);
  return type === "list" && typeof value === "string" ? value.split(",").filter(Boolean) : value;
}

/** bhyve's serial lines, unless one of them is given, and its log. */
function ofBhyve({ com1, com2 }: JsonObject): JsonObject {
  const lines = com1 === undefined && com2 === undefined
    ? { com1: "/dev/zconsole", com2: "socket,/tmp/vm.ttyb" }
    : {};
  return { ...lines, zlog_mode: "g--", zlog_name: "platform.log" };
}

function refuseSettings(draft: JsonObject, nics: readonly JsonObject[]): void {
  const { vga, routes, zfs_root_recsize, zfs_root_compression } = draft;
  if (vga !== undefined && !VGA_TYPES.split(",").includes(String(vga))) {
    throw refusal(
      `Invalid VGA type: "${String(vga)}", supported types are: ${VGA_TYPES}`,
    );
  }
  refuseRoutes(routes, nics);
  refuseVncPassword(draft);
  if (zfs_root_recsize !== undefined && zfs_root_recsize !== 0 && !isBlockSize(zfs_root_recsize)) {
    throw refusal(
      `invalid zfs_root_recsize (${String(zfs_root_recsize)}), must be 512-131072 and a power ` +
        "of 2. (0 to disable)",
    );
  }
  if (zfs_root_compression !== undefined) {
    refuseCompression(zfs_root_compression, `type for ${String(zfs_root_compression)}`);
  }
}

/** @throws {AgentError} `host` when the password is longer than VNC's eight characters */
export function refuseVncPassword(payload: JsonObject): void {
  if (String(payload.vnc_password ?? "").length > VNC_PASSWORD_LENGTH_MAX) {
    throw refusal("VNC password is too long, maximum length is 8 characters.");
  }
}

/** GiB: on kvm, 0 means none; bhyve has at least 1. */
export function quotaOf(quota: JsonValue | undefined, brand: Brand): number {
  const wanted = Number(quota ?? 0);
  return brand === "bhyve" ? Math.max(wanted, 1) : wanted;
}
