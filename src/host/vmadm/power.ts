// Starts and stops machines. vmadm's answer is not enough: a start succeeds even if the hypervisor died at
// once, and a stop does nothing, with exit code 0, while a machine is still stopping. So the machine is
// checked afterwards.

import { AgentError, invalidArgument } from "../../domain/error.ts";
import type { MachineUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { BOOT_ORDER_WORDS } from "../../domain/machine/action.ts";
import { isMediaName } from "../../domain/machine/media.ts";
import { masked, secretsOf } from "../program_output.ts";
import type { Transport } from "../transport.ts";
import { findZoneFolder, temporaryPath } from "../zone/copy.ts";
import { callVmadm, type VmadmCall, type VmadmHost } from "./call.ts";
import { explained, lookUp } from "./operations.ts";
import { isDone, isRunningAlready, stateBeforeStop } from "./output.ts";

/** States of a machine that has a hypervisor, or is about to get one. */
export const UP: readonly unknown[] = ["ready", "running", "stopping"];
/** States that end by themselves. */
const PASSING_STATES: readonly unknown[] = ["ready", "stopping", "shutting_down", "down"];

/** How a started machine is checked. */
interface BootWatch {
  /** Milliseconds from the first check to a second one; without it, there is only one. */
  readonly watchMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Starts a machine with these arguments, unless it runs already.
 * @throws {AgentError} `host` when it died, with the end of its log; `conflict` when it is not stopped
 */
export async function boot(
  host: VmadmHost,
  uuid: MachineUuid,
  words: readonly string[],
  { watchMs = 0, signal }: BootWatch,
): Promise<void> {
  const call: VmadmCall = {
    operation: "boot",
    action: `Cannot boot machine ${uuid}`,
    args: ["boot", uuid, ...words],
    signal,
  };
  const result = await callVmadm(host, call);
  if (isRunningAlready(result, uuid)) return;
  if (!isDone(result, "boot", uuid)) throw await explained(host, uuid, call, result);
  await requireUp(host, uuid, call, 0);
  if (watchMs === 0) return;
  await host.wait(call.action, watchMs, signal);
  await requireUp(host, uuid, call, watchMs);
}

/** @throws {AgentError} `host` when the machine that was just started has ended */
async function requireUp(
  host: VmadmHost,
  uuid: MachineUuid,
  { action, signal }: VmadmCall,
  sinceMs: number,
): Promise<void> {
  const machine = await lookUp(host, uuid, signal);
  if (machine === null) throw new AgentError("not_found", `${action}: it has been deleted`);
  const { state, exit_status } = machine;
  if (UP.includes(state)) return;
  const when = sinceMs === 0 ? "at once" : `within ${sinceMs / 1000} s`;
  const status = typeof exit_status === "number" ? ` with exit status ${exit_status}` : "";
  const log = await endOfLog(host.transport, machine);
  const message = `${action}: vmadm started it, and it ended ${when}${status}: its state is ` +
    `${JSON.stringify(state)}; ${log}`;
  throw new AgentError("host", message);
}

/** How a machine is stopped: at once, or with seconds for its guest. */
export interface StopOptions {
  force?: boolean;
  timeoutSeconds?: number;
  /** Called every REPORT_MS while it stops, with the seconds so far. */
  onWait?: (seconds: number) => Promise<void>;
}

/** Milliseconds between two checks of a stopping machine; each starts an interpreter on the host. */
const LOOK_MS = 2_000;
/** Milliseconds; a guest has up to 180 s, and halting its zone takes time too. */
const STOPPING_MS_MAX = 300_000;
/** Milliseconds between two reports of a stop in progress. */
const REPORT_MS = 15_000;
/** Attempts: a machine may leave the state in which the first stop found it by running. */
const STOPS_MAX = 2;

/**
 * Stops a machine, unless it is already stopped. Waits for one that is already stopping.
 * @throws {AgentError} `conflict` if it ends up neither stopped nor stopping
 */
export async function stop(
  host: VmadmHost,
  uuid: MachineUuid,
  { force = false, timeoutSeconds, onWait }: StopOptions,
  signal: AbortSignal | undefined,
): Promise<void> {
  const given = timeoutSeconds === undefined || force ? [] : ["-t", String(timeoutSeconds)];
  const call = forceable("stop", uuid, force, signal, given);
  const finished = new AbortController();
  const reporting = onWait === undefined
    ? undefined
    : report(host, call, onWait, finished.signal).catch(() => {
      // A failed report, such as one too many, does not fail the stop.
    });
  try {
    for (let stops = 1; !await stopOnce(host, uuid, call); stops += 1) {
      const state = await stateAfterWait(host, uuid, call);
      if (state !== "running" && !PASSING_STATES.includes(state)) return;
      if (state === "running" && stops < STOPS_MAX) continue;
      const message = `${call.action}: its state is still ${JSON.stringify(state)}, expected ` +
        '"stopped"';
      throw new AgentError("conflict", message);
    }
  } finally {
    finished.abort();
    await reporting;
  }
}

/** Whether the machine is stopped now; false if vmadm found it in a state other than running. */
async function stopOnce(host: VmadmHost, uuid: MachineUuid, call: VmadmCall): Promise<boolean> {
  const result = await callVmadm(host, call);
  if (isDone(result, "stop", uuid)) return true;
  const state = stateBeforeStop(result, uuid);
  if (state === null) throw await explained(host, uuid, call, result);
  return state === "stopped";
}

/** The state of the machine once it no longer changes by itself, or after too long a wait. */
async function stateAfterWait(
  host: VmadmHost,
  uuid: MachineUuid,
  { action, signal }: VmadmCall,
): Promise<unknown> {
  for (let waitedMs = 0;; waitedMs += LOOK_MS) {
    const machine = await lookUp(host, uuid, signal);
    if (machine === null) throw new AgentError("not_found", `${action}: there is no such machine`);
    if (!PASSING_STATES.includes(machine.state) || waitedMs >= STOPPING_MS_MAX) {
      return machine.state;
    }
    await host.wait(action, LOOK_MS, signal);
  }
}

/** Reports at intervals until the signal fires. */
async function report(
  host: VmadmHost,
  { action }: VmadmCall,
  onWait: (seconds: number) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (let ms = REPORT_MS;; ms += REPORT_MS) {
    await host.wait(action, REPORT_MS, signal);
    await onWait(ms / 1000);
  }
}

/**
 * Restarts a running machine.
 * @throws {AgentError} `conflict` when it is not running
 */
export async function reboot(
  host: VmadmHost,
  uuid: MachineUuid,
  force: boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  const call = forceable("reboot", uuid, force, signal);
  const result = await callVmadm(host, call);
  if (isDone(result, "reboot", uuid)) return;
  throw await explained(host, uuid, call, result);
}

/** With `-F` the guest is not asked. */
function forceable(
  operation: "stop" | "reboot",
  uuid: MachineUuid,
  force: boolean,
  signal: AbortSignal | undefined,
  more: readonly string[] = [],
): VmadmCall {
  const args = [operation, uuid, ...(force ? ["-F"] : []), ...more];
  return { operation, action: `Cannot ${operation} machine ${uuid}`, args, signal };
}

/** Letters as qemu reads them: c is the disk, d the CD, n the network; tried from left to right. */
export const BOOT_DEVICES = [
  "c",
  "d",
  "n",
  "cd",
  "cn",
  "dc",
  "dn",
  "nc",
  "nd",
  "cdn",
  "cnd",
  "dcn",
  "dnc",
  "ncd",
  "ndc",
] as const;

/** The options of a boot, not checked yet. */
interface BootChoice {
  /** A word of BOOT_DEVICES. */
  order?: string;
  /** One letter: where the first boot of this run of the machine looks before `order`. */
  once?: string;
  /** `/name` of an ISO file in the zone's root. */
  cdrom?: string;
  /** `/name` of a raw disk image in the zone's root. */
  disk?: string;
}

/** What vmadm itself tries without an order: disk, then CD. */
const DEFAULT_ORDER = "cd";

/** The only bus that every kvm guest can boot a CD or a raw image from. */
const BOOT_BUS = "ide";

/**
 * The arguments of `vmadm boot` after the uuid, such as `order=cd,once=d` and `cdrom=/install.iso,ide`. vmadm passes the
 * value of `order=` unchanged to qemu, so only a closed set of letters is accepted; paths are names in the zone's root.
 * @throws {AgentError} `invalid_argument` naming `order`, `once`, `cdrom` or `disk`
 * @see document 3, Endpoints
 */
export function bootWords({ order, once, cdrom, disk }: BootChoice): string[] {
  if (order !== undefined && !isBootDevice(order)) {
    throw invalidArgument(
      "order",
      `Cannot boot in order ${quoted(order)}, expected ${BOOT_ORDER_WORDS}`,
    );
  }
  if (once !== undefined && !(isBootDevice(once) && once.length === 1)) {
    const wanted = "c (disk), d (CD) or n (network)";
    throw invalidArgument("once", `Cannot boot once from ${quoted(once)}, expected ${wanted}`);
  }
  const words: string[] = [];
  // `once` is part of the value of `order`.
  if (once !== undefined) words.push(`order=${order ?? DEFAULT_ORDER},once=${once}`);
  else if (order !== undefined) words.push(`order=${order}`);
  if (cdrom !== undefined) words.push(`cdrom=${checkedPath("cdrom", cdrom)},${BOOT_BUS}`);
  if (disk !== undefined) words.push(`disk=${checkedPath("disk", disk)},${BOOT_BUS}`);
  return words;
}

function isBootDevice(text: string): boolean {
  return BOOT_DEVICES.some((device) => device === text);
}

function checkedPath(field: "cdrom" | "disk", path: string): string {
  if (path.startsWith("/") && isMediaName(path.slice(1))) return path;
  const message = `Cannot boot from ${quoted(path)}, expected "/" and a name of [A-Za-z0-9._-]`;
  throw invalidArgument(field, message);
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

/** Where a hypervisor writes, below the zonepath; the first file with text counts. */
const HYPERVISOR_LOGS: Readonly<Record<string, readonly { folder: string; name: string }[]>> = {
  kvm: [
    { folder: "root/tmp", name: "vm.log" },
    // The script that starts qemu, in case it failed before qemu ran.
    { folder: "root/tmp", name: "vm.startvm.log" },
  ],
  bhyve: [{ folder: "logs", name: "platform.log" }],
};

/** Bytes read from the end of a log. */
const TAIL_BYTES = 16 * 1024;
const SHOWN_LINES_MAX = 8;
/** Characters of a log in an error, taken from its end. */
const SHOWN_CHARS_MAX = 1500;

/**
 * The end of the log of a machine's hypervisor, as a clause of an error message; if it cannot be read, the reason. Only
 * that log says why it ended. For kvm it is in the zone, where the hypervisor may replace it by a link to a file of the
 * host; HostFiles.tailWithin() follows no link.
 * @param machine as vmadm describes it
 * @throws any error but an AgentError, which becomes the reason
 */
export async function endOfLog(transport: Transport, machine: JsonObject): Promise<string> {
  const { brand, zonepath } = machine;
  const logs = HYPERVISOR_LOGS[String(brand)] ?? [];
  if (typeof zonepath !== "string" || logs.length === 0) {
    return "the location of its log is unknown";
  }
  try {
    const zone = await findZoneFolder(transport, zonepath);
    for (const { folder, name } of logs) {
      const text = await transport.files.tailWithin({
        folder: `${zonepath}/${folder}`,
        name,
        bytes: TAIL_BYTES,
        temporary: temporaryPath(zone, name),
      });
      const end = endOf(text ?? "", secretsOf(machine));
      if (end !== "") return `its log ${zonepath}/${folder}/${name} ends with: ${end}`;
    }
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return `its log cannot be read: ${error.message}`;
  }
  const paths = logs.map(({ folder, name }) => `${zonepath}/${folder}/${name}`);
  return `its log is empty: ${paths.join(" or ")}`;
}

/** The last lines, without secrets and control characters. */
function endOf(text: string, secrets: readonly string[]): string {
  const lines = text.split("\n").map(sentenceOf).filter((line) => line !== "");
  const end = masked(lines.slice(-SHOWN_LINES_MAX).join(" | "), secrets);
  return end.length <= SHOWN_CHARS_MAX ? end : `...${end.slice(-SHOWN_CHARS_MAX)}`;
}

/** bhyve's log has one JSON object per line: `{"log": "...", "stream": "stderr", "time": "..."}`. */
function sentenceOf(line: string): string {
  let record: unknown;
  try {
    record = JSON.parse(line);
  } catch {
    // Plain text, or the rest of a line whose beginning was not read.
  }
  const text = isJsonObject(record) && typeof record.log === "string"
    ? [record.time, record.log].filter((part) => typeof part === "string").join(" ")
    : line;
  // deno-lint-ignore no-control-regex -- removes control characters.
  return text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
}
