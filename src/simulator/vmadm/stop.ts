// vmadm stop, reboot and delete. A graceful stop presses the guest's power button (SIGTERM to its process).
// For kvm, the timer that ends a guest ignoring it belongs to that process. For bhyve it belongs to this
// call, and is lost if this call is killed.

import { join } from "@std/path";
import { absent } from "../../runtime/regular_file.ts";
import { LOOK_MS, startMachine } from "./boot.ts";
import { spend, strikes } from "../fault.ts";
import {
  changeMachine,
  halted,
  isAlive,
  KILLED,
  type Machine,
  machineFile,
  processFile,
  readMachine,
  signalMachine,
  UP,
  zonepath,
} from "../machine.ts";
import { failed, firstOf, refusal, said, type ToolOutcome } from "../outcome.ts";
import { datasetsOf, destroyDatasets, zoneDataset } from "../pool.ts";
import { locked, sleep, type State } from "../host_folder.ts";

/** A waiting call gives up this long after the guest should have been halted, milliseconds. */
const GRACE_MS = 300_000;
/** How long a reboot waits for a bhyve guest before halting it, milliseconds. */
const BHYVE_REBOOT_MS = 10_000;

/** Arguments of `vmadm stop`; null leaves the timeout to the machine. */
interface StopCall {
  readonly force: boolean;
  readonly timeoutMs: number | null;
}

/**
 * `vmadm stop UUID [-F] [-t SECONDS]`.
 * @throws {AgentError} as refusal() when the fault `vmadmd_down` strikes
 */
export async function stop(state: State, uuid: string, args: StopCall): Promise<ToolOutcome> {
  const machine = await readMachine(state, uuid);
  if (machine === null) return failed(args.force ? "bad statusCode: 404" : `VM ${uuid} not found`);
  const idle = `VM ${uuid} is already not 'running' (currently: ${machine.state})`;
  if (args.force) {
    // The tool loses its code for "nothing to do", so this is an error.
    if (!UP.includes(machine.state)) return failed(firstOf(idle));
    await changeMachine(state, uuid, (it) => it.vm.autoboot = false);
    await halt(state, uuid);
    return said(`Successfully completed stop for VM ${uuid}`);
  }
  await changeMachine(state, uuid, (it) => it.vm.autoboot = false);
  // The tool does not wait for a machine that is already stopping.
  if (machine.state !== "running") return said(idle);
  if (machine.brand === "kvm" && await strikes(state, "vmadmd_down")) {
    throw refusal(firstOf("connect ECONNREFUSED"));
  }
  await powerDown(state, machine, args.timeoutMs ?? state.host.timeouts.stop);
  return said(`Successfully completed stop for VM ${uuid}`);
}

/** Asks the guest to shut down and waits, or halts it when the time is up. */
async function powerDown(state: State, machine: Machine, timeoutMs: number): Promise<void> {
  const { uuid } = machine;
  await changeMachine(state, uuid, (it) => {
    if (it.state === "running" && it.brand === "kvm") it.state = "stopping";
    it.stop_timeout_ms = timeoutMs;
  });
  await signalMachine(state, machine, "SIGTERM");
  const mine = machine.brand === "bhyve";
  const deadline = Date.now() + timeoutMs + (mine ? 0 : GRACE_MS);
  while (await isAlive(state, uuid)) {
    if (Date.now() > deadline) {
      if (mine) return await halt(state, uuid);
      throw refusal(`timed out waiting for zone to stop`);
    }
    await sleep(LOOK_MS);
  }
  await readMachine(state, uuid);
}

/** Ends the process of a machine at once. */
async function halt(state: State, uuid: string): Promise<void> {
  const machine = await changeMachine(state, uuid, (it) => {
    if (!["ready", "running", "stopping"].includes(it.state)) return;
    it.state = "shutting_down";
    it.zone_state = "shutting_down";
  });
  if (machine === null) return;
  await spend(state, "halt");
  await endProcess(state, machine);
  await changeMachine(state, uuid, (it) => {
    if (it.state === "shutting_down") halted(it, KILLED);
  });
}

/** Kills the process and waits until the kernel has ended it. */
export async function endProcess(state: State, machine: Machine): Promise<void> {
  await signalMachine(state, machine, "SIGKILL");
  while (machine.process !== null && await isAlive(state, machine.uuid)) await sleep(LOOK_MS);
}

/**
 * `vmadm reboot UUID [-F]`. Only a reset on kvm keeps the words given at boot.
 * @throws {AgentError} as refusal() when there is no such machine, or it is not running
 */
export async function reboot(state: State, uuid: string, force: boolean): Promise<ToolOutcome> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw refusal("bad statusCode: 404");
  if (machine.state !== "running") {
    const verb = force ? "reset" : "reboot";
    const end = force ? "." : "";
    throw refusal(`Cannot ${verb} vm from state "${machine.state}", must be "running"${end}`);
  }
  const done = said(`Successfully completed reboot for VM ${uuid}`);
  if (force && machine.brand === "kvm") {
    await signalMachine(state, machine, "SIGHUP");
    return done;
  }
  if (force) await halt(state, uuid);
  else {
    const kvmMs = state.host.timeouts.stop;
    await powerDown(state, machine, machine.brand === "kvm" ? kvmMs : BHYVE_REBOOT_MS);
  }
  await startMachine(state, uuid, { order: null, files: [] }, "stopped");
  return done;
}

/** `vmadm delete UUID`: removes the machine with its zone root and its volumes. */
export async function remove(state: State, uuid: string): Promise<ToolOutcome> {
  const prefix = `Failed to delete VM ${uuid}: `;
  const machine = await readMachine(state, uuid);
  if (machine === null) return failed(`${prefix}VM ${uuid} not found`);
  if (machine.vm.indestructible_zoneroot === true) {
    return failed(`${prefix}indestructible_zoneroot is set, cannot delete`);
  }
  await halt(state, uuid);
  // A zone that was never installed leaves the dataset of its root behind.
  const kept = machine.brand === "bhyve" && machine.state === "configured"
    ? zoneDataset(state, uuid)
    : null;
  const datasets = (await datasetsOf(state, uuid)).filter((name) => name !== kept);
  if (await strikes(state, "delete_busy")) {
    const name = datasets[0] ?? uuid;
    return failed(
      `${prefix}Command failed: cannot destroy '${name}': dataset is busy\n`,
    );
  }
  await spend(state, "delete");
  const leaked = await strikes(state, "delete_leaks") ? datasets[0] : undefined;
  await destroyDatasets(state, datasets.filter((name) => name !== leaked));
  await removeIfThere(zonepath(state, uuid));
  await locked(state.dir, async () => {
    await removeIfThere(machineFile(state, uuid));
    await removeIfThere(processFile(state, uuid));
    for (const kind of ["input", "emulator"]) {
      await removeIfThere(join(state.dir, "processes", `${uuid}.${kind}`));
    }
  });
  return said(`Successfully deleted VM ${uuid}`);
}

async function removeIfThere(path: string): Promise<void> {
  await Deno.remove(path, { recursive: true }).catch(absent);
}
