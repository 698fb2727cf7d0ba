// Runners and what they leave behind. A runner that holds jobs renews its lease; when it does not,
// its jobs may be taken by another, and nothing that it writes afterwards counts.

import type { RunnerId, WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Connection } from "../connection.ts";
import { giveTurn } from "./turns.ts";

/** Says that a runner lives, and until when nobody else takes its jobs. */
export function renewLease(db: Connection, runner: RunnerId, until: Instant): void {
  db.run(
    `INSERT INTO runners (runner_id, leased_until) VALUES (?1, ?2)
     ON CONFLICT (runner_id) DO UPDATE SET leased_until = ?2`,
    runner,
    until,
  );
}

/**
 * Makes claimable again what runners without a lease hold and, with `own`, what this one held in an
 * earlier life. Their starts stay counted. @returns how many jobs
 */
export function rescueJobs(db: Connection, runner: RunnerId, now: Instant, own: boolean): number {
  const left = db.rows<{ id: number; workflow_uuid: WorkflowUuid }>(
    `UPDATE jobs
        SET execution = CASE execution WHEN 'running' THEN 'queued' ELSE execution END,
            runner_id = NULL, claimable_at = ?2
      WHERE runner_id IS NOT NULL
        AND CASE runner_id WHEN ?1 THEN ?3
              ELSE runner_id NOT IN (SELECT runner_id FROM runners WHERE leased_until > ?2) END
     RETURNING id, workflow_uuid`,
    runner,
    now,
    own ? 1 : 0,
  );
  // The order of their creation, which RETURNING does not promise.
  left.sort((a, b) => a.id - b.id);
  for (const { id, workflow_uuid } of left) giveTurn(db, id, workflow_uuid);
  return left.length;
}

/** Forgets runners whose lease is over and which hold nothing. */
export function deleteGoneRunners(db: Connection, now: Instant): number {
  return db.run(
    `DELETE FROM runners WHERE leased_until <= ?
        AND runner_id NOT IN (SELECT runner_id FROM jobs WHERE runner_id IS NOT NULL)`,
    now,
  );
}
