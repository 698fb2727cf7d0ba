// Removes what a job should have removed before it ended and could not. Nobody waits for it and nobody
// looks at what it does, so it asks twice: whether the machine is still that job's, and whether it is
// the machine that the job has made.

import type { MachineUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { JOB_TAG } from "../../domain/machine/metadata.ts";
import type { VmadmHost } from "./call.ts";
import { destroyOrphans } from "./vmadm_leftovers.ts";
import { destroy, lookUp } from "./operations.ts";
import { stop } from "./vmadm_power.ts";

type Signal = AbortSignal | undefined;

/** Whose leftover it is, and how far its removal may go. */
export interface LeftMachine {
  /** The job that a machine names which it has made. */
  readonly job_uuid: string;
  /** Whether a machine goes too; otherwise only datasets that stand for none. */
  readonly machine: boolean;
  /**
   * Whether it is still that job's, asked while no other call about this machine of this agent is
   * under way.
   */
  readonly still: () => Promise<boolean>;
}

/** States of a machine whose create died: it may not have its tags yet, and nobody can use it. */
const HALF_MADE: readonly unknown[] = ["configured", "incomplete", "provisioning", "failed"];
const UP: readonly unknown[] = ["ready", "running", "stopping"];

/**
 * Removes a machine of a job with all that is its, or what is left without a machine. What is not of
 * that job stays, and is no failure.
 * @throws {AgentError} as Vmadm.stop() and Vmadm.delete()
 */
export async function removeLeft(
  host: VmadmHost,
  uuid: MachineUuid,
  { job_uuid, machine: machineToo, still }: LeftMachine,
  signal: Signal,
): Promise<void> {
  if (!await still()) return;
  const machine = await lookUp(host, uuid, signal);
  if (machine === null) {
    await destroyOrphans(host, uuid);
    return;
  }
  if (!machineToo || !isOf(job_uuid, machine)) return;
  if (UP.includes(machine.state)) await stop(host, uuid, { force: true }, signal);
  await destroy(host, uuid, true, signal);
}

function isOf(job_uuid: string, { tags, state }: JsonObject): boolean {
  const owner = isJsonObject(tags) ? tags[JOB_TAG] : undefined;
  return owner === undefined ? HALF_MADE.includes(state) : owner === job_uuid;
}
