// Leases of runners. A runner that holds jobs renews its lease; when it does not, another runner may
// rescue its jobs, and nothing that it writes about them afterwards counts.

import type { RunnerId } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { decide } from "../../../domain/job/state.ts";
import type { Connection } from "../connection.ts";
import { insertInterrupted } from "./attempts.ts";
import { standingOf, STATE_COLUMNS, type StateRow, writeMove } from "./moves.ts";

/** Extends the lease of a runner: nobody else rescues its jobs before. */
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
  // In the order of their creation, in which they get their turns.
  const held = db.rows<StateRow & { readonly lapsed: number }>(
    `SELECT ${STATE_COLUMNS},
            CASE runner_id WHEN ?1 THEN ?3
              ELSE runner_id NOT IN (SELECT runner_id FROM runners WHERE leased_until > ?2)
              END AS lapsed
       FROM jobs WHERE runner_id IS NOT NULL ORDER BY id`,
    runner,
    now,
    Number(own),
  );
  let rescued = 0;
  for (const row of held) {
    const decision = decide(standingOf(row), { kind: "rescue", lapsed: row.lapsed === 1 });
    if (decision.kind === "denied") continue;
    insertInterrupted(db, row.id, now);
    writeMove(db, row, decision, now);
    rescued += 1;
  }
  return rescued;
}

/** Forgets runners whose lease is over and which hold nothing. */
export function deleteGoneRunners(db: Connection, now: Instant): number {
  return db.run(
    `DELETE FROM runners WHERE leased_until <= ?
        AND runner_id NOT IN (SELECT runner_id FROM jobs WHERE runner_id IS NOT NULL)`,
    now,
  );
}
