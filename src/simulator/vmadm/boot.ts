// vmadm start: checks the words and the files they name, starts the process that plays the hypervisor
// in a new session, and waits until that process reports that it runs.

import { join } from "@std/path";
import { objectsIn } from "../../domain/json.ts";
import { selfCommand } from "../../runtime/executable.ts";
import { spend, strikes } from "../fault.ts";
import {
  type Boot,
  type BootFile,
  type Brand,
  changeMachine,
  halted,
  type Machine,
  readMachine,
  zonepath,
} from "../machine.ts";
import { failed, firstOf, misuse, refusal, said, type ToolOutcome } from "../outcome.ts";
import { exists, sleep, type State } from "../host_folder.ts";
import { refuseDiskModel } from "./device.ts";

/** Milliseconds between two checks of a machine that is starting or stopping. */
export const LOOK_MS = 10;

/** Boots a machine with `order=` and `once=`, as `vmadm start` does. */
export async function start(state: State, uuid: string, words: BootWords): Promise<ToolOutcome> {
  try {
    await startMachine(state, uuid, words, "stopped");
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const message = `Unable to start VM ${uuid}: ${text}`;
    // The only failure with which the tool exits with 0.
    return text === alreadyRunning(uuid) ? said(message) : failed(message);
  }
  return said(`Successfully started VM ${uuid}`);
}

function alreadyRunning(uuid: string): string {
  return `VM ${uuid} is already 'running'`;
}

/**
 * Starts a machine that is in state `from`.
 * @throws {AgentError} `host` with the tool's message, without its prefix
 */
export async function startMachine(
  state: State,
  uuid: string,
  words: BootWords,
  from: "stopped" | "provisioning",
): Promise<void> {
  const machine = await readMachine(state, uuid);
  if (machine === null) throw refusal("bad statusCode: 404");
  if (machine.state === "running") throw refusal(alreadyRunning(uuid));
  if (machine.state !== from) {
    throw refusal(`Cannot start vm from state "${machine.state}", must be "stopped".`);
  }
  refuseBootModels(words, machine.brand);
  await refuseMissingFiles(state, machine, words);
  const boot: Boot = {
    id: crypto.randomUUID(),
    started_ms: Date.now(),
    // bhyve checks the words, then ignores them.
    order: machine.brand === "kvm" ? words.order ?? bootProperty(machine) : null,
    files: machine.brand === "kvm" ? words.files : [],
  };
  await changeMachine(state, uuid, (it) => {
    it.vm.autoboot = true;
    if (it.state !== from) {
      throw refusal(`Cannot start vm from state "${it.state}", must be "stopped".`);
    }
    it.boot = boot;
    it.zone_state = "ready";
    it.state = "ready";
    it.transition_expire = null;
  });
  await spend(state, "boot");
  await startZone(state, uuid, boot);
}

function bootProperty(machine: Machine): string | null {
  return typeof machine.vm.boot === "string" ? machine.vm.boot : null;
}

/** A file must be in the zone root, unless a configured disk has exactly that path. */
async function refuseMissingFiles(
  state: State,
  machine: Machine,
  words: BootWords,
): Promise<void> {
  const configured = objectsIn(machine.vm.disks).map(({ path }) => path);
  for (const { path } of words.files) {
    if (configured.includes(path)) continue;
    if (!await exists(join(zonepath(state, machine.uuid), "root") + path)) {
      throw refusal(`Cannot find disk: ${path}`);
    }
  }
}

async function startZone(state: State, uuid: string, boot: Boot): Promise<void> {
  const dead = await strikes(state, "start_failure");
  if (await strikes(state, "start_timeout")) {
    await sleep(state.host.timeouts.start);
    throw await unstarted(
      state,
      uuid,
      `vminfod watchForChanges "VM.js startZone (${uuid})" timeout exceeded`,
    );
  }
  let ended = dead;
  if (!dead) startProcess(state, uuid, boot.id).then(() => ended = true);
  const deadline = Date.now() + state.host.timeouts.start;
  for (let looksOn = true; looksOn && Date.now() < deadline; await sleep(LOOK_MS)) {
    // The process writes its last state before it ends.
    looksOn = !ended;
    const machine = await readMachine(state, uuid);
    if (machine === null || machine.boot?.id !== boot.id) break;
    // A machine that has already died counts as started; only its state shows that.
    if (["running", "stopping", "stopped"].includes(machine.state)) return;
    if (machine.state !== "ready") break;
  }
  throw await unstarted(
    state,
    uuid,
    `Command failed: zone '${uuid}': zone boot failed\nzoneadm: zone '${uuid}': call to zoneadmd failed\n`,
  );
}

async function unstarted(state: State, uuid: string, text: string) {
  await changeMachine(state, uuid, (it) => {
    if (it.state === "ready") halted(it, 1);
  });
  return refusal(firstOf(text));
}

/**
 * Starts the process of a machine so that it outlives this call and keeps none of its streams. The promise
 * resolves if the process ends while this call still runs.
 */
function startProcess(state: State, uuid: string, bootId: string): Promise<unknown> {
  const self = selfCommand();
  const child = new Deno.Command(self.program, {
    args: [...self.args, "simulate", "--state", state.dir, "run-machine", uuid, bootId],
    clearEnv: true,
    env: self.env,
    cwd: "/",
    stdin: "null",
    stdout: "null",
    stderr: "null",
    detached: true,
  }).spawn();
  child.unref();
  return child.status;
}

interface BootWords {
  /** qemu's -boot text with its keys, such as `order=cd,once=d`; null without such a word. */
  readonly order: string | null;
  readonly files: readonly BootFile[];
}

/**
 * Reads the words after the uuid of `vmadm start`: `order=cd,once=d cdrom=/x.iso,ide
 * disk=/x.raw,ide`. Each is split at its first `=`, so the value of `order` keeps its comma and its
 * second `=`.
 * @throws {AgentError} `invalid_argument` for words to which the tool prints its usage
 */
export function parseBootWords(words: readonly string[]): BootWords {
  let order: string | null = null;
  const files: BootFile[] = [];
  for (const word of words) {
    const at = word.indexOf("=");
    const key = at < 0 ? word : word.slice(0, at);
    const value = at < 0 ? "" : word.slice(at + 1);
    if (key === "order") {
      // The real tool has another wording for this.
      if (order !== null) throw misuse("Cannot specify order more than once");
      order = `order=${value}`;
    } else if (key === "cdrom" || key === "disk") {
      // Further parts are ignored, so a path with a comma is cut.
      const [path = "", model = ""] = value.split(",");
      files.push({ path, model, media: key });
    } else throw misuse(`Invalid argument to start: ${key}`);
  }
  return { order, files };
}

/** Refuses models that the brand does not have; bhyve checks them too, before it ignores them. */
function refuseBootModels(words: BootWords, brand: Brand): void {
  for (const file of words.files) refuseDiskModel(brand, file.model);
}

/** The devices that a boot text tries, in order, by qemu's letters: c is the disk, d the CD. */
export function bootOrder(order: string | null, onceSpent: boolean): string {
  const keys = new Map(
    (order ?? "order=cd").split(",").map((part): [string, string] => {
      const at = part.indexOf("=");
      // For qemu, a text without a key is an order.
      return at < 0 ? ["order", part] : [part.slice(0, at), part.slice(at + 1)];
    }),
  );
  const normal = keys.get("order") ?? "cd";
  const once = keys.get("once");
  return once === undefined || onceSpent ? normal : once + normal;
}
