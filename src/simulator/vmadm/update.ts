// vmadm update: settings at once, devices by add_, update_ and remove_ lists, metadata by set_ and
// remove_. Disks come and go only while the machine is stopped.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue, objectsIn } from "../../domain/json.ts";
import { isUnset, memoryOf, quotaOf, refuseVncPassword, settingOf } from "./defaults.ts";
import { diskOf, draftDisk, refuseConflict, refuseDisk, withSlots } from "./device.ts";
import { draftNic, nicOf, refuseNetworks, refuseNics, refuseRoutes } from "./nic.ts";
import {
  changeMachine,
  type Machine,
  readMachine,
  readMachines,
  signalMachine,
} from "../machine.ts";
import { firstOf, refusal, said, type ToolOutcome } from "../outcome.ts";
import { judge, refuseBad, withoutUnknown } from "./payload.ts";
import {
  createDataset,
  destroyDatasets,
  reserve,
  volumeName,
  volumeOf,
  zoneDataset,
} from "../pool.ts";
import { MACHINE_PROPERTIES } from "./property.ts";
import { sleep, type State } from "../host_folder.ts";
import { MIB_PER_GIB } from "../../domain/policy.ts";

const METADATA = ["customer_metadata", "internal_metadata", "tags", "routes"];
const MEMORY = ["ram", "max_physical_memory", "max_locked_memory", "max_swap"];

/** Changes given as words `key=value`; numbers, true and false are not strings. */
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

/**
 * `vmadm update UUID`.
 * @throws {AgentError} as refusal() when there is no such machine, or for improper changes
 */
export async function update(state: State, uuid: string, changes: JsonValue): Promise<ToolOutcome> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw refusal(`VM ${uuid} not found`);
  if (!isJsonObject(changes)) throw refusal("Invalid value(s) for: payload");
  refuseBad(judge(state, changes, machine.brand, "update"));
  refuseVncPassword(changes);
  const known = withoutUnknown(changes, machine.brand, "update");
  refuseDiskChanges(machine, known);
  const vm = configured(machine, known);
  const nics = nicsAfter(machine, known);
  refuseNics(nics);
  refuseRoutes(vm.routes, nics);
  vm.nics = nics.map((nic) => nicOf(nic, Number(String(nic.interface).slice("net".length))));
  const others = (await readMachines(state)).filter((other) => other.uuid !== uuid);
  refuseConflict(vm, others);
  refuseNetworks(state, nics);
  if (machine.brand === "bhyve" && known.quota !== undefined) {
    await inParallel(reserve(state, zoneDataset(state, uuid), Number(vm.quota) * MIB_PER_GIB));
  }
  vm.disks = await inParallel(disksAfter(state, machine, known));
  vm.last_modified = new Date().toISOString();
  const changed = await changeMachine(state, uuid, (it) => it.vm = vm);
  if (changed !== null && known.vnc_port !== undefined) {
    // Makes the proxy of the running machine move its listener.
    await signalMachine(state, changed, "SIGUSR1");
  }
  if (hasNoEvent(machine, known)) {
    await sleep(state.host.timeouts.event);
    throw refusal(firstOf(`vminfod watchForChanges "VM.js update (${uuid})" timeout exceeded`));
  }
  return said(`Successfully updated VM ${uuid}`);
}

/** Makes a change while the tool waits for the event that reports it. */
async function inParallel<T>(change: Promise<T>): Promise<T> {
  try {
    return await change;
  } catch (error) {
    if (!(error instanceof AgentError) || error.code !== "host") throw error;
    throw refusal(firstOf(error.message));
  }
}

/** Whether the tool waits for a change that never comes: bhyve's quota is never 0. */
function hasNoEvent({ brand, vm }: Machine, { remove_disks, quota }: JsonObject): boolean {
  const paths = objectsIn(vm.disks).map(({ path }) => path);
  const removed = Array.isArray(remove_disks) ? remove_disks : [];
  return removed.some((path) => !paths.includes(path)) ||
    (brand === "bhyve" && quota !== undefined && Number(quota) === 0);
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
    if (isUnset(value)) delete vm[name];
    else vm[name] = settingOf(MACHINE_PROPERTIES[name]?.type, value);
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

/** The other two limits keep their distance from max_physical_memory when that changes. */
function memoryAfter({ vm, brand }: Machine, changes: JsonObject, ram: number): JsonObject {
  const numbers = (object: JsonObject, name: string) => Number(object[name] ?? 0);
  const before = numbers(vm, "max_physical_memory");
  const asked = changes.ram === undefined ? before : memoryOf({}, ram, brand).max_physical_memory;
  const max = Number(changes.max_physical_memory ?? asked);
  const moved = (name: string) => numbers(vm, name) + max - before;
  const limits = {
    max_physical_memory: max,
    max_locked_memory: Number(changes.max_locked_memory ?? moved("max_locked_memory")),
    max_swap: Number(changes.max_swap ?? moved("max_swap")),
  };
  return memoryOf({ ...vm, ...limits }, ram, brand);
}

function nicsAfter(machine: Machine, changes: JsonObject): JsonObject[] {
  const removed = Array.isArray(changes.remove_nics) ? changes.remove_nics : [];
  const updates = objectsIn(changes.update_nics);
  const kept = objectsIn(machine.vm.nics).filter(({ mac }) => !removed.includes(mac ?? null));
  const updated = kept.map((nic) => {
    const update = updates.find(({ mac }) => mac === nic.mac);
    // Whatever depends on the address is derived again.
    return draftNic({ ...withoutAddresses(nic, update ?? {}), ...update });
  });
  const taken = kept.map((nic) => String(nic.interface));
  const added = objectsIn(changes.add_nics).map((nic) => {
    let index = 0;
    while (taken.includes(`net${index}`)) index += 1;
    taken.push(`net${index}`);
    return draftNic({ ...nic, interface: `net${index}` }, kept[0]?.model);
  });
  return [...updated, ...added];
}

/** Drops the form of an address that an update replaces; a new address replaces both. */
function withoutAddresses(nic: JsonObject, update: JsonObject): JsonObject {
  const { ip: _ip, netmask, gateway: _gateway, ips, gateways, ...rest } = nic;
  return {
    ...rest,
    ...(update.ip === undefined ? { ips: ips ?? [] } : netmask === undefined ? {} : { netmask }),
    ...(update.gateway === undefined && gateways !== undefined ? { gateways } : {}),
  };
}

/** Makes the volumes of added disks and destroys those of removed ones. @returns the remaining disks */
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
    const draft = draftDisk(disk, disks[0]?.model);
    const [slotted = draft] = machine.brand === "bhyve" ? withSlots([draft], disks) : [draft];
    refuseDisk(machine.brand, slotted);
    const added = diskOf(state, machine, slotted, index);
    const name = volumeOf(added);
    if (name !== null) {
      const reservation = Number(added.refreservation);
      await createDataset(state, { name, kind: "volume", reservation });
    }
    disks.push(added);
  }
  return disks;
}
