// Converts between jobs and rows of the shared database, as sqlite/job/rows.ts does for a file.

import { sha256Hex } from "../../../domain/digest.ts";
import { hostState, type JobHost, type RegisteredHost } from "../../../domain/host.ts";
import type { HostUuid, JobUuid, WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { type Job, secretNames, type TaskResult, timeoutOf } from "../../../domain/job/job.ts";
import type { Execution, Phase } from "../../../domain/job/state.ts";
import type { Task, Workflow } from "../../../domain/job/workflow.ts";
import type { JsonObject } from "../../../domain/json.ts";
import type { Transaction } from "../connection.ts";
import { RowChanged } from "../errors.ts";
import { type ColumnTypes, tableOf, Values } from "../statements.ts";
import { JOB_COLUMNS, type JobDefinition, type JobRow } from "../../sql.ts";

/** The columns of a job in a shared store. */
export const SHARED_COLUMNS = `${JOB_COLUMNS}, host`;

/** A row of SHARED_COLUMNS. */
export interface SharedJobRow extends JobRow {
  readonly host: HostUuid | null;
}

/** A column with the facts that answers show of a job's host. @param jobs the alias of the table of jobs */
export const hostOf = (jobs: string): string =>
  `(SELECT json_build_object('uuid', uuid, 'name', name, 'seen_at', seen_at,
  'lease_ms', lease_ms, 'cordoned', cordoned, 'forgotten', forgotten)::text
    FROM hosts WHERE hosts.uuid = ${jobs}.host) AS host_facts`;

/** A row with that column, which is null for a job without a registered host. */
export interface HostOfJob {
  readonly host_facts: string | null;
}

/** Makes what answers show of a job's host. */
export function hostOfJob({ host_facts }: HostOfJob, now: Instant): JobHost | undefined {
  if (host_facts === null) return undefined;
  // hostOf() made the text.
  const host = JSON.parse(host_facts) as RegisteredHost;
  return { uuid: host.uuid, name: host.name, state: hostState(host, now) };
}

/** Approximate bytes of a job, without reading its texts. */
export const BYTES =
  `(octet_length(params) + octet_length(props) + coalesce(octet_length(target), 0) +
  coalesce(octet_length(requested_params), 0) +
  (SELECT octet_length(chain) + octet_length(onerror) + octet_length(oncancel)
     FROM definitions WHERE definitions.id = definition_id) +
  coalesce((SELECT sum(octet_length(entry)) FROM task_results WHERE job_id = jobs.id), 0))::bigint`;

/** Parses rows into jobs, in their order. One statement reads the results of all. */
export async function jobsFromRows(tx: Transaction, rows: readonly SharedJobRow[]): Promise<Job[]> {
  if (rows.length === 0) return [];
  return await jobsOf(tx, rows, await selectResults(tx, rows.map(({ id }) => id)));
}

/** As jobsFromRows(), for results that are read already. */
export async function jobsOf(
  tx: Transaction,
  rows: readonly SharedJobRow[],
  results: readonly ResultRow[],
): Promise<Job[]> {
  const jobs: Job[] = [];
  for (const { id, definition_id, ...columns } of rows) {
    const resultsOf = (phase: Phase) =>
      results.filter((one) => one.job_id === id && one.phase === phase).map(({ entry }) => entry);
    // This store made the texts of JSON columns from values of these types.
    const params = JSON.parse(columns.params) as JsonObject;
    jobs.push({
      ...columns,
      ...await definitionOf(tx, definition_id),
      params,
      requested_params: columns.requested_params === null
        ? params
        : JSON.parse(columns.requested_params) as JsonObject,
      props: JSON.parse(columns.props) as JsonObject,
      chain_results: resultsOf("chain"),
      onerror_results: resultsOf("onerror"),
      oncancel_results: resultsOf("oncancel"),
    });
  }
  return jobs;
}

/** Reads a whole job; undefined when it does not exist. */
export async function selectJob(tx: Transaction, uuid: JobUuid): Promise<Job | undefined> {
  const rows = await tx.rows<SharedJobRow>(
    `SELECT ${SHARED_COLUMNS} FROM jobs WHERE uuid = $1`,
    uuid,
  );
  return (await jobsFromRows(tx, rows))[0];
}

/** Reads one column, so that the size of the job does not matter; undefined when the job does not exist. */
export async function selectExecution(
  tx: Transaction,
  uuid: JobUuid,
): Promise<Execution | undefined> {
  const row = await tx.row<{ execution: Execution }>(
    "SELECT execution FROM jobs WHERE uuid = $1",
    uuid,
  );
  return row?.execution;
}

/** Finds out which of these jobs have not ended. */
export async function selectUnfinished(
  tx: Transaction,
  uuids: readonly JobUuid[],
): Promise<ReadonlySet<JobUuid>> {
  const rows = await tx.rows<{ uuid: JobUuid }>(
    "SELECT uuid FROM jobs WHERE uuid = ANY($1) AND finished_at IS NULL",
    uuids,
  );
  return new Set(rows.map(({ uuid }) => uuid));
}

/** The definition of a job. It is cached, because its row never changes and a database never reuses an id. */
export function definitionOf(tx: Transaction, id: number): Promise<JobDefinition> {
  return tx.cached(`definition ${id}`, async () => {
    const row = await tx.row<{
      name: string;
      chain: string;
      onerror: string;
      oncancel: string;
      timeout: number;
    }>("SELECT name, chain, onerror, oncancel, timeout FROM definitions WHERE id = $1", id);
    if (row === undefined) throw new Error(`Cannot read definition ${id}: its row is missing`);
    const { name, chain, onerror, oncancel, timeout } = row;
    // This store made the texts from tasks.
    const tasks = (text: string) => JSON.parse(text) as Task[];
    return {
      value: {
        name,
        chain: tasks(chain),
        onerror: tasks(onerror),
        oncancel: tasks(oncancel),
        timeout,
      },
      chars: chain.length + onerror.length + oncancel.length,
    };
  });
}

/** The digests of workflows that are in memory. */
const digests = new WeakMap<Workflow, string>();

/**
 * The definition for a new job of a workflow: that of an earlier job, or a new one.
 * @throws {RowChanged} when another agent has just removed it
 */
export async function definitionFor(tx: Transaction, workflow: Workflow): Promise<number> {
  const { uuid } = workflow;
  const sha256 = digests.get(workflow) ?? await digestOf(workflow);
  digests.set(workflow, sha256);
  // If another agent's retention removes a cached definition, the insert of its job fails; that clears the cache, and
  // the next run reads the definition again.
  return await tx.cached(
    `definition of ${uuid} ${sha256}`,
    async () => ({ value: await definitionOfDigest(tx, workflow, sha256), chars: 0 }),
  );
}

async function definitionOfDigest(
  tx: Transaction,
  workflow: Workflow,
  sha256: string,
): Promise<number> {
  const { uuid, name } = workflow;
  const found = await selectDefinition(tx, uuid, sha256);
  if (found !== undefined) return found;
  const row = await tx.row<{ id: number }>(
    `INSERT INTO definitions (workflow_uuid, name, sha256, chain, onerror, oncancel, timeout)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (workflow_uuid, sha256) DO NOTHING RETURNING id`,
    uuid,
    name,
    sha256,
    ...textsOf(workflow),
    timeoutOf(workflow),
  );
  // Another agent has just inserted it.
  const id = row?.id ?? await selectDefinition(tx, uuid, sha256);
  if (id === undefined) {
    throw new RowChanged(`Cannot write a definition of ${uuid}: the database returned no row`);
  }
  return id;
}

function textsOf({ chain, onerror, oncancel = [] }: Workflow): [string, string, string] {
  return [JSON.stringify(chain), JSON.stringify(onerror), JSON.stringify(oncancel)];
}

async function digestOf(workflow: Workflow): Promise<string> {
  const whole = [workflow.name, ...textsOf(workflow), timeoutOf(workflow)];
  return await sha256Hex(new TextEncoder().encode(JSON.stringify(whole)));
}

/** FOR KEY SHARE keeps another agent's retention from removing the definition before the new job is inserted. */
async function selectDefinition(
  tx: Transaction,
  workflow: WorkflowUuid,
  sha256: string,
): Promise<number | undefined> {
  const row = await tx.row<{ id: number }>(
    "SELECT id FROM definitions WHERE workflow_uuid = $1 AND sha256 = $2 FOR KEY SHARE",
    workflow,
    sha256,
  );
  return row?.id;
}

/** Removes those of these definitions that no job uses any more. */
export async function deleteUnusedDefinitions(
  tx: Transaction,
  ids: readonly number[],
): Promise<void> {
  await tx.run(
    `DELETE FROM definitions
      WHERE id = ANY($1::bigint[]) AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition_id = definitions.id)`,
    ids,
  );
}

/** The secret names of a job's workflow at the time of the job's creation. */
export async function secretNamesOf(tx: Transaction, id: number): Promise<ReadonlySet<string>> {
  const row = await tx.row<{ props: string }>("SELECT props FROM jobs WHERE id = $1", id);
  return secretNames(row === undefined ? {} : JSON.parse(row.props) as JsonObject);
}

interface ResultRow {
  readonly job_id: number;
  readonly phase: Phase;
  readonly entry: TaskResult;
}

async function selectResults(tx: Transaction, ids: readonly number[]): Promise<ResultRow[]> {
  const rows = await tx.rows<{ job_id: number; phase: Phase; entry: string }>(
    `SELECT job_id, phase, entry FROM task_results WHERE job_id = ANY($1::bigint[])
      ORDER BY job_id, phase, position`,
    ids,
  );
  // This store made the text from a result.
  return rows.map((row) => ({ ...row, entry: JSON.parse(row.entry) as TaskResult }));
}

/** A result and its position, which is the number of results before it in its phase. */
interface PlacedResult {
  readonly id: number;
  readonly phase: Phase;
  readonly position: number;
  readonly entry: TaskResult;
}

const RESULT_TYPES: ColumnTypes<Omit<PlacedResult, "entry"> & { readonly entry: string }> = {
  id: "bigint",
  phase: "text",
  position: "bigint",
  entry: "text",
};

/** Appends results to phases of jobs. */
export async function insertResults(
  tx: Transaction,
  results: readonly PlacedResult[],
): Promise<void> {
  if (results.length === 0) return;
  const values = new Values();
  const rows = results.map(({ entry, ...at }) => ({ ...at, entry: JSON.stringify(entry) }));
  await tx.run(
    `INSERT INTO task_results (job_id, phase, position, entry)
     SELECT id, phase, position, entry FROM ${tableOf(RESULT_TYPES, rows, values)} ORDER BY place`,
    ...values.all,
  );
}

/** Whether exactly this result is at a position. */
export async function isEntry(
  tx: Transaction,
  id: number,
  phase: Phase,
  position: number,
  entry: TaskResult,
): Promise<boolean> {
  const row = await tx.row(
    `SELECT 1 AS found FROM task_results
      WHERE job_id = $1 AND phase = $2 AND position = $3 AND entry = $4`,
    id,
    phase,
    position,
    JSON.stringify(entry),
  );
  return row !== undefined;
}

/** Whether the call with this id has ended a wait of the job. */
export async function isResumedBy(tx: Transaction, id: number, call: string): Promise<boolean> {
  const row = await tx.row(
    "SELECT 1 AS found FROM task_results WHERE job_id = $1 AND resumed_by = $2",
    id,
    call,
  );
  return row !== undefined;
}

/**
 * Writes the result of the task for which a job waits.
 * @throws {Error} when the task has no entry
 */
export async function updateWaitingResult(
  tx: Transaction,
  id: number,
  phase: Phase,
  outcome: Pick<TaskResult, "result" | "error" | "finished_at">,
  call: string | null,
): Promise<void> {
  const waiting = await selectLastResult(tx, id, phase);
  if (waiting === undefined) {
    throw new Error(`Cannot resume job ${id}: its waiting task has no entry`);
  }
  const entry = { ...JSON.parse(waiting.entry) as TaskResult, ...outcome };
  await tx.run(
    `UPDATE task_results SET entry = $4, resumed_by = $5
      WHERE job_id = $1 AND phase = $2 AND position = $3`,
    id,
    phase,
    waiting.position,
    JSON.stringify(entry),
    call,
  );
}

/** The last result of a phase, which is that of the task for which a job waits. */
async function selectLastResult(
  tx: Transaction,
  id: number,
  phase: Phase,
): Promise<{ position: number; entry: string } | undefined> {
  return await tx.row(
    `SELECT position, entry FROM task_results WHERE job_id = $1 AND phase = $2
      ORDER BY position DESC LIMIT 1`,
    id,
    phase,
  );
}
