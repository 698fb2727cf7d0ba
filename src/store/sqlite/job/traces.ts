// What each change of a job leaves beside its row, in the same transaction: its event, and what it changes in
// the counters. Triggers would do the same at twice the cost of the statement that fires them.

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

/** Event of a job that is only about itself, not about its tasks. */
const SIMPLE = "INSERT INTO events (kind, at, job_id, change, state) VALUES ('job', ?, ?, ?, ?)";

/** A job was made, now. */
export function traceCreated(
  db: Connection,
  job: { readonly id: number; readonly definition_id: number; readonly created_at: Instant },
): void {
  db.run(SIMPLE, job.created_at, job.id, "created", executionOf(CREATED.state));
  db.counters.made(job);
}

/** Props of a finished job were changed. */
export function traceUpdate(db: Connection, id: number, execution: Execution, now: Instant): void {
  db.run(SIMPLE, now, id, "updated", execution);
}

/**
 * A job was moved.
 * @param from where it was before
 * @param ended tasks of that phase that have an entry; counted unless given
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
  const tasks = { phase: from.phase, ended, next_phase: move.phase };
  insertTaskEvent(db, id, at, changeOf(from, move), state, tasks);
  if (machine_uuid !== null && state !== before) {
    const sql = "INSERT INTO events (kind, at, job_id, state) VALUES ('machine', ?, ?, ?)";
    db.run(sql, at, id, state);
  }
  db.counters.moved(created_at, before, state);
  if (move.ends) db.counters.ended(finished_at ?? now, state);
  if (isAtRest(move.to) && kept === 0) db.counters.removable(state);
}

/** An attempt of a task failed, and another one follows. */
export function traceAttempt(
  db: Connection,
  id: number,
  execution: Execution,
  phase: Phase,
  now: Instant,
): void {
  const tasks = { phase, ended: null, next_phase: phase };
  insertTaskEvent(db, id, now, "attempt", execution, tasks);
}

/** What a move is called in its event. */
function changeOf(from: Standing, { to }: Move): typeof JOB_CHANGES[number] {
  const state = executionOf(to);
  if (state !== executionOf(from.state) && state !== "running") return state;
  if (!isHeld(from.state)) return "started";
  if (isHeld(to)) return "task";
  return isClaimable(to) ? "queued" : "undone";
}

/** The chain before a change with its number of ended tasks, and the chain after it. */
interface EventTasks {
  readonly phase: Phase;
  readonly ended: number | null;
  readonly next_phase: Phase;
}

function insertTaskEvent(
  db: Connection,
  id: number,
  at: Instant,
  change: typeof JOB_CHANGES[number],
  state: Execution,
  { phase, ended, next_phase }: EventTasks,
): void {
  db.run(
    `INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase)
     VALUES ('job', ?1, ?2, ?3, ?4, ?5,
       coalesce(?6, (SELECT count(*) FROM task_results WHERE job_id = ?2 AND phase = ?5)), ?7)`,
    at,
    id,
    change,
    state,
    phase,
    ended,
    next_phase,
  );
}
