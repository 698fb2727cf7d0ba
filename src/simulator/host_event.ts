// What happens to a host and its guests without anybody calling vmadm: a guest that shuts down,
// resets or crashes, a proxy that restarts, and the host going down.

import { AgentError } from "../domain/error.ts";
import type { JsonObject } from "../domain/json.ts";
import { startMachine } from "./vmadm/boot.ts";
import {
  changeMachine,
  halted,
  type Machine,
  readMachine,
  readMachines,
  signalMachine,
} from "./machine.ts";
import type { State } from "./state.ts";
import { endProcess } from "./vmadm/stop.ts";

/** Events of a running machine, with the signal that its process takes for it. */
const EVENTS: Readonly<Record<string, Deno.Signal>> = {
  "power-off": "SIGINT",
  reset: "SIGHUP",
  crash: "SIGKILL",
  "proxy-restart": "SIGUSR1",
};

/**
 * Lets something happen to a running machine.
 * @throws {AgentError} `not_found` when it does not run, `invalid_argument` for an unknown event
 */
export async function actOnGuest(state: State, uuid: string, event: string): Promise<void> {
  const signal = EVENTS[event];
  if (signal === undefined) {
    throw new AgentError("invalid_argument", `Cannot act on guest: unknown event "${event}"`);
  }
  const machine = await readMachine(state, uuid);
  if (machine === null || machine.process === null) {
    throw new AgentError("not_found", `Cannot act on guest ${uuid}: it does not run`);
  }
  await signalMachine(state, machine, signal);
}

/**
 * What a guest came up from and what was asked for, which no subcommand of vmadm tells.
 * @throws {AgentError} `not_found`
 */
export async function describeGuest(state: State, uuid: string): Promise<JsonObject> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw new AgentError("not_found", `Cannot describe guest ${uuid}`);
  const { booted, boot, installed } = machine;
  return {
    booted: booted === null ? null : { ...booted },
    order: boot?.order ?? null,
    files: (boot?.files ?? []).map((file) => ({ ...file })),
    installed,
  };
}

/** Ends the processes of all machines in order, as `vmadm stop -F` does; autoboot stays. */
export async function stopAll(state: State): Promise<void> {
  for (const machine of await readMachines(state)) await endWith(state, machine, 0);
}

/**
 * The host loses its power and comes back. What create had not finished stays as it was.
 * @param autoboot whether machines with that property start again, as on a real host
 */
export async function powerCycle(state: State, autoboot: boolean): Promise<void> {
  const machines = await readMachines(state);
  for (const machine of machines) await endWith(state, machine, 9);
  if (!autoboot) return;
  for (const { uuid } of machines.filter(({ vm }) => vm.autoboot === true)) {
    await startMachine(state, uuid, { order: null, files: [] }, "stopped");
  }
}

async function endWith(state: State, machine: Machine, exitStatus: number): Promise<void> {
  if (!["ready", "running", "stopping", "shutting_down"].includes(machine.state)) return;
  await endProcess(state, machine);
  // A start that is still under way sees this and gives up.
  await changeMachine(state, machine.uuid, (it) => halted(it, exitStatus));
}
