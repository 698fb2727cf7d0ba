// Whose guest a process is. A guest never serves two workflows: what a body may have done to the
// inside of its process then reaches nothing but further jobs of the same author's text. A workflow is
// its uuid and the text of its tasks, so that a changed workflow, too, begins in new processes.

import type { WorkflowUuid } from "../domain/id.ts";
import type { Job } from "../domain/job/job.ts";
import { sha256Hex } from "../domain/digest.ts";

/** One workflow in one version, as far as guests are concerned. */
export type GuestOwner = string & { readonly brand: "GuestOwner" };

/** The owner of the guests that run a job's tasks. */
export type OwnerOf = (job: OwnedJob) => Promise<GuestOwner>;

/** What of a job tells its workflow: the job's own copy of the tasks. */
export type OwnedJob = Pick<Job, "workflow_uuid" | "chain" | "onerror" | "oncancel">;

interface KnownOwner extends OwnedJob {
  readonly owner: GuestOwner;
}

/**
 * Opens the naming of owners. The text is hashed once for each definition that the store holds in
 * memory: its jobs share the lists of tasks.
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
