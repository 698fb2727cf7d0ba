// How fast a medium gets into the zone of a machine, beside what copies and what hashes the same bytes.

import { join } from "@std/path";
import { createHash } from "node:crypto";
import { type MachineAgent, makeMachine } from "./machine_agent.ts";
import { ownCpuMs } from "./process_use.ts";

const MIB = 1_048_576;
/**
 * A virtual machine may hand freed memory back to its host, some seconds later, and who touches it next
 * waits for it. Making a machine takes as long before it comes to placing, so all begin on equal terms.
 */
const PAUSE_MS = 4_000;

/** Milliseconds that each took for the same bytes, in one round. */
export interface Placing {
  /** The task that places, less its calls of vmadm. */
  readonly placeMs: number;
  /** Processor time of the agent while the machine was made. */
  readonly cpuMs: number;
  readonly cpMs: number;
  /** With waiting for the disk. */
  readonly cpSyncMs: number;
  /** Nothing but SHA-256 over bytes in memory, by what the agent hashes with. */
  readonly hashMs: number;
}

/** Makes a machine with the agent's medium of so many bytes, and removes it again. */
export async function placeOnce(agent: MachineAgent, bytes: number): Promise<Placing> {
  const before = ownCpuMs(agent.pid);
  const made = await makeMachine(agent);
  const cpuMs = ownCpuMs(agent.pid) - before;
  const step = made.steps.find(({ task }) => task === "place_medium");
  if (step === undefined) throw new Error("No medium was placed");
  await agent.host.remove(made.uuid);
  const copy = join(agent.folder, "copy");
  await pause();
  const cpMs = await timed("/bin/cp", [agent.medium, copy]);
  await Deno.remove(copy);
  await pause();
  const words = [`if=${agent.medium}`, `of=${copy}`, "bs=1M", "conv=fsync", "status=none"];
  const cpSyncMs = await timed("/bin/dd", words);
  await Deno.remove(copy);
  return { placeMs: step.ms - step.vmadmMs, cpuMs, cpMs, cpSyncMs, hashMs: hashed(bytes) };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}

async function timed(program: string, args: readonly string[]): Promise<number> {
  const began = performance.now();
  const { success } = await new Deno.Command(program, { args: [...args] }).output();
  if (!success) throw new Error(`${program} failed`);
  return performance.now() - began;
}

function hashed(bytes: number): number {
  const part = crypto.getRandomValues(new Uint8Array(64 * 1024));
  const parts = new Uint8Array(MIB);
  for (let at = 0; at < MIB; at += part.length) parts.set(part, at);
  const hash = createHash("sha256");
  const began = performance.now();
  for (let at = 0; at < bytes; at += MIB) hash.update(parts);
  hash.digest("hex");
  return performance.now() - began;
}
