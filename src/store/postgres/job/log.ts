// The log of a job: entries of its info and failed attempts, in one order.

import type { JobUuid } from "../../../domain/id.ts";
import { PHASES } from "../../../domain/job/state.ts";
import {
  attemptFromRow,
  type AttemptRow,
  ATTEMPTS_OF_A_PHASE_MAX,
  lineFromRow,
  type LineRow,
  type SizedLine,
} from "../../summary_rows.ts";
import { type JobAttempt, type JobLogPage, type JobLogPart, LOG_PAGE_BYTES } from "../../store.ts";
import { fitting } from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { secretsFrom, secretsOf } from "../statements.ts";

/** A job whose log is read, with the names of its secrets as a JSON list. */
export async function selectJobOfLog(
  tx: Transaction,
  uuid: JobUuid,
): Promise<{ readonly id: number; readonly secrets: string | null } | undefined> {
  const row = await tx.row<{ id: number; secrets: string | null }>(
    `SELECT id, ${secretsOf("props")} AS secrets FROM jobs WHERE uuid = $1`,
    uuid,
  );
  return row === undefined ? undefined : { id: row.id, secrets: secretsFrom(row.secrets) };
}

/** A page of lines, oldest first; undefined when there is no such job. */
export async function selectLog(
  tx: Transaction,
  uuid: JobUuid,
  page: JobLogPage,
): Promise<JobLogPart | undefined> {
  const job = await selectJobOfLog(tx, uuid);
  if (job === undefined) return undefined;
  const backwards = page.after === undefined;
  const { before = Number.MAX_SAFE_INTEGER, after = -1 } = page;
  const found = await tx.rows<SizedLine>(
    `SELECT seq, octet_length(entry) AS bytes FROM job_log
      WHERE job_id = $1 AND seq > $2 AND seq < $3
      ORDER BY seq ${backwards ? "DESC" : "ASC"} LIMIT $4`,
    job.id,
    after,
    before,
    page.limit + 1,
  );
  const fit = found.slice(0, Math.min(fitting(found, 0, LOG_PAGE_BYTES), page.limit));
  const lines = await tx.rows<LineRow>(
    `SELECT seq, phase, attempt, entry, created_at FROM job_log
      WHERE seq = ANY($1::bigint[]) ORDER BY seq`,
    fit.map(({ seq }) => seq),
  );
  return {
    lines: lines.map(lineFromRow),
    more: fit.length < found.length,
    // Made by this store from a list of names.
    secrets: job.secrets === null ? [] : JSON.parse(job.secrets) as string[],
  };
}

/** The failed attempts of a job by phase and task; none when the job is missing. */
export async function selectAttempts(tx: Transaction, uuid: JobUuid): Promise<JobAttempt[]> {
  const attempts: JobAttempt[] = [];
  for (const phase of PHASES) {
    const rows = await tx.rows<AttemptRow>(
      `SELECT phase, task, attempt, entry, created_at FROM job_log
        WHERE job_id = (SELECT id FROM jobs WHERE uuid = $1) AND phase = $2
        ORDER BY task DESC, attempt DESC LIMIT ${ATTEMPTS_OF_A_PHASE_MAX}`,
      uuid,
      phase,
    );
    attempts.push(...rows.reverse().map(attemptFromRow));
  }
  return attempts;
}
