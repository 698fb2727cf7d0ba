// vmadm create and validate. The steps and what they leave behind follow the documentation. Only volumes are
// rolled back, if one of them cannot be made. A killed create leaves datasets without a zone, or a zone that
// is neither running nor stopped.

import { join } from "@std/path";
import { isUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject, objectsIn } from "../../domain/json.ts";
import { startMachine } from "./boot.ts";
import { configurationOf, draftOf } from "./defaults.ts";
import { refuseConflict } from "./device.ts";
import { die, spend, strikes } from "../fault.ts";
import {
  changeMachine,
  type Machine,
  machineFile,
  readMachine,
  readMachines,
  UP,
  zonepath,
} from "../machine.ts";
import { refuseNetworks } from "./nic.ts";
import { crash, refusal, said, type ToolOutcome } from "../outcome.ts";
import { brandOf, judge, parsePayload, refuseBad, verdictJson, withoutUnknown } from "./payload.ts";
import { createDataset, destroyDatasets, volumeOf, zoneDataset } from "../pool.ts";
import { exists, locked, sleep, type State, writeJson } from "../host_folder.ts";
import { MIB_PER_GIB } from "../../domain/policy.ts";

/** Memory above which the start of a machine may take longer, MiB. */
const RAM_STEP = 4096;

/**
 * `vmadm validate create`, or `validate update BRAND`: checks the payload and changes nothing.
 * @throws {AgentError} as crash() for a payload that is not an object
 */
export async function validate(
  state: State,
  text: string,
  action: "create" | "update",
  updateBrand: string | undefined,
): Promise<ToolOutcome> {
  const payload = parsePayload(text);
  if (!isJsonObject(payload)) throw crash("Cannot read property 'brand' of null");
  const brand = brandOf(action === "update" ? { brand: updateBrand ?? "" } : payload);
  const given = action === "update" ? updateBrand : payload.brand;
  const judged = brand === null || given === undefined
    ? { bad_brand: String(given) }
    : "other" in brand
    ? { missing_properties: ["image_uuid"] }
    : await strikes(state, "validate_refuses")
    ? { bad_values: ["ram"] }
    : verdictJson(judge(state, payload, brand.known, action));
  if (judged !== null) {
    return { code: 1, stdout: "", stderr: JSON.stringify(judged, null, 2) + "\n" };
  }
  const name = brand !== null && "known" in brand ? brand.known : "";
  return said(`VALID '${action}' payload for ${name} brand VMs.`);
}

/**
 * `vmadm create` with the text of its payload.
 * @throws {AgentError} as refusal() for an improper payload
 */
export async function create(state: State, text: string): Promise<ToolOutcome> {
  const payload = parsePayload(text);
  if (!isJsonObject(payload)) {
    throw refusal("Invalid JSON payload: Cannot call method 'hasOwnProperty' of null");
  }
  const uuid = typeof payload.uuid === "string" ? payload.uuid : crypto.randomUUID();
  const message = `Successfully created VM ${uuid}`;
  if (await strikes(state, "create_without_machine")) return said(message);
  const machine = await plan(state, payload, uuid);
  await makeVolumes(state, machine);
  if (await strikes(state, "create_killed_after_datasets")) return await die("SIGKILL");
  await install(state, machine);
  if (machine.vm.autoboot === true) await bootProvisioned(state, machine);
  const silent = await strikes(state, "create_without_message");
  return silent ? { code: 0, stdout: "", stderr: "" } : said(message);
}

/**
 * Makes all checks that come before the first change.
 * @throws {AgentError} `host` with the tool's message; `aborted` where an exception ends the tool
 */
export async function plan(state: State, payload: JsonObject, uuid: string): Promise<Machine> {
  const named = brandOf(payload);
  if (named === null) throw crash("Cannot read property 'features' of undefined");
  if ("other" in named) throw refusal("Missing required properties: image_uuid");
  const brand = named.known;
  if (isUuid(uuid) && await readMachine(state, uuid) !== null) {
    throw refusal(`VM with UUID ${uuid} already exists`);
  }
  const draft = draftOf(payload, brand, state.host.pool.name);
  refuseBad(judge(state, draft, brand, "create"));
  const known = withoutUnknown(draft, brand, "create");
  const now = new Date();
  const vm = configurationOf(state, known, { uuid, brand }, now.toISOString());
  refuseConflict(vm, await readMachines(state), await strikes(state, "conflict"));
  refuseNetworks(state, objectsIn(vm.nics));
  return {
    uuid,
    brand,
    vm,
    state: "configured",
    zone_state: "configured",
    transition_expire: null,
    boot: null,
    process: null,
    booted: null,
    boot_timestamp: null,
    exit_timestamp: null,
    exit_status: null,
    stop_timeout_ms: null,
    // A volume made from an image has a system installed.
    installed: disksOf(vm).some(({ image_uuid }) => image_uuid !== undefined),
  };
}

