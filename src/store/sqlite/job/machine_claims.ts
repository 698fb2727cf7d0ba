// Claims of jobs on machines, as rows.

import type { JobUuid, MachineUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Leftover, MachineClaim, MachineClaimStore } from "../../machine_claim_store.ts";
import type { Connection } from "../connection.ts";

/** Claims of jobs that have ended without a machine; a canceled job is final before its last task. */
export const LEFT_CLAIMS = `FROM machine_claims c JOIN jobs j ON j.uuid = c.job_uuid
      WHERE j.execution IN ('failed', 'canceled', 'retried')
        AND j.runner_id IS NULL AND j.claimable_at IS NULL`;
const COLUMNS = "c.uuid, c.job_uuid, c.claimed_at, c.tries, c.next_try_at, c.error";

/** The part of the store about claims. */
export function openMachineClaims(db: Connection): MachineClaimStore {
  return {
    take: (uuid, job, now) => db.write("machine_take", () => upsertClaim(db, uuid, job, now)),
    get: (uuid) => db.durably(() => selectClaim(db, uuid)),
    release: (uuid, job) => db.write("machine_release", () => deleteClaim(db, uuid, job)),
    settle: () => db.write("machine_settle", () => deleteSettled(db)),
    left: (limit = -1) => db.durably(() => selectLeft(db, limit)),
    postpone: (claim, next_try_at, error) =>
      db.write("machine_postpone", () => updateClaim(db, claim, next_try_at, error)),
  };
}

function upsertClaim(db: Connection, uuid: MachineUuid, job: JobUuid, now: Instant): void {
  db.run(
    `INSERT INTO machine_claims (uuid, job_uuid, claimed_at) VALUES (?1, ?2, ?3)
     ON CONFLICT (uuid) DO UPDATE
        SET job_uuid = ?2, claimed_at = ?3, tries = 0, next_try_at = NULL, error = NULL`,
    uuid,
    job,
    now,
  );
}

function selectClaim(db: Connection, uuid: MachineUuid): MachineClaim | undefined {
  return db.row<MachineClaim>(`SELECT ${COLUMNS} FROM machine_claims c WHERE c.uuid = ?`, uuid);
}

function deleteClaim(db: Connection, uuid: MachineUuid, job: JobUuid): void {
  db.run("DELETE FROM machine_claims WHERE uuid = ? AND job_uuid = ?", uuid, job);
}

function deleteSettled(db: Connection): void {
  db.run(
    `DELETE FROM machine_claims
      WHERE NOT EXISTS (SELECT 1 FROM jobs j
                         WHERE j.uuid = machine_claims.job_uuid AND j.execution <> 'succeeded')`,
  );
}

function selectLeft(db: Connection, limit: number): Leftover[] {
  return db.rows<Leftover>(
    `SELECT ${COLUMNS}, j.execution, j.workflow_uuid ${LEFT_CLAIMS}
      ORDER BY c.claimed_at, c.uuid LIMIT ?`,
    limit,
  );
}

function updateClaim(
  db: Connection,
  { uuid, job_uuid }: MachineClaim,
  next_try_at: Instant,
  error: string | null,
): void {
  db.run(
    `UPDATE machine_claims
        SET next_try_at = ?3, tries = tries + (?4 IS NOT NULL), error = coalesce(?4, error)
      WHERE uuid = ?1 AND job_uuid = ?2`,
    uuid,
    job_uuid,
    next_try_at,
    error,
  );
}
