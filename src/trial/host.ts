// The host of a trial: always simulated, in the trial's own folder or in a given one. Machines that already
// run there keep running; those that the trial started end with it. Listing and ending machines bypass vmadm,
// whose injected faults are meant for the workflow.

import { join } from "@std/path";
import type { SharedParts } from "../agent/shared_parts.ts";
import { AgentError } from "../domain/error.ts";
import type { JsonObject } from "../domain/json.ts";
import { changeMachine, halted, type Machine, readMachines, UP } from "../simulator/machine.ts";
import { openState, sleep, type State } from "../simulator/host_folder.ts";
import { endProcess } from "../simulator/vmadm/stop.ts";
import { viewOf } from "../simulator/vmadm/query.ts";
import { simulatedTransport, type Transport } from "../host/transport.ts";
import { openVmadm, type Vmadm } from "../host/vmadm/vmadm.ts";

/** How long calls of vmadm may still run when the trial ends, before they are killed. Milliseconds. */
const SETTLE_MS_MAX = 10_000;
/** How long a process of a machine may take from its start until it says that it runs. */
const START_MS_MAX = 2_000;
const LOOK_MS = 20;
/** Fields shown of a machine: those of vmadm list. */
const FIELDS = [
  "uuid",
  "alias",
  "brand",
  "state",
  "ram",
  "vcpus",
  "quota",
  "autoboot",
  "zonepath",
];

/** The transport that tasks use. */
export interface TrialHost {
  readonly transport: Transport;
  readonly vmadm: Vmadm;
  machines(): Promise<JsonObject[]>;
}

/**
 * Opens the host.
 * @param folder the trial's own
 * @param kept absolute folder of a simulated host that is kept; null for one of the trial's own
 * @throws {AgentError} `invalid_argument` when `kept` holds something else
 */
export async function openTrialHost(
  { self, opened }: SharedParts,
  folder: string,
  kept: string | null,
): Promise<TrialHost> {
  if (kept !== null) await checkHostFolder(kept);
  const stateDir = kept ?? join(folder, "simulator");
  const state = await openState(stateDir);
  const before = new Set((await readMachines(state)).filter(isUp).map(({ uuid }) => uuid));
  opened("machines", () => endMachines(state, before));
  const transport = watched(opened, simulatedTransport({ self, stateDir }));
  return {
    transport,
    vmadm: openVmadm(transport),
    machines: async () => {
      const views = [];
      for (const machine of await readMachines(state)) views.push(await viewOf(state, machine));
      return views.map(someFields);
    },
  };
}

/** Refuses a mistyped folder, which would otherwise become a new host. */
async function checkHostFolder(folder: string): Promise<void> {
  const names: string[] = [];
  try {
    for await (const { name } of Deno.readDir(folder)) names.push(name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  if (names.length === 0 || names.includes("host.json")) return;
  const message = `Cannot use ${JSON.stringify(folder)} as a simulated host: it holds ` +
    "other files, expected a new folder, or one of an earlier trial";
  throw new AgentError("invalid_argument", message);
}

function isUp({ state }: Machine): boolean {
  return UP.includes(state);
}

/** Ends what the trial has started, as a power cut does. */
async function endMachines(state: State, before: ReadonlySet<string>): Promise<void> {
  const ours = async () => (await readMachines(state)).filter(({ uuid }) => !before.has(uuid));
  // The process of an interrupted start may still be starting, and would find its folder removed; one that
  // has not appeared by then was never started.
  for (let waitedMs = 0; waitedMs < START_MS_MAX; waitedMs += LOOK_MS) {
    if (!(await ours()).some((machine) => machine.state === "ready")) break;
    await sleep(LOOK_MS);
  }
  for (const machine of (await ours()).filter(isUp)) {
    await endProcess(state, machine);
    await changeMachine(state, machine.uuid, (it) => halted(it, 0));
  }
}

function someFields(view: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(view).filter(([name]) => FIELDS.includes(name)));
}

/** A host whose calls have ended before the trial shuts it down, and that accepts none afterwards. */
function watched(opened: SharedParts["opened"], transport: Transport): Transport {
  const underWay = new Set<Promise<unknown>>();
  const late = new AbortController();
  let closed = false;
  opened("calls of vmadm", async () => {
    // A create that was given up would look at what it has made.
    closed = true;
    const timer = setTimeout(() => late.abort(), SETTLE_MS_MAX);
    await Promise.all(underWay);
    clearTimeout(timer);
  });
  return {
    ...transport,
    // Without `released`: nothing of a trial keeps running after its command has ended.
    vmadm: async (args, { released: _, signal, ...options }) => {
      if (closed) throw new AgentError("aborted", "Cannot run vmadm: the trial has ended");
      const both = AbortSignal.any([late.signal, ...(signal === undefined ? [] : [signal])]);
      const call = transport.vmadm(args, { ...options, signal: both });
      const end = call.then(() => {}, () => {}).finally(() => underWay.delete(end));
      underWay.add(end);
      return await call;
    },
  };
}
