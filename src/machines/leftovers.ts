// Removes what jobs should have removed and could not: their undoing failed, or came to no end. What is
// owed is a row, so that no crash forgets it, and an operator can see it; it is tried again, at longer
// and longer intervals, for as long as the job is kept.

import { AgentError, messageOf } from "../domain/error.ts";
import type { JobUuid, MachineUuid, WorkflowUuid } from "../domain/id.ts";
import { instantAfter, msBetween, type Now } from "../domain/instant.ts";
import type { Log } from "../metrics/log.ts";
import { pause } from "../program/loop.ts";
import type { Leftover } from "../store/machine_claim_store.ts";
import type { Store } from "../store/store.ts";

/** Between the end of a job and the first attempt: what its calls began on the host comes to rest. */
export const LEFTOVER_FIRST_MS = 60_000;
/** Between two attempts at the most; the time before each is twice as long as that before the last. */
export const LEFTOVER_LONGEST_MS = 3_600_000;
/** Between two looks at what is due. */
const LOOK_MS = 15_000;

/** The host, as far as leftovers are removed from it. */
export interface LeftoverHost {
  /**
   * Removes what carries the uuid, as far as it is of that job; what is not stays, and is no failure.
   * @param left `machine`: whether a machine goes too; `still`: asked before anything is touched
   */
  removeLeft(
    uuid: MachineUuid,
    left: { job_uuid: JobUuid; machine: boolean; still: () => Promise<boolean> },
    o: { signal: AbortSignal },
  ): Promise<void>;
}

/** What is removed, and from where. */
export interface LeftoverOptions {
  readonly store: Pick<Store, "machineClaims">;
  readonly host: LeftoverHost;
  /** The workflow whose failed jobs leave no machine. Of others only datasets without one are removed. */
  readonly workflow: WorkflowUuid;
  readonly now: Now;
  readonly log: Log;
}

/** The removing, until stopped. */
export interface Leftovers {
  /** Ends the attempt that is under way; it is made again by the next agent. */
  stop(): Promise<void>;
}

/** Starts to remove leftovers, those of earlier agents among them. */
export function openLeftovers(options: LeftoverOptions): Leftovers {
  const stopping = new AbortController();
  const { signal } = stopping;
  const loop = (async () => {
    while (!signal.aborted) {
      await removeDue(options, signal).catch((error: unknown) => {
        if (!signal.aborted) options.log.error("leftovers not looked at", { error });
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

/** Makes every attempt that is due, one after another: a host that fails is asked no faster. */
export async function removeDue(options: LeftoverOptions, signal: AbortSignal): Promise<void> {
  const { store: { machineClaims }, now } = options;
  await machineClaims.settle();
  for (const leftover of await machineClaims.left()) {
    if (signal.aborted) return;
    const { next_try_at } = leftover;
    const at = now();
    if (next_try_at === null) {
      await machineClaims.postpone(leftover, instantAfter(at, LEFTOVER_FIRST_MS), null);
      continue;
    }
    const waitMs = msBetween(at, next_try_at);
    // A longer one than there is comes from a clock that was ahead.
    if (waitMs <= 0 || waitMs > LEFTOVER_LONGEST_MS) await remove(leftover, options, signal);
  }
}

async function remove(
  leftover: Leftover,
  { store: { machineClaims }, host, workflow, now, log }: LeftoverOptions,
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
    // What was cut off by our own end is no failure.
    if (signal.aborted) return;
    const reason = messageOf(error);
    log.warn("leftover stays", { ...about, reason });
    const waitMs = Math.min(LEFTOVER_FIRST_MS * 2 ** tries, LEFTOVER_LONGEST_MS);
    await machineClaims.postpone(leftover, instantAfter(now(), waitMs), reason);
    if (!(error instanceof AgentError)) throw error;
    return;
  }
  await machineClaims.release(uuid, job_uuid);
  log.info("leftover removed", about);
}
