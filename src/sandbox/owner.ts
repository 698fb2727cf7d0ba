// The workflow that owns a guest. A guest never serves two workflows: whatever a body does to its
// process reaches only later jobs of the same source. A workflow is its uuid and the text of its
// tasks, so that a changed workflow gets new processes too.

import type { WorkflowUuid } from "../domain/id.ts";
import type { Job } from "../domain/job/job.ts";
import { sha256Hex } from "../domain/digest.ts";

/** One version of a workflow, as the owner of guests. */
export type GuestOwner = string & { readonly brand: "GuestOwner" };

/** The owner of the guests that run a job's tasks. */
export type OwnerOf = (job: OwnedJob) => Promise<GuestOwner>;

/** The part of a job that identifies its workflow: the job's own copy of the tasks. */
export type OwnedJob = Pick<Job, "workflow_uuid" | "chain" | "onerror" | "oncancel">;

interface KnownOwner extends OwnedJob {
  readonly owner: GuestOwner;
}

/**
 * Computes owners. The text is hashed once for each definition that the store holds in memory: its
 * jobs share the lists of tasks.
 */
export function openGuestOwners(): OwnerOf {
  const known = new WeakMap<Job["chain"], KnownOwner>();
  return async ({ workflow_uuid, chain, onerror, oncancel }) => {
    const before = known.get(chain);
    if (
      before?.workflow_uuid === workflow_uuid && before.onerror === onerror &&
      before.oncancel === oncancel
    ) return before.owner;
    const owner = await guestOwner(workflow_uuid, [chain, onerror, oncancel]);
    known.set(chain, { workflow_uuid, chain, onerror, oncancel, owner });
    return owner;
  };
}

async function guestOwner(uuid: WorkflowUuid, tasks: readonly Job["chain"][]): Promise<GuestOwner> {
  const text = new TextEncoder().encode(JSON.stringify(tasks));
  return `${uuid} ${await sha256Hex(text)}` as GuestOwner;
}
