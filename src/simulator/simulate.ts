// A simulated SmartOS host, as a program with its state in a folder: the calls of docs/simulator.md. It was written
// from what is published about vmadm, without a SmartOS host.

import { AgentError, messageOf } from "../domain/error.ts";
import { canonicalSubcommand } from "./call.ts";
import { chooseEngine } from "./engine/engine.ts";
import { clearFaults, die, listFaults, setFault } from "./fault.ts";
import { runMachine } from "./engine/machine_process.ts";
import { failed, printed, printedJson, spoil, type ToolOutcome, writeOutcome } from "./outcome.ts";
import { namesIn, openState, sleep, type State } from "./host_folder.ts";
import { vmadm } from "./vmadm/vmadm.ts";
import { join } from "@std/path";
import type { JsonObject } from "../domain/json.ts";
import {
  changeMachine,
  halted,
  isAlive,
  type Machine,
  readMachine,
  readMachines,
  signalMachine,
  UP,
} from "./machine.ts";
import { readDatasets, volumeFile, zfs } from "./pool.ts";
import { startMachine } from "./vmadm/boot.ts";
import { endProcess } from "./vmadm/stop.ts";

const USAGE = "Usage: simulate --state DIR vmadm|fault|guest|engine|audit|stop-all|power-cycle ...";

/**
 * Runs one call of the simulator: the words after `zonewright simulate`.
 * @returns the exit code of this process
 * @see docs/simulator.md
 */
export async function simulate(args: string[]): Promise<number> {
  const outcome = await outcomeOf(args);
  await writeOutcome(outcome);
  return outcome.aborts === true ? await die("SIGABRT") : outcome.code;
}

/**
 * What one call would print. A caller that sets up a host may use this within its own process, but not for
 * `vmadm` and `zfs`, since a fault may end the process.
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
  if (face === "dladm") return dladm(state, rest);
  if (face === "sysinfo") return sysinfo(state, rest);
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

const UUID_LENGTH = 36;
/** How long a process may take to end after its machine, milliseconds. */
const ENDING_MS = 500;

/**
 * Lists the leftovers of a host: objects that nothing owns, and machines that are neither stopped
 * nor running. An empty list means that a test has cleaned up.
 */
async function leftovers(state: State): Promise<JsonObject[]> {
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
      // Besides the root and the logs, only an unfinished copy leaves a file here.
      const beside = (await namesIn(join(state.dir, "zones", uuid)))
        .filter((it) => it !== "root" && it !== "logs");
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
    // An ending process marks its machine before it is gone.
    await sleep(ENDING_MS);
    if (!await isAlive(state, uuid)) continue;
    // Checked again: a machine may have started since the list was made.
    const machine = await readMachine(state, uuid);
    if (machine === null || machine.state === "stopped") found.push({ kind: "process", uuid });
  }
  return found;
}

/** Events of a running machine, and the signals of its process for them. */
const EVENTS: Readonly<Record<string, Deno.Signal>> = {
  "power-off": "SIGINT",
  reset: "SIGHUP",
  crash: "SIGKILL",
  "proxy-restart": "SIGUSR1",
};

/**
 * Makes an event happen to a running machine without a call of vmadm: its guest shuts down, resets
 * or crashes, or its proxy restarts.
 * @throws {AgentError} `not_found` when it does not run, `invalid_argument` for an unknown event
 */
async function actOnGuest(state: State, uuid: string, event: string): Promise<void> {
  const signal = EVENTS[event];
  if (signal === undefined) {
    const words = Object.keys(EVENTS).join(", ");
    const message = `Cannot make guest ${uuid} ${JSON.stringify(event)}, expected one of ${words}`;
    throw new AgentError("invalid_argument", message);
  }
  const machine = await readMachine(state, uuid);
  if (machine === null || machine.process === null) {
    throw new AgentError("not_found", `Cannot act on guest ${uuid}: it does not run`);
  }
  await signalMachine(state, machine, signal);
}

/**
 * The medium a guest booted from and the one requested, which no subcommand of vmadm reports.
 * @throws {AgentError} `not_found`
 */
async function describeGuest(state: State, uuid: string): Promise<JsonObject> {
  const machine = await readMachine(state, uuid);
  if (machine === null) {
    throw new AgentError("not_found", `Cannot describe guest ${uuid}: there is no such machine`);
  }
  const { booted, boot, installed } = machine;
  return {
    booted: booted === null ? null : { ...booted },
    order: boot?.order ?? null,
    files: (boot?.files ?? []).map((file) => ({ ...file })),
    installed,
  };
}

