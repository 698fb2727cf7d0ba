// Makes the configuration of a new machine from a checked payload: adds defaults, and runs the checks
// that follow those of values and missing properties.

import { type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { diskOf, nicOf, refuseUnknownTags } from "./device.ts";
import type { Brand } from "../machine.ts";
import { refusal } from "../outcome.ts";
import { zoneDataset } from "../pool.ts";
import { isSet } from "./property.ts";
import { type State } from "../state.ts";

const VNC_PASSWORD_LENGTH_MAX = 8;
/** MiB that the tool adds to the guest's memory for its hypervisor. */
const OVERHEAD: Readonly<Record<Brand, number>> = { kvm: 1024, bhyve: 1280 };
/** The least such overhead, MiB. */
const OVERHEAD_MIN = 256;
/** The least swap, MiB. */
const SWAP_MIN = 256;
const NOBODY = "00000000-0000-0000-0000-000000000000";
const FLAGS = [
  "archive_on_delete",
  "do_not_inventory",
  "firewall_enabled",
  "indestructible_zoneroot",
] as const;

/**
 * The configuration of a new machine, with the names that `get` prints.
 * @throws {AgentError} `host` with the tool's words
 */
export function configurationOf(
  state: State,
  payload: JsonObject,
  machine: { uuid: string; brand: Brand },
  createTimestamp: string,
): JsonObject {
  const { brand, uuid } = machine;
  refuseSettings(state, payload, brand);
  const ram = Number(payload.ram ?? 256);
  const memory = memoryOf(payload, ram, brand);
  const disks = objectsIn(payload.disks);
  const firstModel = disks[0]?.model;
  const nics = nicsOf(state, payload, brand);
  return {
    ...withoutDevices(payload),
    uuid,
    brand,
    zonename: uuid,
    autoboot: payload.autoboot === undefined ? true : isSet(payload.autoboot),
    vcpus: Number(payload.vcpus ?? 1),
    ram,
    ...memory,
    quota: quotaOf(payload.quota, brand),
    cpu_shares: Number(payload.cpu_shares ?? 100),
    zfs_io_priority: Number(payload.zfs_io_priority ?? 100),
    max_lwps: Number(payload.max_lwps ?? 2000),
    owner_uuid: payload.owner_uuid ?? NOBODY,
    billing_id: payload.billing_id ?? NOBODY,
    hostname: payload.hostname ?? payload.alias ?? uuid,
    ...(brand === "kvm" ? { vga: payload.vga ?? "std" } : {}),
    ...(brand === "bhyve"
      ? { bootrom: payload.bootrom ?? "bios", com1: payload.com1 ?? "/dev/zconsole" }
      : {}),
    vnc_port: Number(payload.vnc_port ?? 0),
    customer_metadata: payload.customer_metadata ?? {},
    internal_metadata: payload.internal_metadata ?? {},
    tags: payload.tags ?? {},
    routes: payload.routes ?? {},
    resolvers: payload.resolvers ?? [],
    zfs_root_recsize: Number(payload.zfs_root_recsize ?? 131_072),
    zfs_filesystem: zoneDataset(state, uuid),
    zpool: state.host.pool.name,
    ...Object.fromEntries(FLAGS.map((name) => [name, isSet(payload[name])])),
    server_uuid: state.host.uuid,
    create_timestamp: createTimestamp,
    last_modified: createTimestamp,
    disks: disks.map((disk, index) => diskOf(state, machine, disk, index, firstModel)),
    nics,
    v: 1,
  };
}

function withoutDevices(payload: JsonObject): JsonObject {
  const names = ["disks", "nics"];
  return Object.fromEntries(Object.entries(payload).filter(([name]) => !names.includes(name)));
}

function refuseSettings(state: State, payload: JsonObject, brand: Brand): void {
  if (brand === "bhyve" && !state.host.bhyve) throw refusal("Bhyve not supported");
  refuseVncPassword(payload);
  const pools = [payload, ...objectsIn(payload.disks)].map(({ zpool }) => zpool);
  if (pools.some((pool) => pool !== undefined && pool !== state.host.pool.name)) {
    throw refusal("Invalid value(s) for: zpool");
  }
  const boots = objectsIn(payload.disks).filter(({ boot }) => isSet(boot));
  // This message is the simulator's own.
  if (brand === "bhyve" && boots.length > 1) throw refusal("Only one boot disk allowed");
}

/** @throws {AgentError} `host` when the password is longer than VNC's eight characters */
export function refuseVncPassword(payload: JsonObject): void {
  if (String(payload.vnc_password ?? "").length > VNC_PASSWORD_LENGTH_MAX) {
    throw refusal("VNC password is too long, maximum length is 8 characters.");
  }
}

/** Memory limits that follow the guest's memory unless the payload says more. */
export function memoryOf(payload: JsonObject, ram: number, brand: Brand): JsonObject {
  const max = Math.max(
    Number(payload.max_physical_memory ?? ram + OVERHEAD[brand]),
    ram + OVERHEAD_MIN,
  );
  return {
    max_physical_memory: max,
    // Neither can pass the other way: vmadm moves them without a word.
    max_locked_memory: Math.min(Number(payload.max_locked_memory ?? max), max),
    max_swap: Math.max(Number(payload.max_swap ?? max), max, SWAP_MIN),
  };
}

/** GiB: 0 means none on kvm, while bhyve never has less than 1. */
export function quotaOf(quota: JsonValue | undefined, brand: Brand): number {
  const wanted = Number(quota ?? (brand === "kvm" ? 10 : 1));
  return brand === "bhyve" ? Math.max(wanted, 1) : wanted;
}

function nicsOf(state: State, payload: JsonObject, brand: Brand): JsonObject[] {
  const given = objectsIn(payload.nics);
  if (given.filter(({ primary }) => Boolean(primary)).length > 1) {
    throw refusal("payload specifies more than 1 primary NIC");
  }
  if (given.every(({ model, nic_driver }) => (model ?? nic_driver) !== undefined)) {
    refuseUnknownTags(state, given);
  }
  const nics = given.map((nic, index) => nicOf(state, nic, index));
  const first = nics[0];
  if (brand === "bhyve" && first !== undefined && nics.every(({ primary }) => primary !== true)) {
    return [{ ...first, primary: true }, ...nics.slice(1)];
  }
  return nics;
}
