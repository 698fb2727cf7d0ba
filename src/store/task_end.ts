// The end of a task as both stores record it: the values of its row, whether it was recorded before, and what the job
// says of the one that replaces it.

import { unreachable } from "../domain/error.ts";
import type { JobUuid, WorkflowUuid } from "../domain/id.ts";
import { errorLine, secretNames } from "../domain/job/job.ts";
import {
  executionOf,
  heldIn,
  isClaimable,
  isHeld,
  isMade,
  type Move,
  startsAfter,
} from "../domain/job/state.ts";
import type { TaskRecord } from "./run_store.ts";
import { type InsertOutcome, standingOf, type StateRow } from "./sql.ts";

/** The columns of a job that recording the end of a task needs. */
export interface RecordedRow {
  readonly id: number;
  readonly workflow_uuid: WorkflowUuid;
  /** Null for a job without a callback. */
  readonly callback_host: string | null;
}

/** The values by which a store finds the job whose task has ended, and those that it writes. */
export function taskEnd(record: TaskRecord, move: Move) {
  const at = heldIn(record.phase);
  const elapsedMs = Math.round(record.elapsed_ms);
  const leavesPhase = move.phase !== at.phase;
  return {
    uuid: record.job_uuid,
    runner: record.runner_id,
    claim: record.lease,
    position: record.position,
    was: executionOf(at.state),
    was_in: at.phase,
    execution: executionOf(move.to),
    phase: move.phase,
    held: isHeld(move.to),
    claimable: isClaimable(move.to),
    ends: move.ends,
    // The end of a task resets the number of starts, so the previous value does not matter.
    starts: startsAfter(move, 0),
    params: JSON.stringify(record.params),
    props: JSON.stringify(record.props),
    // The next phase begins with its full time.
    elapsed_ms: leavesPhase ? 0 : elapsedMs,
    ended_ms: leavesPhase ? elapsedMs : 0,
    error: record.event.kind === "fail" && record.entry !== undefined
      ? errorLine(record.entry.error, secretNames(record.props))
      : null,
  };
}

/**
 * Whether the row of a job shows what a record writes, because an earlier call wrote it and its answer was lost: the
 * claim is still the latest, and the job is in the recorded state or a later one. A record with an entry also needs
 * that entry in the job.
 */
export function showsRecord(
  row: Pick<StateRow, "execution" | "phase" | "runner_id" | "claimable_at" | "lease">,
  record: TaskRecord,
  move: Move,
): boolean {
  if (row.lease !== record.lease) return false;
  if (row.runner_id !== null && row.runner_id !== record.runner_id) return false;
  if (!isMade(move, standingOf(row))) return false;
  return record.entry !== undefined ||
    row.execution === executionOf(move.to) && row.phase === move.phase;
}

/** What was checked before the write about the job that replaces another. */
export interface ReadySuccessor {
  readonly paramsSha256: string | null;
  /** Whether a job that was accepted meanwhile locks its target. */
  readonly lock: { readonly kind: "free" } | {
    readonly kind: "locked";
    readonly job_uuid: JobUuid;
  };
}

/** The job that replaces another, or why there is none. */
type NextAttempt =
  | { readonly kind: "named"; readonly uuid: JobUuid; readonly takesCallback: boolean }
  | { readonly kind: "refused"; readonly reason: string };

/**
 * What a job that ended as retried says of the one that replaces it. That takes the callback over, unless it was there
 * already, with another requester.
 */
export function nextAttemptOf(
  outcome: InsertOutcome | Extract<ReadySuccessor["lock"], { kind: "locked" }>,
): NextAttempt {
  switch (outcome.kind) {
    case "created":
      return { kind: "named", uuid: outcome.job.uuid, takesCallback: true };
    case "duplicate":
      return { kind: "named", uuid: outcome.job_uuid, takesCallback: false };
    case "locked":
      return { kind: "refused", reason: `job ${outcome.job_uuid} locks the target` };
    case "machine_taken":
      return { kind: "refused", reason: `job ${outcome.job_uuid} has the machine` };
    case "no_host": {
      const { host, reason } = outcome;
      const words = typeof reason === "object" ? reason.words : `is ${reason}`;
      return { kind: "refused", reason: `host ${host} ${words}` };
    }
    default:
      return unreachable(outcome);
  }
}