function disksOf(vm: JsonObject): JsonObject[] {
  return Array.isArray(vm.disks) ? vm.disks.filter(isJsonObject) : [];
}

/** Makes the volumes; if one cannot be made, those of this call are destroyed again. */
async function makeVolumes(state: State, machine: Machine): Promise<void> {
  const outOfSpace = await strikes(state, "out_of_space");
  const made: string[] = [];
  const make = async (name: string, kind: "filesystem" | "volume", reservation: number) => {
    await createDataset(state, { name, kind, reservation }, outOfSpace && kind === "volume");
    made.push(name);
  };
  try {
    // bhyve's volumes are below the dataset of the zone, kvm's beside it.
    if (machine.brand === "bhyve") {
      const quota = Number(machine.vm.quota) * MIB_PER_GIB;
      await make(zoneDataset(state, machine.uuid), "filesystem", quota);
    }
    for (const disk of disksOf(machine.vm)) {
      const volume = volumeOf(disk);
      if (volume !== null) await make(volume, "volume", Number(disk.refreservation));
    }
  } catch (error) {
    await destroyDatasets(state, made);
    throw error;
  }
  await spend(state, "volumes");
}

/** zonecfg, then zoneadm install, then the flag: configured, incomplete, provisioning, stopped. */
async function install(state: State, machine: Machine): Promise<void> {
  const { uuid } = machine;
  await locked(state.dir, async () => {
    if (await exists(machineFile(state, uuid))) {
      throw refusal(`Command failed: ${uuid}: zone already exists`);
    }
    await writeJson(machineFile(state, uuid), machine);
  });
  await spend(state, "configure");
  if (await strikes(state, "create_killed_after_zonecfg")) return await die("SIGKILL");
  await changeMachine(state, uuid, (it) => {
    it.state = "incomplete";
    it.zone_state = "incomplete";
  });
  if (machine.brand === "kvm") {
    const name = zoneDataset(state, uuid);
    await createDataset(state, { name, kind: "filesystem", reservation: 0 });
  }
  const flag = await makeZoneRoot(state, uuid);
  await spend(state, "install");
  const expire = Date.now() + provisionMs(state, machine);
  await changeMachine(state, uuid, (it) => {
    it.state = "provisioning";
    it.zone_state = "installed";
    it.transition_expire = expire;
  });
  if (await strikes(state, "create_killed_after_install")) return await die("SIGKILL");
  await spend(state, "provision");
  if (machine.vm.autoboot === true) return;
  await Deno.rename(flag, join(zonepath(state, uuid), "root/var/svc/provision_success"));
  await changeMachine(state, uuid, (it) => {
    it.state = "stopped";
    it.transition_expire = null;
  });
}

/** Makes the folders of a new zone root, and the flag that marks it as being provisioned. */
async function makeZoneRoot(state: State, uuid: string): Promise<string> {
  const root = join(zonepath(state, uuid), "root");
  for (const folder of ["tmp", "var/svc", "etc"]) {
    await Deno.mkdir(join(root, folder), { recursive: true });
  }
  await Deno.chmod(root, 0o755);
  await Deno.chmod(join(root, "tmp"), 0o1777);
  const flag = join(root, "var/svc/provisioning");
  await Deno.writeTextFile(flag, "");
  return flag;
}

function provisionMs(state: State, machine: Machine): number {
  const steps = Math.max(1, Math.ceil(Number(machine.vm.ram) / RAM_STEP));
  return state.host.timeouts.provision * steps;
}

/** With autoboot the machine is started at once, and create waits for it to come up. */
async function bootProvisioned(state: State, machine: Machine): Promise<void> {
  const { uuid } = machine;
  const fail = async (text: string) => {
    await changeMachine(state, uuid, (it) => {
      it.state = "failed";
      it.transition_expire = null;
    });
    return refusal(text);
  };
  if (await strikes(state, "provision_timeout")) {
    throw await fail(`timed out waiting for /var/svc/provisioning to move for ${uuid}`);
  }
  try {
    await startMachine(state, uuid, { order: null, files: [] }, "provisioning");
  } catch (error) {
    throw await fail(error instanceof Error ? error.message : String(error));
  }
  // The hypervisor has died, so nothing removes the flag.
  if (!UP.includes((await readMachine(state, uuid))?.state ?? "stopped")) {
    await sleep(state.host.timeouts.provision);
    throw await fail(`timed out waiting for /var/svc/provisioning to move for ${uuid}`);
  }
  const root = join(zonepath(state, uuid), "root/var/svc");
  await Deno.rename(join(root, "provisioning"), join(root, "provision_success"));
}
