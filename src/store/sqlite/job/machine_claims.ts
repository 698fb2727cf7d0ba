// Claims of jobs on machines, as rows.

import type { JobUuid, MachineUuid } from "../../../domain/id.ts";
import { type Instant, instantAfter, type Now } from "../../../domain/instant.ts";
import {
  type LeftFilter,
  type Leftover,
  leftoverAt,
  leftoverFailed,
  type MachineClaim,
  type MachineClaimStore,
} from "../../claim_store.ts";
import { CLAIMS_WITH_JOBS, IS_LEFT } from "../../sql.ts";
import type { Connection } from "../connection.ts";
import { insertEvent } from "./events.ts";

/** Claims of jobs that have ended without a machine. */
export const LEFT_CLAIMS = `FROM ${CLAIMS_WITH_JOBS} WHERE ${IS_LEFT}`;
const COLUMNS = `c.uuid, c.host, (SELECT uuid FROM hosts) AS host_uuid, c.job_uuid,
  c.claimed_at, c.tries, c.next_try_at, c.error`;

/** The part of the store about claims. */
export function openMachineClaims(db: Connection, now: Now): MachineClaimStore {
  return {
    take: (machine) => db.write("machine_take", () => upsertClaim(db, machine, now())),
    get: (uuid) => db.durably(() => selectClaim(db, uuid)),
    release: (uuid, job) =>
      db.write("machine_release", () => deleteClaim(db, { uuid, job }, "leftover_removed", now())),
    drop: (uuid, job) =>
      db.write("machine_drop", () => deleteClaim(db, { uuid, job }, "leftover_dropped", now())),
    settle: () => db.write("machine_settle", () => deleteSettled(db)),
    left: (filter = {}) => db.durably(() => selectLeft(db, filter, now())),
    postpone: (claim, wait_ms, error) =>
      db.write(
        "machine_postpone",
        () => updateClaim(db, claim, { now: now(), wait_ms, error }),
      ),
  };
}

function upsertClaim(
  db: Connection,
  { uuid, host, job_uuid }: Pick<MachineClaim, "uuid" | "host" | "job_uuid">,
  now: Instant,
): boolean {
  return db.run(
    `INSERT INTO machine_claims (uuid, host, job_uuid, workflow_uuid, claimed_at)
     SELECT ?1, ?2, uuid, workflow_uuid, ?4 FROM jobs WHERE uuid = ?3
     ON CONFLICT (uuid) DO UPDATE
        SET host = excluded.host, job_uuid = excluded.job_uuid,
            workflow_uuid = excluded.workflow_uuid, claimed_at = excluded.claimed_at,
            execution = NULL, tries = 0, next_try_at = NULL, error = NULL`,
    uuid,
    host,
    job_uuid,
    now,
  ) > 0;
}

/** Copies the outcome of jobs that are about to be removed into their claims. */
export function keepEnds(db: Connection, jobs: readonly number[]): void {
  db.run(
    `UPDATE machine_claims SET execution = ended.execution
       FROM (SELECT jobs.uuid, jobs.execution FROM json_each(?) AS gone
               CROSS JOIN jobs ON jobs.id = gone.value) AS ended
      WHERE machine_claims.job_uuid = ended.uuid`,
    JSON.stringify(jobs),
  );
}

function selectClaim(db: Connection, uuid: MachineUuid): MachineClaim | undefined {
  return db.row<MachineClaim>(`SELECT ${COLUMNS} FROM machine_claims c WHERE c.uuid = ?`, uuid);
}

/** Removes a claim, with an event if it had become a leftover. */
function deleteClaim(
  db: Connection,
  { uuid, job }: { readonly uuid: MachineUuid; readonly job: JobUuid },
  change: "leftover_removed" | "leftover_dropped",
  now: Instant,
): void {
  const gone = db.rows<{ next_try_at: Instant | null }>(
    "DELETE FROM machine_claims WHERE uuid = ? AND job_uuid = ? RETURNING next_try_at",
    uuid,
    job,
  );
  // A leftover that no check has found was never reported.
  const reported = change === "leftover_dropped" || typeof gone[0]?.next_try_at === "string";
  if (gone.length === 0 || !reported) return;
  const payload = { change, machine_uuid: uuid, job_uuid: job };
  insertEvent(db, { kind: "own_machine", payload }, now);
}

function deleteSettled(db: Connection): void {
  db.run(
    `DELETE FROM machine_claims
      WHERE coalesce((SELECT execution FROM jobs WHERE uuid = job_uuid), execution) = 'succeeded'`,
  );
}

const LEFTOVER_COLUMNS =
  `${COLUMNS}, coalesce(j.execution, c.execution) AS execution, c.workflow_uuid`;

/** All are of the one agent that has the file. */
function selectLeft(
  db: Connection,
  { uuid, host, limit = -1 }: LeftFilter,
  now: Instant,
): Leftover[] {
  const rows = db.rows<Omit<Leftover, "wait_ms">>(
    `SELECT ${LEFTOVER_COLUMNS} ${LEFT_CLAIMS} AND (?1 IS NULL OR c.uuid = ?1)
        AND (?2 IS NULL OR c.host = ?2)
      ORDER BY c.claimed_at, c.uuid LIMIT ?3`,
    uuid ?? null,
    host ?? null,
    limit,
  );
  return rows.map((row) => leftoverAt(row, now));
}

function updateClaim(
  db: Connection,
  { uuid, job_uuid, tries }: MachineClaim,
  { now, wait_ms, error }: {
    readonly now: Instant;
    readonly wait_ms: number;
    readonly error: string | null;
  },
): void {
  const changed = db.run(
    `UPDATE machine_claims
        SET next_try_at = ?3, tries = ?5 + (?4 IS NOT NULL), error = coalesce(?4, error)
      WHERE uuid = ?1 AND job_uuid = ?2 AND tries = ?5`,
    uuid,
    job_uuid,
    instantAfter(now, wait_ms),
    error,
    tries,
  );
  if (error !== null && changed > 0) insertEvent(db, leftoverFailed(uuid, job_uuid, error), now);
}
