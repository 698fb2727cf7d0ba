// The engine of a running machine: `fake` draws a picture of what was booted, `qemu` is an emulator that
// really boots it. host.json says which of them a host uses; every call reads it.

import { join } from "@std/path";
import { AgentError } from "../../domain/error.ts";
import { objectsIn } from "../../domain/json.ts";
import { changeHost, type State } from "../host_folder.ts";
import type { Machine } from "../machine.ts";

/** The hypervisor of one machine, from its start to its end. */
export interface Engine {
  /** Settles with the exit status when the guest or the hypervisor ends by itself. */
  readonly ended: Promise<number>;
  /** Starts the guest. @throws when the hypervisor cannot run this machine */
  boot(machine: Machine): Promise<void>;
  /** Restarts the guest with the same drives; `once` no longer applies. */
  reset(): Promise<void>;
  /** Presses the power button; a guest that handles it shuts down. */
  pressPowerButton(): Promise<void>;
  /** Serves a VNC client until one side ends. */
  serve(conn: Deno.Conn, client: VncClient): Promise<void>;
  /** Ends the guest at once. */
  close(): Promise<void>;
}

/** How a client is treated. */
export interface VncClient {
  /** Whether it is offered RFB 3.3 only. */
  readonly old: boolean;
}

const ENGINES = ["fake", "qemu"] as const;
/** `fake` or `qemu`. @see docs/simulator.md, Engines */
type EngineName = typeof ENGINES[number];

const EMULATOR = "qemu-system-x86_64";

/**
 * Chooses the engine for machines that start from now on.
 * @param path folders to search for the emulator, as in PATH
 * @returns the chosen name; `auto` means qemu if it is installed
 * @throws {AgentError} `invalid_argument` for another word, `not_found` without the emulator
 */
export async function chooseEngine(
  state: State,
  word: string,
  path: string,
): Promise<EngineName> {
  if (word !== "fake" && word !== "qemu" && word !== "auto") {
    const message = `Cannot choose engine "${word}", expected fake, qemu or auto`;
    throw new AgentError("invalid_argument", message);
  }
  const emulator = word === "fake" ? null : await findProgram(EMULATOR, path);
  if (word === "qemu" && emulator === null) {
    throw new AgentError("not_found", `Cannot choose engine "qemu": no ${EMULATOR} on PATH`);
  }
  const engine: EngineName = emulator === null ? "fake" : "qemu";
  // Callers of vmadm clear the environment, so the path is stored.
  await changeHost(state, { engine, emulator: emulator ?? state.host.emulator });
  return engine;
}

async function findProgram(name: string, path: string): Promise<string | null> {
  for (const folder of path.split(":").filter((folder) => folder.startsWith("/"))) {
    const file = join(folder, name);
    const found = await Deno.stat(file).catch(() => null);
    if (found?.isFile && ((found.mode ?? 0) & 0o111) !== 0) return file;
  }
  return null;
}

/** Most IDE drives; given more, qemu ends at once. */
const IDE_DRIVES_MAX = 4;

/**
 * Whether a machine has an IDE drive beyond the last place: drives are numbered in order, whatever their
 * models, with those of the start last.
 */
export function hasTooManyDrives(machine: Machine): boolean {
  const drives = [...objectsIn(machine.vm.disks), ...machine.boot?.files ?? []];
  return drives.some(({ model }, index) => model === "ide" && index >= IDE_DRIVES_MAX);
}

/** Whether the screen of a machine stays empty: bhyve's CSM firmware draws nothing. */
export function isBlind(machine: Machine): boolean {
  return machine.brand === "bhyve" && (machine.vm.bootrom ?? "bios") === "bios";
}
