// The results of tasks: rows that are written once, but for the result of a task that waited.

import type { Phase, TaskResult } from "../../../domain/job/job.ts";
import type { Connection } from "../connection.ts";

/** The results of a job, in the order of each phase. */
export function selectResults(
  db: Connection,
  id: number,
): { readonly phase: Phase; readonly entry: TaskResult }[] {
  const rows = db.rows<{ phase: Phase; entry: string }>(
    "SELECT phase, entry FROM task_results WHERE job_id = ? ORDER BY phase, position",
    id,
  );
  // The text was made by this store from a result.
  return rows.map(({ phase, entry }) => ({ phase, entry: JSON.parse(entry) as TaskResult }));
}

/** Adds a result behind those that the phase has. */
export function insertResult(db: Connection, id: number, phase: Phase, entry: TaskResult): void {
  db.run(
    `INSERT INTO task_results (job_id, phase, position, entry)
     VALUES (?1, ?2, (SELECT count(*) FROM task_results WHERE job_id = ?1 AND phase = ?2), ?3)`,
    id,
    phase,
    JSON.stringify(entry),
  );
}

/** Writes what became of the task that set its job to waiting. */
export function updateWaitingResult(
  db: Connection,
  id: number,
  phase: Phase,
  outcome: Pick<TaskResult, "result" | "error" | "finished_at">,
): void {
  db.run(
    `UPDATE task_results
        SET entry = json_set(entry, '$.result', json(?3), '$.error', json(?4),
                             '$.finished_at', ?5)
      WHERE job_id = ?1 AND phase = ?2
        AND position = (SELECT max(position) FROM task_results WHERE job_id = ?1 AND phase = ?2)`,
    id,
    phase,
    JSON.stringify(outcome.result),
    JSON.stringify(outcome.error),
    outcome.finished_at,
  );
}