/** Ends the processes of all machines in order, as `vmadm stop -F` does; autoboot stays. */
async function stopAll(state: State): Promise<void> {
  for (const machine of await readMachines(state)) await endWith(state, machine, 0);
}

/**
 * The host loses power and comes back. An unfinished create stays as it was.
 * @param autoboot whether machines with that property start again, as on a real host
 */
async function powerCycle(state: State, autoboot: boolean): Promise<void> {
  const machines = await readMachines(state);
  for (const machine of machines) await endWith(state, machine, 9);
  if (!autoboot) return;
  for (const { uuid } of machines.filter(({ vm }) => vm.autoboot === true)) {
    await startMachine(state, uuid, { order: null, files: [] }, "stopped");
  }
}

async function endWith(state: State, machine: Machine, exitStatus: number): Promise<void> {
  if (!UP.includes(machine.state)) return;
  await endProcess(state, machine);
  // A start in progress sees this and gives up.
  await changeMachine(state, machine.uuid, (it) => halted(it, exitStatus));
}

const NICTAGADM_USAGE = "Usage:\n\tnictagadm list [-p]\n";

/**
 * Runs one call, the words after `nictagadm`: lists the NIC tags of the host. Each is on a link of
 * its own, whose address follows from its place in the list.
 */
function nictagadm(state: State, args: readonly string[]): ToolOutcome {
  const [subcommand, ...options] = args;
  if (subcommand !== "list" || options.some((option) => option !== "-p")) {
    return { code: 2, stdout: "", stderr: NICTAGADM_USAGE };
  }
  const rows = state.host.nic_tags.map((tag, index) =>
    isEtherstub(state, tag)
      ? [tag, "-", "-", "etherstub"]
      : [tag, addressOf(index), `net${index}`, "normal"]
  );
  if (options.includes("-p")) {
    // The separator is escaped within a value.
    const lines = rows.map((row) => row.map((value) => value?.replaceAll(":", "\\:")).join(":"));
    return printed(lines.map((line) => `${line}\n`).join(""));
  }
  const table = [["NAME", "MACADDRESS", "LINK", "TYPE"], ...rows];
  const lines = table.map(([name = "", address = "", link = "", type = ""]) =>
    `${name.padEnd(14)} ${address.padEnd(18)} ${link.padEnd(14)} ${type}`.trimEnd()
  );
  return printed(lines.map((line) => `${line}\n`).join(""));
}

function isEtherstub({ host }: State, tag: string): boolean {
  return host.etherstubs.includes(tag);
}

const LINK_MTU_BYTES = 1500;
const ETHERSTUB_MTU_BYTES = 9000;

/** dladm, as far as it reports the mtu of each link. */
function dladm(state: State, args: readonly string[]): ToolOutcome {
  if (args.join(" ") !== "show-link -p -o link,mtu") {
    return { ...failed("usage: dladm show-link -p -o link,mtu"), code: 1 };
  }
  const { nic_tags, nic_mtus } = state.host;
  const lines = nic_tags.map((tag, index) => {
    const isStub = isEtherstub(state, tag);
    const mtu = nic_mtus[tag] ?? (isStub ? ETHERSTUB_MTU_BYTES : LINK_MTU_BYTES);
    return `${isStub ? tag : `net${index}`}:${mtu}\n`;
  });
  return printed(lines.join(""));
}

/** sysinfo, as far as it reports the resources of the host. Some of its numbers are strings. */
function sysinfo({ host }: State, args: readonly string[]): ToolOutcome {
  if (args.length > 0) return { code: 1, stdout: "", stderr: "Usage:\n\tsysinfo\n" };
  return printedJson({
    "Live Image": "simulated",
    "System Type": "SunOS",
    "VM Capable": true,
    "Bhyve Capable": host.bhyve,
    "CPU Type": "simulated",
    "CPU Total Cores": host.cpus,
    "UUID": host.uuid,
    "Hostname": "simulated",
    "MiB of Memory": `${host.ram}`,
    "Zpool": host.pool.name,
  });
}

function addressOf(index: number): string {
  return `02:08:20:00:00:${(index % 256).toString(16).padStart(2, "0")}`;
}
