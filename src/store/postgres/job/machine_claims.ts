// The rows of jobs' claims on machines.

import type { JobUuid, MachineUuid, RunnerId } from "../../../domain/id.ts";
import { type Instant, instantAfter } from "../../../domain/instant.ts";
import {
  type LeftFilter,
  type Leftover,
  leftoverAt,
  leftoverFailed,
  type MachineClaim,
  type MachineClaimStore,
} from "../../claim_store.ts";
import { CLAIMS_WITH_JOBS, IS_LEFT } from "../../sql.ts";
import type { SharedDatabase, Transaction } from "../connection.ts";
import { insertEvent } from "./events.ts";
import { type ByLife, isLatest, type Lives } from "../statements.ts";

const COLUMNS =
  "c.uuid, c.host, c.owner AS host_uuid, c.job_uuid, c.claimed_at, c.tries, c.next_try_at, c.error";
const LEFTOVER_COLUMNS =
  `${COLUMNS}, coalesce(j.execution, c.execution) AS execution, c.workflow_uuid`;

/**
 * Opens the part of the store about claims on machines.
 * @param own the host of this agent
 * @param lives the lives in whose name this agent writes
 */
export function openMachineClaims(
  db: SharedDatabase,
  own: RunnerId,
  lives: Lives,
): MachineClaimStore {
  const here = () => ({ owner: own, life: lives.get(own) });
  return {
    take: (machine, lease) => db.write((tx) => upsertClaim(tx, machine, { ...here(), lease })),
    get: (uuid) => db.read((tx) => selectClaim(tx, uuid, own)),
    release: (uuid, job, lease) =>
      db.write((tx) => deleteClaim(tx, { uuid, job, ...here(), lease }, "leftover_removed")),
    drop: (uuid, job) =>
      db.write((tx) => deleteClaim(tx, { uuid, job, owner: null }, "leftover_dropped")),
    settle: () => db.write((tx) => deleteSettled(tx)),
    left: (filter = {}) => db.read((tx) => selectLeft(tx, filter, own)),
    postpone: (claim, wait_ms, error) =>
      db.write((tx) => updateClaim(tx, { ...claim, owner: own }, wait_ms, error)),
  };
}

/**
 * A condition that a host may still write about the machines of a job: the host was not forgotten, and the job was not
 * claimed again. If the job has failed meanwhile, the machine becomes a leftover.
 * @param lease placeholder of the statement
 * @param owner placeholder of the statement
 */
const mayTell = (lease: string, owner: string): string =>
  `(${lease}::bigint IS NULL OR (lease = ${lease} AND NOT EXISTS (
     SELECT 1 FROM hosts WHERE hosts.uuid = ${owner} AND forgotten)))`;

/** The claim on a job under which a host writes. */
interface Teller extends ByLife {
  readonly lease: number | undefined;
}

async function upsertClaim(
  tx: Transaction,
  { uuid, host, job_uuid }: Pick<MachineClaim, "uuid" | "host" | "job_uuid">,
  { owner, lease, life }: Teller & { readonly owner: string },
): Promise<boolean> {
  // FOR KEY SHARE locks the job, so that another agent's retention cannot remove it before it sees the claim.
  const written = await tx.run(
    `INSERT INTO machine_claims (uuid, host, owner, job_uuid, workflow_uuid, claimed_at)
     SELECT $1, $2, $5, uuid, workflow_uuid, $4 FROM jobs
      WHERE uuid = $3 AND ${mayTell("$6", "$5")} AND ${isLatest("$7", "$5")} FOR KEY SHARE
     ON CONFLICT (uuid, owner) DO UPDATE
        SET host = excluded.host, job_uuid = excluded.job_uuid,
            workflow_uuid = excluded.workflow_uuid, claimed_at = excluded.claimed_at,
            execution = NULL, tries = 0, next_try_at = NULL, error = NULL`,
    uuid,
    host,
    job_uuid,
    tx.now,
    owner,
    lease ?? null,
    life ?? null,
  );
  return written > 0;
}

