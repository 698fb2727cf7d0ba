// Jobs as JSON texts, in parts of bounded size.

import type { JobUuid } from "../../../domain/id.ts";
import type { Job } from "../../../domain/job/job.ts";
import { jobOnWire } from "../../../domain/job/wire.ts";
import type { JobFilter, JobPage } from "../../job_store.ts";
import {
  fitting,
  MEASURED_MAX,
  type Showing,
  type StoredText,
  type TextPage,
} from "../../stored_text.ts";
import type { Transaction } from "../connection.ts";
import { wholeText } from "../held_text.ts";
import { listRows } from "./lists.ts";
import { BYTES, jobsFromRows, selectJob } from "./rows.ts";
import { JOB_COLUMNS, type JobRow } from "../../columns.ts";

/** One job; undefined when it is missing. */
export async function jobText(
  tx: Transaction,
  uuid: JobUuid,
  showing: Showing,
): Promise<StoredText | undefined> {
  const job = await selectJob(tx, uuid);
  return job === undefined ? undefined : textOfJob(job, showing);
}

/** Approximate bytes of a job; undefined when it is missing. */
export async function jobBytes(tx: Transaction, uuid: JobUuid): Promise<number | undefined> {
  const sql = `SELECT ${BYTES} AS bytes FROM jobs WHERE uuid = $1`;
  return (await tx.row<{ bytes: number }>(sql, uuid))?.bytes;
}

/** The next jobs of a list, newest first: as many as fit a part, or a single larger one. */
export async function jobTexts(
  tx: Transaction,
  filter: JobFilter,
  page: JobPage & { readonly limit: number },
  showing: Showing,
): Promise<TextPage> {
  const limit = Math.min(page.limit, MEASURED_MAX);
  const sized = `id, ${BYTES} AS bytes`;
  const rows = await listRows<{ id: number; bytes: number }>(tx, sized, filter, {
    ...page,
    limit,
  });
  const fit = rows.slice(0, fitting(rows));
  const jobs = await selectJobs(tx, fit.map(({ id }) => id));
  return {
    texts: textsOf(jobs, showing),
    entries: fit.length,
    place: fit.at(-1)?.id,
    last: rows.length < limit && fit.length === rows.length,
  };
}

/** The jobs of these places, newest first. */
async function selectJobs(tx: Transaction, ids: readonly number[]): Promise<Job[]> {
  const rows = await tx.rows<JobRow>(
    `SELECT ${JOB_COLUMNS} FROM jobs WHERE id = ANY($1::bigint[]) ORDER BY id DESC`,
    ids,
  );
  return await jobsFromRows(tx, rows);
}

function textsOf(jobs: readonly Job[], showing: Showing): StoredText[] {
  if (jobs.length === 0) return [];
  if (showing.apart) return jobs.map((job) => textOfJob(job, showing));
  return [wholeText(jobs.map((job) => jsonOfJob(job, showing)).join(","))];
}

/** A job as it is shown. */
export function textOfJob(job: Job, showing: Showing): StoredText {
  const { secret_params } = job.props;
  const secrets = secret_params === undefined ? null : JSON.stringify(secret_params);
  return wholeText(jsonOfJob(job, showing), secrets);
}

/** Masking finds params by their member, so masked jobs show them nowhere else. */
function jsonOfJob(job: Job, { wording, now, apart }: Showing): string {
  if (!apart) return JSON.stringify(jobOnWire(job, wording, now));
  const wire = jobOnWire({ ...job, params: {} }, wording, now);
  return JSON.stringify({ ...wire, params: job.params });
}
