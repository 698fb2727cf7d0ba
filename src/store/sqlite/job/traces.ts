// What each change of a job writes besides its row, in the same transaction: its event, and changes of counters.
// Triggers would double the cost of the statement that fires them.

import type { Instant } from "../../../domain/instant.ts";
import type { JOB_CHANGES } from "../../../domain/event.ts";
import {
  CREATED,
  type Execution,
  executionOf,
  isAtRest,
  isClaimable,
  isHeld,
  type Move,
  type Phase,
  type Standing,
} from "../../../domain/job/state.ts";
import type { Connection } from "../connection.ts";

/** The columns of a moved job, for RETURNING of the statement that moves it. */
export const TRACED_COLUMNS = "id, created_at, finished_at, machine_uuid, kept";

/** A row of TRACED_COLUMNS. */
export interface TracedRow {
  readonly id: number;
  readonly created_at: Instant;
  readonly finished_at: Instant | null;
  readonly machine_uuid: string | null;
  readonly kept: number;
}

/** Call when a job was created. */
export function traceCreated(
  db: Connection,
  job: { readonly id: number; readonly definition_id: number; readonly created_at: Instant },
): void {
  const state = executionOf(CREATED.state);
  db.events.add({ at: job.created_at, job_id: job.id, change: "created", state });
  db.counters.made(job);
}

/** Call when props of a finished job changed. */
export function traceUpdate(db: Connection, id: number, execution: Execution, now: Instant): void {
  db.events.add({ at: now, job_id: id, change: "updated", state: execution });
}

/**
 * Call when a job has moved.
 * @param from the state before
 * @param ended tasks of that phase with an entry; counted if left out
 */
export function traceMove(
  db: Connection,
  row: TracedRow,
  from: Standing,
  move: Move,
  now: Instant,
  ended: number | null = null,
): void {
  const { id, created_at, finished_at, machine_uuid, kept } = row;
  const state = executionOf(move.to);
  const before = executionOf(from.state);
  const goesOn = isHeld(move.to) || isClaimable(move.to);
  const at = goesOn ? now : finished_at ?? now;
  const tasks = { phase: from.phase, ended: ended ?? endedTasks(db, id, from.phase) };
  const change = changeOf(from, move);
  db.events.add({ at, job_id: id, change, state, ...tasks, next_phase: move.phase });
  if (machine_uuid !== null && state !== before) {
    db.events.add({ at, job_id: id, change: null, state });
  }
  db.counters.moved(created_at, before, state);
  if (move.ends) db.counters.ended(finished_at ?? now, state);
  if (isAtRest(move.to) && kept === 0) db.counters.removable(state);
}

/** Call when an attempt failed and will be repeated. */
export function traceAttempt(
  db: Connection,
  id: number,
  execution: Execution,
  phase: Phase,
  now: Instant,
): void {
  const tasks = { phase, ended: endedTasks(db, id, phase), next_phase: phase };
  db.events.add({ at: now, job_id: id, change: "attempt", state: execution, ...tasks });
}

/** The name of a move in its event. */
function changeOf(from: Standing, { to }: Move): typeof JOB_CHANGES[number] {
  const state = executionOf(to);
  if (state !== executionOf(from.state) && state !== "running") return state;
  if (!isHeld(from.state)) return "started";
  if (isHeld(to)) return "task";
  return isClaimable(to) ? "queued" : "undone";
}

function endedTasks(db: Connection, id: number, phase: Phase): number {
  const sql = "SELECT count(*) AS ended FROM task_results WHERE job_id = ? AND phase = ?";
  return db.row<{ ended: number }>(sql, id, phase)?.ended ?? 0;
}
