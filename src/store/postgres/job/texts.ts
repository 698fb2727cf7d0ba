// Jobs as JSON texts, in parts of bounded size.

import type { JobUuid } from "../../../domain/id.ts";
import type { JobHost } from "../../../domain/host.ts";
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
import type { Asking, Transaction } from "../connection.ts";
import { wholeText } from "../large_text.ts";
import type { BoundValue } from "../server.ts";
import { listRows } from "./lists.ts";
import {
  BYTES,
  hostOf,
  type HostOfJob,
  hostOfJob,
  jobsFromRows,
  SHARED_COLUMNS,
  type SharedJobRow,
} from "./rows.ts";

/** The text of one job; undefined when it does not exist. */
export async function jobText(
  tx: Transaction,
  uuid: JobUuid,
  showing: Showing,
): Promise<StoredText | undefined> {
  const [shown] = await selectShown(tx, "uuid = $1", uuid);
  return shown === undefined ? undefined : textOfJob(shown, byClockOf(tx, showing));
}

/** Uses the clock of the database, which is that of the jobs' instants. */
export function byClockOf({ now }: Transaction, showing: Showing): Showing {
  return { ...showing, now };
}

/** What answers show of a host, with its uuid. */
export interface AskedHost extends HostOfJob {
  readonly host: string;
}

/** Reads what answers show of hosts. */
export async function askHosts(tx: Asking, hosts: readonly string[]): Promise<AskedHost[]> {
  if (hosts.length === 0) return [];
  return await tx.rows<AskedHost>(
    `SELECT host, ${hostOf("asked")} FROM unnest($1::text[]) AS asked (host)`,
    hosts,
  );
}

/** The hosts of jobs that were just created. @param known hosts that are read already */
export async function hostsOfJobs(
  tx: Transaction,
  jobs: readonly Job[],
  known: readonly AskedHost[],
): Promise<ReadonlyMap<string | null | undefined, JobHost | undefined>> {
  const read = new Set(known.map(({ host }) => host));
  const others = new Set(jobs.flatMap(({ host }) => host ? read.has(host) ? [] : [host] : []));
  const rows = [...known, ...await askHosts(tx, [...others])];
  return new Map(rows.map((row) => [row.host, hostOfJob(row, tx.now)]));
}

/** Approximate bytes of a job; undefined when it does not exist. */
export async function jobBytes(tx: Transaction, uuid: JobUuid): Promise<number | undefined> {
  const sql = `SELECT ${BYTES} AS bytes FROM jobs WHERE uuid = $1`;
  return (await tx.row<{ bytes: number }>(sql, uuid))?.bytes;
}

/** The next jobs of a list, newest first, as many as fit a part, or a single larger one. */
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
  const jobs = await selectShown(tx, "id = ANY($1::bigint[])", fit.map(({ id }) => id));
  return {
    texts: textsOf(jobs, byClockOf(tx, showing)),
    entries: fit.length,
    place: fit.at(-1)?.id,
    last: rows.length < limit && fit.length === rows.length,
  };
}

/** A job and its host. */
interface ShownJob {
  readonly job: Job;
  readonly host: JobHost | undefined;
}

/** The jobs that meet a condition, newest first, with their hosts. @param value the only value of the condition */
async function selectShown(
  tx: Transaction,
  condition: string,
  value: BoundValue,
): Promise<ShownJob[]> {
  const rows = await tx.rows<SharedJobRow & HostOfJob>(
    `SELECT ${SHARED_COLUMNS}, ${hostOf("jobs")} FROM jobs WHERE ${condition} ORDER BY id DESC`,
    value,
  );
  const jobs = await jobsFromRows(tx, rows.map(({ host_facts: _, ...row }) => row));
  return jobs.map((job, at) => ({ job, host: rows[at] && hostOfJob(rows[at], tx.now) }));
}

function textsOf(jobs: readonly ShownJob[], showing: Showing): StoredText[] {
  if (jobs.length === 0) return [];
  if (showing.masksSecrets) return jobs.map((job) => textOfJob(job, showing));
  return [wholeText(jobs.map((job) => jsonOfJob(job, showing)).join(","))];
}

/** The JSON of a job as answers show it, with the names of its secrets. */
export function textOfJob(shown: ShownJob, showing: Showing): StoredText {
  const { secret_params } = shown.job.props;
  const secrets = secret_params === undefined ? null : JSON.stringify(secret_params);
  return wholeText(jsonOfJob(shown, showing), secrets);
}

/** The params come last if secrets are to be masked, because masking finds them by the name of their member. */
function jsonOfJob({ job, host }: ShownJob, { wording, now, masksSecrets }: Showing): string {
  if (!masksSecrets) return JSON.stringify(jobOnWire(job, wording, now, host));
  const wire = jobOnWire({ ...job, params: {} }, wording, now, host);
  return JSON.stringify({ ...wire, params: job.params });
}
