// Removes what jobs should have removed and could not: their undo failed or did not finish. Each leftover is
// a row, so that it survives a crash and operators can see it. Attempts repeat at growing intervals until
// nothing is left, even if the job itself is no longer kept.

import { AgentError, messageOf } from "../domain/error.ts";
import type { HostUuid, JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import {
  COUNT,
  INSTANT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  NULLABLE_UUID,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  whole,
} from "../domain/description/answer.ts";
import { EXECUTION, executionOnWire, type Wording } from "../domain/job/wire.ts";
import type { Log } from "../metrics/log.ts";
import { pause } from "../runtime/wait.ts";
import type { Leftover } from "../store/claim_store.ts";
import type { Store } from "../store/store.ts";

/** Milliseconds from the end of a job to the first attempt, in which its calls on the host can finish. */
export const LEFTOVER_FIRST_MS = 60_000;
/** Longest time between two attempts, milliseconds; it doubles each time. */
export const LEFTOVER_LONGEST_MS = 3_600_000;
/** Milliseconds between two checks for due attempts. */
const LOOK_MS = 15_000;

/** The part of the host that removes leftovers. */
interface LeftoverHost {
  /**
   * Removes everything of this uuid that the job made; anything else stays, without an error.
   * @param left `machine`: whether to remove a machine too; `still`: asked before anything is changed
   */
  removeLeft(
    uuid: MachineUuid,
    left: { job_uuid: JobUuid; machine: boolean; still: () => Promise<boolean> },
    o: { signal: AbortSignal },
  ): Promise<void>;
}

/** What leftovers are removed with. */
export interface LeftoverOptions {
  readonly store: Pick<Store, "machineClaims">;
  readonly host: LeftoverHost;
  /** The host's name in the claims; those of other hosts are left alone. */
  readonly hostName: string;
  /**
   * The workflow whose failed jobs leave no machine. For others, only datasets without a machine are removed.
   */
  readonly workflow: WorkflowUuid;
  readonly log: Log;
}

/** A leftover as it is sent. */
export const LEFTOVER = whole("What a job could not remove.", {
  uuid: { ...UUID, description: "Of the machine, of which only datasets may be left." },
  host: {
    ...TEXT,
    description: "The managed host that has it: an agent removes nothing from another one.",
  },
  host_uuid: { ...NULLABLE_UUID, description: "Of the agent that has it." },
  job_uuid: { ...UUID, description: "Of the job, which may have been removed." },
  job_execution: shapeRef("Execution", EXECUTION),
  claimed_at: { ...INSTANT, description: "When the job began to create the machine." },
  tries: { ...COUNT, description: "Attempts to remove it since the job ended." },
  next_try_at: {
    ...NULLABLE_INSTANT,
    description: "When the next attempt is due; null before the first check.",
  },
  error: {
    ...NULLABLE_TEXT,
    description: "The error of the latest attempt; null before the first.",
  },
});

/** The answer about a leftover. */
export function leftoverOnWire(left: Leftover, wording: Wording): ShapeOf<typeof LEFTOVER> {
  const { uuid, host, host_uuid, job_uuid, execution, claimed_at, tries, next_try_at, error } =
    left;
  const job_execution = executionOnWire(execution, wording);
  return { uuid, host, host_uuid, job_uuid, job_execution, claimed_at, tries, next_try_at, error };
}

interface Leftovers {
  /** Aborts the current attempt; the next agent repeats it. */
  stop(): Promise<void>;
}

/**
 * Starts to remove leftovers, including those of earlier agents.
 * @param admitted whether the host may be changed: not once it was forgotten
 */
export function openLeftovers(options: LeftoverOptions, admitted: () => boolean): Leftovers {
  const stopping = new AbortController();
  const { signal } = stopping;
  const loop = (async () => {
    while (!signal.aborted) {
      const looked = admitted() ? removeDue(options, signal) : Promise.resolve();
      await looked.catch((error: unknown) => {
        if (!signal.aborted) options.log.error("leftovers not checked", { error });
      });
      await pause(LOOK_MS, signal);
    }
  })();
  return {
    stop: async () => {
      stopping.abort();
      await loop;
    },
  };
}

/**
 * Drops the record of a leftover, for example on a host that no longer exists, and ends all attempts to
 * remove it. The host is not asked, and whatever it has stays there.
 * @returns what was dropped
 * @param left `host_uuid`: whose it is, needed where several hosts have one
 * @throws {AgentError} `not_found`; `conflict` for several, and while the machine belongs to a job that has not failed
 */
export async function dropLeftover(
  { uuid, host_uuid }: { readonly uuid: MachineUuid; readonly host_uuid?: HostUuid | undefined },
  { store: { machineClaims }, log }: Pick<LeftoverOptions, "store" | "log">,
): Promise<Leftover> {
  const [leftover, ...others] = await machineClaims.left({ uuid, host_uuid });
  if (others.length > 0) throw leftOnSeveral(uuid, others.length + 1);
  if (leftover !== undefined) {
    const { host, job_uuid, tries } = leftover;
    await machineClaims.drop(uuid, job_uuid);
    log.warn("leftover dropped", { machine_uuid: uuid, host, job_uuid, tries });
    return leftover;
  }
  const claim = await machineClaims.get(uuid);
  if (claim === undefined) {
    const message = `Cannot drop leftover ${uuid}: no leftover has this uuid`;
    throw new AgentError("not_found", message, { about: { kind: "leftover", name: uuid } });
  }
  const message = `Cannot drop leftover ${uuid}: the machine is that of job ${claim.job_uuid}, ` +
    "expected one whose job has failed or was canceled, and has ended";
  throw new AgentError("conflict", message, { about: { kind: "job", name: claim.job_uuid } });
}

function leftOnSeveral(uuid: MachineUuid, hosts: number): AgentError {
  const message =
    `Cannot drop leftover ${uuid}: ${hosts} hosts have one, expected \`host\` in the query`;
  return new AgentError("conflict", message, { about: { kind: "leftover", name: uuid } });
}

/** Makes every due attempt, one after another, so that a failing host is not flooded. */
export async function removeDue(options: LeftoverOptions, signal: AbortSignal): Promise<void> {
  const { store: { machineClaims }, hostName } = options;
  await machineClaims.settle();
  for (const leftover of await machineClaims.left({ host: hostName })) {
    if (signal.aborted) return;
    const { wait_ms } = leftover;
    if (wait_ms === null) {
      await machineClaims.postpone(leftover, LEFTOVER_FIRST_MS, null);
      continue;
    }
    // A longer wait means that the clock was ahead.
    if (wait_ms <= 0 || wait_ms > LEFTOVER_LONGEST_MS) await remove(leftover, options, signal);
  }
}

async function remove(
  leftover: Leftover,
  { store: { machineClaims }, host, workflow, log }: LeftoverOptions,
  signal: AbortSignal,
): Promise<void> {
  const { uuid, job_uuid, workflow_uuid, tries } = leftover;
  const about = { machine_uuid: uuid, job_uuid, tries: tries + 1 };
  const left = {
    job_uuid,
    machine: workflow_uuid === workflow,
    still: async () => (await machineClaims.get(uuid))?.job_uuid === job_uuid,
  };
  try {
    await host.removeLeft(uuid, left, { signal });
  } catch (error) {
    // Stopping the agent is not a failure.
    if (signal.aborted) return;
    const reason = messageOf(error);
    log.warn("leftover stays", { ...about, reason });
    const waitMs = Math.min(LEFTOVER_FIRST_MS * 2 ** tries, LEFTOVER_LONGEST_MS);
    await machineClaims.postpone(leftover, waitMs, reason);
    if (!(error instanceof AgentError)) throw error;
    return;
  }
  await machineClaims.release(uuid, job_uuid);
  log.info("leftover removed", about);
}
