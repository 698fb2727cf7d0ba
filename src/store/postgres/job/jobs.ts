// Inserts jobs, and links them to their next attempts.

import type { JobUuid } from "../../../domain/id.ts";
import { instantAfter } from "../../../domain/instant.ts";
import { type NewJob, propsOf } from "../../../domain/job/job.ts";
import { CREATED, executionOf } from "../../../domain/job/state.ts";
import type { JsonObject, JsonValue } from "../../../domain/json.ts";
import type { Transaction } from "../connection.ts";
import { Changed } from "../server.ts";
import { queuedWord } from "../notices.ts";
import { HOLDS_TARGET } from "../../words.ts";
import { type PlaceHosts, queueFor } from "./place.ts";
import { definitionFor, insertResult, selectJob } from "./rows.ts";
import { nextTurn } from "./turns.ts";
import type { InsertOutcome } from "../../columns.ts";

/**
 * Inserts a queued job, unless an unfinished one has the same target and params, or the machine. A call
 * repeated after a lost answer returns the job of the first call, as it is now.
 * @param hosts those that take it where its params name none
 * @throws {Changed} when the job that prevented it has just ended
 */
export async function insertJob(
  tx: Transaction,
  job: NewJob,
  hosts: PlaceHosts,
  paramsSha256: string | null,
): Promise<InsertOutcome> {
  const { now } = tx;
  const place = await queueFor(tx, job, hosts);
  if (place.kind === "no_host") return await writtenBefore(tx, job.uuid) ?? place;
  const { queue, host } = place;
  const definition = await definitionFor(tx, job.workflow);
  const execAfter = job.exec_after ?? instantAfter(now, job.delay_ms ?? 0);
  const turn = execAfter <= now ? await nextTurn(tx, queue, job.workflow.uuid) : null;
  const row = await tx.row<{ id: number }>(
    `INSERT INTO jobs (
       uuid, workflow_uuid, definition_id, execution, phase, undoable, exec_after, claimable_at,
       turn, target, params, params_sha256, locks, callback_url, callback_host, props, created_at,
       requested_params, machine_uuid, kept, queue, host, elapsed_ms, phases_ms, lease, starts)
     SELECT $1, $2, $3::bigint, '${executionOf(CREATED.state)}', '${CREATED.phase}', $4::boolean,
            $5::text, $5::text, $6::bigint, $7, $8::text, $9, $10, $11, $12, $13, $14,
            nullif($15::text, $8::text), $16, $17::bigint, $18::text, $19::text, 0, 0, 0, 0
      WHERE NOT EXISTS (SELECT 1 FROM hosts WHERE uuid = $18::text AND forgotten)
     ON CONFLICT DO NOTHING RETURNING id`,
    job.uuid,
    job.workflow.uuid,
    definition,
    (job.workflow.oncancel ?? []).length > 0,
    execAfter,
    turn,
    job.target,
    JSON.stringify(job.params),
    paramsSha256,
    job.locks ?? null,
    job.callback_url ?? null,
    typeof job.callback_url === "string" ? new URL(job.callback_url).host : null,
    JSON.stringify(propsOf(job)),
    now,
    job.requested_params === undefined ? null : JSON.stringify(job.requested_params),
    job.machine_uuid ?? null,
    Number(job.idempotency !== undefined),
    queue,
    host,
  );
  if (row === undefined) {
    return await writtenBefore(tx, job.uuid) ?? await forgottenOf(tx, queue) ??
      await holderOf(tx, job, paramsSha256);
  }
  if (turn !== null) tx.tell(queuedWord(queue));
  for (const [at, entry] of (job.chain_results ?? []).entries()) {
    await insertResult(tx, row.id, "chain", at, entry);
  }
  const created = await writtenBefore(tx, job.uuid);
  if (created === undefined) throw new Error(`Cannot read job ${job.uuid}: its row is missing`);
  return created;
}

/** The job of an earlier call of the same request, whose answer was lost. */
export async function writtenBefore(
  tx: Transaction,
  uuid: JobUuid,
): Promise<Extract<InsertOutcome, { kind: "created" }> | undefined> {
  const job = await selectJob(tx, uuid);
  return job === undefined ? undefined : { kind: "created", job };
}

/** Whether the host of a queue was forgotten, which prevented the insert. */
async function forgottenOf(tx: Transaction, queue: string): Promise<InsertOutcome | undefined> {
  const row = await tx.row("SELECT 1 AS found FROM hosts WHERE uuid = $1 AND forgotten", queue);
  return row === undefined ? undefined : { kind: "no_host", host: queue, reason: "forgotten" };
}

/** The unfinished job that prevented the insert. */
async function holderOf(
  tx: Transaction,
  { target, machine_uuid = null }: NewJob,
  paramsSha256: string | null,
): Promise<InsertOutcome> {
  const row = await tx.row<{ uuid: JobUuid; equal: boolean }>(
    `SELECT uuid, coalesce(target = $1 AND params_sha256 = $2, false) AS equal FROM jobs
      WHERE ((target = $1 AND params_sha256 = $2) OR machine_uuid = $3) AND ${HOLDS_TARGET}
      ORDER BY equal DESC LIMIT 1`,
    target,
    paramsSha256,
    machine_uuid,
  );
  if (row === undefined) throw new Changed(`Cannot name the job that holds target ${target}`);
  const { uuid: job_uuid, equal } = row;
  return { kind: equal ? "duplicate" : "machine_taken", job_uuid };
}

/**
 * Writes a field of the engine into a finished job that has no next attempt.
 * @throws {Changed} when the job is not as it was read
 */
async function writeProp(
  tx: Transaction,
  id: number,
  name: "next_attempt" | "next_attempt_refused",
  value: JsonValue,
): Promise<void> {
  const row = await tx.row<{ props: string }>(
    "SELECT props FROM jobs WHERE id = $1 AND finished_at IS NOT NULL FOR UPDATE",
    id,
  );
  const props = row === undefined ? undefined : JSON.parse(row.props) as JsonObject;
  if (props === undefined || "next_attempt" in props) {
    throw new Changed(`Cannot write ${name} into job ${id}: it is not as it was read`);
  }
  const text = JSON.stringify({ ...props, [name]: value });
  await tx.run("UPDATE jobs SET props = $2 WHERE id = $1", id, text);
}

/**
 * Links a finished job to the next attempt: its successor, or the unfinished job with the same target and
 * params. Can be done once.
 */
export function nameNextAttempt(tx: Transaction, id: number, next: JobUuid): Promise<void> {
  return writeProp(tx, id, "next_attempt", next);
}

/** Why a finished job has no next attempt although it asked for one. */
export function nameRefusedAttempt(tx: Transaction, id: number, reason: string): Promise<void> {
  return writeProp(tx, id, "next_attempt_refused", reason);
}
