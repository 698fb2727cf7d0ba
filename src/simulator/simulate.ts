// A simulated SmartOS host, as a program with its state in a folder. It follows the documented
// behaviour of vmadm, its texts, streams, exit codes and states, and was written without a SmartOS
// host at hand: it is as good as what is published about the tool. See docs/simulator.md.
//
//   zonewright simulate --state DIR vmadm SUBCOMMAND ...
//   zonewright simulate --state DIR zfs list|destroy ...
//   zonewright simulate --state DIR nictagadm list [-p]
//   zonewright simulate --state DIR fault [NAME [VALUE] [COUNT]] | fault --clear [NAME]
//   zonewright simulate --state DIR guest UUID [power-off|reset|crash|proxy-restart]
//   zonewright simulate --state DIR engine [fake|qemu|auto]
//   zonewright simulate --state DIR audit | stop-all | power-cycle [--autoboot]
//   zonewright simulate --state DIR run-machine UUID BOOT_ID      (started by `vmadm start` only)

import { messageOf } from "../domain/error.ts";
import { canonicalSubcommand } from "./call.ts";
import { chooseEngine } from "./engine/engine.ts";
import { clearFaults, listFaults, setFault } from "./fault.ts";
import { actOnGuest, describeGuest, powerCycle, stopAll } from "./host_event.ts";
import { runMachine } from "./engine/machine_process.ts";
import { failed, printed, printedJson, spoil, type ToolOutcome, writeOutcome } from "./outcome.ts";
import { nictagadm, zfs } from "./host_tools.ts";
import { namesIn, openState, sleep, type State } from "./state.ts";
import { vmadm } from "./vmadm/vmadm.ts";
import { join } from "@std/path";
import type { JsonObject } from "../domain/json.ts";
import { isAlive, readMachine, readMachines } from "./machine.ts";
import { readDatasets, volumeFile } from "./pool.ts";

const USAGE = "Usage: simulate --state DIR vmadm|fault|guest|engine|audit|stop-all|power-cycle ...";

/**
 * Runs one call of the simulator: the words after `zonewright simulate`.
 * @returns the exit code of this process
 * @see docs/simulator.md
 */
export async function simulate(args: string[]): Promise<number> {
  const outcome = await outcomeOf(args);
  await writeOutcome(outcome);
  return outcome.code;
}

/**
 * What one call says, without saying it. Whoever sets up a host may use it without a process of its
 * own; `vmadm` and `zfs` belong into one, since a fault may end it.
 */
export async function outcomeOf(args: readonly string[]): Promise<ToolOutcome> {
  const [flag, dir = "", face = "", ...rest] = args;
  if (flag !== "--state" || dir === "") return { ...failed(USAGE), code: 2 };
  let state: State;
  try {
    state = await openState(dir);
  } catch (error) {
    return failed(`Cannot open simulated host ${dir}: ${messageOf(error)}`);
  }
  if (face === "vmadm") {
    return await spoil(
      state,
      canonicalSubcommand(rest[0] ?? ""),
      await vmadm(state, rest),
    );
  }
  if (face === "zfs") return await zfs(state, rest);
  if (face === "nictagadm") return nictagadm(state, rest);
  try {
    return await act(state, face, rest);
  } catch (error) {
    return failed(messageOf(error));
  }
}

async function act(state: State, face: string, args: readonly string[]): Promise<ToolOutcome> {
  const [first = "", second = ""] = args;
  switch (face) {
    case "run-machine":
      return { ...printed(""), code: await runMachine(state, first, second) };
    case "fault":
      return await fault(state, args);
    case "guest":
      if (second === "") return printedJson(await describeGuest(state, first));
      await actOnGuest(state, first, second);
      return printed("");
    case "engine": {
      const { engine, emulator } = state.host;
      if (first === "") return printedJson({ engine, ...(emulator === "" ? {} : { emulator }) });
      return printedJson({ engine: await chooseEngine(state, first, Deno.env.get("PATH") ?? "") });
    }
    case "audit": {
      const found = await leftovers(state);
      return { ...printedJson({ leftovers: found }), code: found.length === 0 ? 0 : 1 };
    }
    case "stop-all":
      await stopAll(state);
      return printed("");
    case "power-cycle":
      await powerCycle(state, args.includes("--autoboot"));
      return printed("");
    default:
      return { ...failed(USAGE), code: 2 };
  }
}

async function fault(state: State, args: readonly string[]): Promise<ToolOutcome> {
  const [first, second] = args;
  if (first === undefined) return printedJson(await listFaults(state));
  if (first === "--clear") await clearFaults(state, second ?? null);
  else await setFault(state, first, args.slice(1));
  return printed("");
}

// What a simulated host has left over: things that exist though nothing owns them, and machines that
// are neither stopped nor running. A test that ends with an empty list has cleaned up.

const UUID_LENGTH = 36;
/** What a process is given to end after its machine has, ms. */
const ENDING_MS = 500;

/** Lists the leftovers of a host; empty when there are none. */
export async function leftovers(state: State): Promise<JsonObject[]> {
  const machines = await readMachines(state);
  const uuids = new Set(machines.map(({ uuid }) => uuid));
  const found: JsonObject[] = [];
  for (const { uuid, state: is } of machines) {
    if (is !== "stopped" && is !== "running") found.push({ kind: "zone", uuid, state: is });
  }
  const datasets = await readDatasets(state);
  for (const { name } of datasets) {
    const uuid = name.slice(state.host.pool.name.length + 1).slice(0, UUID_LENGTH);
    if (!uuids.has(uuid)) found.push({ kind: "dataset", uuid, name });
  }
  for (const uuid of await namesIn(join(state.dir, "zones"))) {
    if (uuids.has(uuid)) {
      // Nobody but whoever copies a file into the root puts anything beside it.
      const beside = (await namesIn(join(state.dir, "zones", uuid))).filter((it) => it !== "root");
      found.push(...beside.map((name) => ({ kind: "zone_file", uuid, name })));
      continue;
    }
    const files = await namesIn(join(state.dir, "zones", uuid, "root"));
    found.push({ kind: "zone_root", uuid, files });
  }
  const files = datasets.map(({ name }) => volumeFile(state, name));
  for (const name of await namesIn(join(state.dir, "volumes"))) {
    if (!files.includes(join(state.dir, "volumes", name))) {
      found.push({ kind: "volume_file", name });
    }
  }
  for (const name of await namesIn(join(state.dir, "processes"))) {
    if (!name.endsWith(".json")) continue;
    const uuid = name.slice(0, -".json".length);
    if (!await isAlive(state, uuid)) continue;
    if ((await readMachine(state, uuid))?.state === "running") continue;
    // A process that is ending marks its machine before it is gone.
    await sleep(ENDING_MS);
    if (!await isAlive(state, uuid)) continue;
    // Looked at again: a machine may have been started since the list was made.
    const machine = await readMachine(state, uuid);
    if (machine === null || machine.state === "stopped") found.push({ kind: "process", uuid });
  }
  return found;
}
