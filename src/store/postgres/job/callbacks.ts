// Pending callbacks of finished jobs. A callback's row is inserted in the transaction that ends the job, and names the
// host that calls back.

import { dueFrom } from "../../sql.ts";
import type { JobUuid } from "../../../domain/id.ts";
import { type Instant, instantAfter } from "../../../domain/instant.ts";
import type { NextDue } from "../../run_store.ts";
import type { CallbackStore, DueCallback } from "../../store.ts";
import type { SharedDatabase, Transaction } from "../connection.ts";
import { callbackNotice } from "../notices.ts";
import { jobsFromRows, SHARED_COLUMNS, type SharedJobRow } from "./rows.ts";

/** Opens the part of the store about callbacks. @param owners this agent's host, and the word for any host */
export function openCallbacks(db: SharedDatabase, owners: readonly string[]): CallbackStore {
  return {
    take: (againMs, limit, passedOver = []) =>
      db.write((tx) => takeCallbacks(tx, owners, againMs, limit, passedOver)),
    nextDue: (passedOver = []) => db.read((tx) => selectNextCallback(tx, owners, passedOver)),
    done: (uuid) => db.write((tx) => deleteCallback(tx, owners, uuid)),
    postpone: (uuid, waitMs) => db.write((tx) => postponeCallback(tx, owners, uuid, waitMs)),
  };
}

/** Inserts the callback of a job that has ended, if it has one. */
export async function insertCallback(
  tx: Transaction,
  { id, callback_host }: { readonly id: number; readonly callback_host: string | null },
  owner: string,
): Promise<void> {
  if (callback_host === null) return;
  await tx.run(
    "INSERT INTO callbacks (job_id, host, owner, due_at, attempts) VALUES ($1, $2, $3, $4, 0)",
    id,
    callback_host,
    owner,
    tx.now,
  );
  tx.notify(callbackNotice(owner));
}

/** Takes the due callbacks, each of which becomes due again after `againMs`. */
async function takeCallbacks(
  tx: Transaction,
  owners: readonly string[],
  againMs: number,
  limit: number,
  passedOver: readonly string[],
): Promise<DueCallback[]> {
  const taken = await advanceDue(tx, owners, againMs, limit, passedOver);
  const attemptsOf = new Map(taken.map(({ job_id, attempts }) => [job_id, attempts]));
  const rows = await selectJobRows(tx, [...attemptsOf.keys()]);
  const jobs = await jobsFromRows(tx, rows);
  return rows.flatMap(({ id, callback_url: url }, index) => {
    const job = jobs[index];
    if (job === undefined || url === null) return [];
    return [{ job, url, attempts: (attemptsOf.get(id) ?? 1) - 1 }];
  });
}

/** Counts an attempt of each due callback, and sets when it is due again. */
async function advanceDue(
  tx: Transaction,
  owners: readonly string[],
  againMs: number,
  limit: number,
  passedOver: readonly string[],
): Promise<{ job_id: number; attempts: number }[]> {
  return await tx.rows(
    `WITH due AS (
       SELECT job_id FROM callbacks
        WHERE owner = ANY($1) AND due_at <= $2 AND host <> ALL($5::text[])
        ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED)
     UPDATE callbacks SET due_at = $3, attempts = attempts + 1
       FROM due WHERE callbacks.job_id = due.job_id
     RETURNING callbacks.job_id, attempts`,
    owners,
    tx.now,
    instantAfter(tx.now, againMs),
    limit,
    passedOver,
  );
}

async function selectJobRows(tx: Transaction, ids: readonly number[]): Promise<SharedJobRow[]> {
  return await tx.rows<SharedJobRow>(
    `SELECT ${SHARED_COLUMNS} FROM jobs WHERE id = ANY($1::bigint[]) ORDER BY id`,
    ids,
  );
}

/** Reads when the first callback is due. */
async function selectNextCallback(
  tx: Transaction,
  owners: readonly string[],
  passedOver: readonly string[],
): Promise<NextDue> {
  const row = await tx.row<{ due: Instant | null }>(
    "SELECT min(due_at) AS due FROM callbacks WHERE owner = ANY($1) AND host <> ALL($2::text[])",
    owners,
    passedOver,
  );
  return dueFrom(tx.now, row?.due ?? null);
}

const OF_JOB = "owner = ANY($1) AND job_id = (SELECT id FROM jobs WHERE uuid = $2)";

/** Deletes a callback that was delivered or abandoned. */
async function deleteCallback(
  tx: Transaction,
  owners: readonly string[],
  uuid: JobUuid,
): Promise<void> {
  await tx.run(`DELETE FROM callbacks WHERE ${OF_JOB}`, owners, uuid);
}

/** Sets when the next attempt is due. */
async function postponeCallback(
  tx: Transaction,
  owners: readonly string[],
  uuid: JobUuid,
  waitMs: number,
): Promise<void> {
  const due = instantAfter(tx.now, waitMs);
  await tx.run(`UPDATE callbacks SET due_at = $3 WHERE ${OF_JOB}`, owners, uuid, due);
}
