// vmadm update: settings at once, devices by add_, update_ and remove_ lists, metadata by set_ and
// remove_. Disks come and go only while the machine is stopped.

import { isJsonObject, type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { memoryOf, quotaOf, refuseVncPassword } from "./defaults.ts";
import { diskOf, nicOf, refuseConflict } from "./device.ts";
import {
  changeMachine,
  type Machine,
  readMachine,
  readMachines,
  signalMachine,
} from "../machine.ts";
import { refusal, said, type ToolOutcome } from "../outcome.ts";
import { judge, refuseBad, withoutUnknown } from "./payload.ts";
import {
  createDataset,
  destroyDatasets,
  reserve,
  volumeName,
  volumeOf,
  zoneDataset,
} from "../pool.ts";
import { isSet, MACHINE_PROPERTIES } from "./property.ts";
import type { State } from "../state.ts";
import { MIB_PER_GIB } from "../../domain/policy.ts";

const METADATA = ["customer_metadata", "internal_metadata", "tags", "routes"];
const WHOLE = new Set([
  "cpu_cap",
  "cpu_shares",
  "max_locked_memory",
  "max_lwps",
  "max_physical_memory",
  "max_swap",
  "quota",
  "ram",
  "vcpus",
  "virtio_txburst",
  "virtio_txtimer",
  "vnc_port",
  "zfs_filesystem_limit",
  "zfs_io_priority",
  "zfs_root_recsize",
  "zfs_snapshot_limit",
]);
const MEMORY = ["ram", "max_physical_memory", "max_locked_memory", "max_swap"];
const FLAGS = new Set([
  "archive_on_delete",
  "autoboot",
  "do_not_inventory",
  "firewall_enabled",
  "indestructible_zoneroot",
]);

/** Changes in words `key=value`, where numbers, true and false are not texts. */
export function changesIn(words: readonly string[]): JsonObject {
  return Object.fromEntries(words.map((word) => {
    const at = word.indexOf("=");
    return [word.slice(0, at), valueIn(word.slice(at + 1))];
  }));
}

function valueIn(text: string): JsonValue {
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

/** `vmadm update UUID`. */
export async function update(state: State, uuid: string, changes: JsonValue): Promise<ToolOutcome> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw refusal(`VM ${uuid} not found`);
  if (!isJsonObject(changes)) throw refusal("Invalid value(s) for: payload");
  refuseBad(judge(changes, machine.brand, "update"));
  refuseVncPassword(changes);
  const known = withoutUnknown(changes, machine.brand, "update");
  refuseDiskChanges(machine, known);
  const vm = configured(machine, known);
  vm.nics = nicsAfter(state, machine, known);
  const others = (await readMachines(state)).filter((other) => other.uuid !== uuid);
  refuseConflict(vm, others);
  if (machine.brand === "bhyve" && known.quota !== undefined) {
    await reserve(state, zoneDataset(state, uuid), Number(vm.quota) * MIB_PER_GIB);
  }
  vm.disks = await disksAfter(state, machine, known);
  vm.last_modified = new Date().toISOString();
  const changed = await changeMachine(state, uuid, (it) => it.vm = vm);
  if (changed !== null && known.vnc_port !== undefined) {
    // The proxy of a running machine moves its listener.
    await signalMachine(state, changed, "SIGUSR1");
  }
  return said(`Successfully updated VM ${uuid}`);
}

function refuseDiskChanges(machine: Machine, changes: JsonObject): void {
  const some = changes.add_disks !== undefined || changes.remove_disks !== undefined;
  if (!some || machine.state === "stopped") return;
  throw refusal(
    `updates to disks are only allowed when state is "stopped", currently: ` +
      `${machine.state} (${machine.zone_state})`,
  );
}

/** The configuration after settings and metadata have changed. */
function configured(machine: Machine, changes: JsonObject): JsonObject {
  const vm: JsonObject = { ...machine.vm };
  for (const [name, value] of Object.entries(changes)) {
    if (MACHINE_PROPERTIES[name]?.on.includes("create") !== true) continue;
    if (value === "") delete vm[name];
    else vm[name] = WHOLE.has(name) ? Number(value) : FLAGS.has(name) ? isSet(value) : value;
  }
  if (changes.quota !== undefined) vm.quota = quotaOf(changes.quota, machine.brand);
  if (MEMORY.some((name) => changes[name] !== undefined)) {
    Object.assign(vm, memoryAfter(machine, changes, Number(vm.ram)));
  }
  for (const name of METADATA) {
    const set = changes[`set_${name}`];
    const removed = changes[`remove_${name}`];
    const before = isJsonObject(vm[name]) ? vm[name] : {};
    const after = { ...before, ...(isJsonObject(set) ? set : {}) };
    for (const key of Array.isArray(removed) ? removed : []) delete after[String(key)];
    vm[name] = after;
  }
  return vm;
}

/** The other two limits follow max_physical_memory when that changes, and stay as they are else. */
function memoryAfter({ vm, brand }: Machine, changes: JsonObject, ram: number): JsonObject {
  const { max_physical_memory = 0, max_locked_memory = 0, max_swap = 0 } = vm;
  const follow = changes.ram !== undefined || changes.max_physical_memory !== undefined;
  const before = follow
    ? { max_physical_memory }
    : { max_physical_memory, max_locked_memory, max_swap };
  return memoryOf({ ...before, ...changes }, ram, brand);
}

function nicsAfter(state: State, machine: Machine, changes: JsonObject): JsonObject[] {
  const removed = Array.isArray(changes.remove_nics) ? changes.remove_nics : [];
  const updates = objectsIn(changes.update_nics);
  const kept = objectsIn(machine.vm.nics).filter(({ mac }) => !removed.includes(mac ?? null));
  const updated = kept.map((nic) => {
    const update = updates.find(({ mac }) => mac === nic.mac);
    // What depends on the address is made again from it.
    return update === undefined ? nic : nicOf(
      state,
      { ...withoutAddresses(nic, update), ...update },
      Number(String(nic.interface).slice("net".length)),
    );
  });
  const taken = kept.map((nic) => String(nic.interface));
  const added = objectsIn(changes.add_nics).map((nic) => {
    let index = 0;
    while (taken.includes(`net${index}`)) index += 1;
    taken.push(`net${index}`);
    return nicOf(state, nic, index);
  });
  return [...updated, ...added];
}

function withoutAddresses(nic: JsonObject, update: JsonObject): JsonObject {
  const { ips: _ips, gateways: _gateways, ...rest } = nic;
  return update.ip === undefined && update.gateway === undefined ? nic : rest;
}

/** Makes and destroys the volumes of disks that come and go, and returns the disks that remain. */
async function disksAfter(
  state: State,
  machine: Machine,
  changes: JsonObject,
): Promise<JsonObject[]> {
  const removed = Array.isArray(changes.remove_disks) ? changes.remove_disks : [];
  const before = objectsIn(machine.vm.disks);
  const gone = before.filter(({ path }) => path !== undefined && removed.includes(path));
  await destroyDatasets(state, gone.map(volumeOf).filter((name) => name !== null));
  const updates = objectsIn(changes.update_disks);
  const disks = before.filter((disk) => !gone.includes(disk)).map((disk) => {
    const update = updates.find(({ path }) => path === disk.path);
    return update === undefined ? disk : { ...disk, ...update };
  });
  for (const disk of objectsIn(changes.add_disks)) {
    let index = disks.length;
    const taken = disks.map(volumeOf);
    while (taken.includes(volumeName(state, machine.brand, machine.uuid, index))) index += 1;
    const added = diskOf(state, machine, disk, index, disks[0]?.model);
    const name = volumeOf(added);
    if (name !== null) {
      const reservation = Number(added.refreservation);
      await createDataset(state, { name, kind: "volume", reservation });
    }
    disks.push(added);
  }
  return disks;
}