/** Copies the outcome of jobs that are about to be removed into their claims. */
export async function keepEnds(tx: Transaction, jobs: readonly number[]): Promise<void> {
  await tx.run(
    `UPDATE machine_claims SET execution = jobs.execution FROM jobs
      WHERE jobs.id = ANY($1::bigint[]) AND machine_claims.job_uuid = jobs.uuid`,
    jobs,
  );
}

async function selectClaim(
  tx: Transaction,
  uuid: MachineUuid,
  own: string,
): Promise<MachineClaim | undefined> {
  const sql = `SELECT ${COLUMNS} FROM machine_claims c WHERE c.uuid = $1 AND c.owner = $2`;
  return await tx.row<MachineClaim>(sql, uuid, own);
}

/** Reads the claims of these jobs. */
export function selectClaimsOf(tx: Transaction, jobs: readonly JobUuid[]): Promise<MachineClaim[]> {
  return tx.rows<MachineClaim>(
    `SELECT ${COLUMNS} FROM machine_claims c WHERE c.job_uuid = ANY($1)`,
    jobs,
  );
}

/** Deletes a claim, with an event if it had become a leftover. @param owner null for the claim of any host */
async function deleteClaim(
  tx: Transaction,
  { uuid, job, owner, lease, life }: Partial<Teller> & {
    readonly uuid: MachineUuid;
    readonly job: JobUuid;
    readonly owner: string | null;
  },
  change: "leftover_removed" | "leftover_dropped",
): Promise<void> {
  const gone = await tx.row<{ next_try_at: Instant | null }>(
    `DELETE FROM machine_claims
      WHERE uuid = $1 AND job_uuid = $2 AND ($3::text IS NULL OR owner = $3)
        AND ($4::bigint IS NULL OR EXISTS (
              SELECT 1 FROM jobs WHERE jobs.uuid = $2 AND ${mayTell("$4", "$3")}))
        AND ${isLatest("$5", "$3")}
     RETURNING next_try_at`,
    uuid,
    job,
    owner,
    lease ?? null,
    life ?? null,
  );
  if (gone === undefined) return;
  // A leftover that no check has found was never reported as one.
  if (change === "leftover_removed" && gone.next_try_at === null) return;
  const payload = { change, machine_uuid: uuid, job_uuid: job };
  await insertEvent(tx, { kind: "own_machine", payload });
}

async function deleteSettled(tx: Transaction): Promise<void> {
  await tx.run(
    `DELETE FROM machine_claims
      WHERE coalesce((SELECT execution FROM jobs WHERE uuid = job_uuid), execution) = 'succeeded'`,
  );
}

async function selectLeft(
  tx: Transaction,
  { uuid, host, host_uuid, limit }: LeftFilter,
  own: string,
): Promise<Leftover[]> {
  const rows = await tx.rows<Omit<Leftover, "wait_ms">>(
    `SELECT ${LEFTOVER_COLUMNS} FROM ${CLAIMS_WITH_JOBS} WHERE ${IS_LEFT}
        AND ($1::text IS NULL OR c.uuid = $1)
        AND ($2::text IS NULL OR (c.host = $2 AND c.owner = $3))
        AND ($4::text IS NULL OR c.owner = $4)
      ORDER BY c.claimed_at, c.uuid, c.owner LIMIT $5`,
    uuid ?? null,
    host ?? null,
    own,
    host_uuid ?? null,
    limit ?? null,
  );
  return rows.map((row) => leftoverAt(row, tx.now));
}

async function updateClaim(
  tx: Transaction,
  { uuid, job_uuid, tries, owner }: MachineClaim & { readonly owner: string },
  wait_ms: number,
  error: string | null,
): Promise<void> {
  const words = error?.replaceAll("\0", "\ufffd") ?? null;
  const changed = await tx.run(
    `UPDATE machine_claims
        SET next_try_at = $3, tries = $5::bigint + ($4::text IS NOT NULL)::int,
            error = coalesce($4, error)
      WHERE uuid = $1 AND job_uuid = $2 AND owner = $6 AND tries = $5::bigint`,
    uuid,
    job_uuid,
    instantAfter(tx.now, wait_ms),
    words,
    tries,
    owner,
  );
  if (words !== null && changed > 0) await insertEvent(tx, leftoverFailed(uuid, job_uuid, words));
}
