// Jobs as JSON texts: the result of jobOnWire(), concatenated by SQLite from the texts of row, definition and
// results. A page of small jobs is one statement that returns one run of bytes; a large job is sent in parts,
// and its large parts are read when they are sent.

import type { JobUuid } from "../../../domain/id.ts";
import { EXECUTIONS, type Phase, PHASES } from "../../../domain/job/state.ts";
import {
  ENGINE_FIELDS,
  executionOnWire,
  EXTRA_FIELDS_BYTES_MAX,
  jobOnWire,
  NO_EXTRA_FIELDS,
  SHOWN_FIELDS,
  type Wording,
} from "../../../domain/job/wire.ts";
import type { JobFilter, JobPage } from "../../job_store.ts";
import {
  fitting,
  type LazyPart,
  PART_BYTES,
  readText,
  type Showing,
  type StoredText,
  type TextPage,
} from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { ownHost } from "../host_rows.ts";
import type { Job } from "../../../domain/job/job.ts";
import { notBefore } from "../../../domain/instant.ts";
import { valueWeight } from "../../../domain/json.ts";
import { listRows } from "./lists.ts";
import { partAt, textOfParts } from "../text_parts.ts";

/** Largest job, bytes, whose text is made in one go. */
const SMALL_BYTES = 16 * 1024;

const JOBS = "jobs AS j JOIN definitions AS d ON d.id = j.definition_id";

/** Members of `props` that responses leave out. */
const HIDDEN_PROPS = [...ENGINE_FIELDS].filter((name) => !SHOWN_FIELDS.includes(name));
const SHOWN_PROPS = `json_remove(j.props, ${HIDDEN_PROPS.map((name) => `'$.${name}'`).join(", ")})`;
/** Properties set by tasks, as members with a trailing comma. */
const PROPS = `CASE WHEN j.props = '{}' OR ${SHOWN_PROPS} = '{}' THEN ''
  ELSE concat(substr(${SHOWN_PROPS}, 2, length(${SHOWN_PROPS}) - 2), ',') END`;

/** Params as members with a trailing comma, except names of the job itself: a patch with null removes. */
const EXTRA_MEMBERS = `CASE WHEN octet_length(j.params) > ${EXTRA_FIELDS_BYTES_MAX} THEN '' ELSE (
  SELECT CASE extra WHEN '{}' THEN '' ELSE concat(substr(extra, 2, length(extra) - 2), ',') END
    FROM (SELECT json_patch(
      json_remove(j.params, ${[...NO_EXTRA_FIELDS].map((name) => `'$.${name}'`).join(", ")}),
      (SELECT json_group_object(key, NULL) FROM json_each(j.props))) AS extra)) END`;

const results = (phase: Phase) =>
  `(SELECT group_concat(entry, ',') FROM task_results
     WHERE job_id = j.id AND phase = '${phase}')`;

/** Bytes of a job and its definition; SQLite stores lengths separately, so no text is read. */
export const OWN_BYTES =
  `octet_length(params) + octet_length(props) + coalesce(octet_length(target), 0) +
  coalesce(octet_length(requested_params), 0) +
  (SELECT octet_length(chain) + octet_length(onerror) + octet_length(oncancel)
     FROM definitions WHERE id = definition_id)`;

/** Bytes of the results of a job; 0 only when it has none. */
export const RESULT_BYTES =
  "(SELECT total(octet_length(entry)) FROM task_results WHERE job_id = jobs.id)";

/** Bytes of a job without its small fields. */
export const BYTES = `${OWN_BYTES} + ${RESULT_BYTES}`;

/** Bytes of a job with the params that are shown twice. */
const BYTES_WITH_EXTRA = `${BYTES} +
  iif(octet_length(params) > ${EXTRA_FIELDS_BYTES_MAX}, 0, octet_length(params))`;

/** Names of fields of this job that its workflow calls secret. */
const SECRETS = "j.props -> '$.secret_params'";

/** A member from a column that may be null: concat() treats null as empty. */
const given = (name: string) => `',"${name}":' || nullif(json_quote(j.${name}), 'null')`;
/** As above, for a column whose texts need no escapes. */
const plain = (name: string) => `',"${name}":"' || j.${name} || '"'`;

/** Milliseconds from the start of what runs now to ?1. */
const SINCE_START_MS =
  "CAST(round((julianday(?1) - julianday(j.elapsed_at)) * 86400000) AS INTEGER)";
/** Milliseconds that the job has run until ?1. */
const ELAPSED_MS = `(j.phases_ms + j.elapsed_ms +
  CASE WHEN j.elapsed_at IS NULL THEN 0 ELSE max(${SINCE_START_MS}, 0) END)`;
const ELAPSED = `${ELAPSED_MS} / 1000,
  CASE ${ELAPSED_MS} % 1000 WHEN 0 THEN NULL
    ELSE rtrim(printf('.%03d', ${ELAPSED_MS} % 1000), '0') END`;

/** SQL for why an unfinished job does not run, by the rules of domain/job/wire.ts. */
const WAIT = `CASE
  WHEN j.execution = 'waiting' THEN ',"reason":"waiting_for_resume"'
  WHEN j.execution <> 'queued' OR j.claimable_at IS NULL THEN NULL
  WHEN j.claimable_at <= ?1 THEN ',"reason":"waiting_for_slot"'
  ELSE ',"reason":"scheduled","next_run_at":"' || j.claimable_at || '"' END`;

/** The host of every job of this store. */
const HOST = `(SELECT concat(',"host":', json_quote(name), ',"host_uuid":"', uuid, '"',
  CASE cordoned WHEN 1 THEN ',"host_state":"cordoned"' END) FROM hosts)`;

type ShownAs = Pick<Showing, "wording" | "masksSecrets">;

/** The params come last if secrets are to be masked, because masking finds them by the name of their member. */
function showsExtra({ wording, masksSecrets }: ShownAs): boolean {
  return wording === "node-workflow" && !masksSecrets;
}

/** The pieces of a job in order: arguments of concat(), with names for large ones. */
function piecesOf(showing: ShownAs): readonly [sql: string, large?: Large][] {
  const { wording } = showing;
  const words = EXECUTIONS.map((word) => `WHEN '${word}' THEN '${executionOnWire(word, wording)}'`);
  return [
    ["'{'"],
    ...(showsExtra(showing) ? [[EXTRA_MEMBERS] as [string]] : []),
    [PROPS, "props"],
    [`'"uuid":"', j.uuid, '","workflow_uuid":"', j.workflow_uuid, '","name":', json_quote(d.name),
      ',"execution":"', CASE j.execution ${words.join(" ")} END, '"', ${WAIT}, ',"chain":'`],
    ["d.chain", "chain"],
    [`',"onerror":'`],
    ["d.onerror", "onerror"],
    [`',"chain_results":['`],
    [results("chain"), "chain_results"],
    [`'],"onerror_results":['`],
    [results("onerror"), "onerror_results"],
    [`']', CASE d.oncancel WHEN '[]' THEN NULL ELSE ',"oncancel":' END`],
    ["nullif(d.oncancel, '[]')", "oncancel"],
    ["CASE d.oncancel WHEN '[]' THEN NULL ELSE ',\"oncancel_results\":[' END"],
    [`CASE d.oncancel WHEN '[]' THEN NULL ELSE ${results("oncancel")} END`, "oncancel_results"],
    [`CASE d.oncancel WHEN '[]' THEN NULL ELSE ']' END, ',"timeout":', d.timeout,
      ',"exec_after":"', j.exec_after, '","params":'`],
    ["j.params", "params"],
    [`${given("target")}, ${given("locks")}, ${given("callback_url")}, ${plain("created_at")},
      ${plain("started_at")}, ${plain("finished_at")}, ${plain("runner_id")}, ${HOST},
      ',"elapsed":', ${ELAPSED}, '}'`],
  ];
}

/** Pieces that may be large. */
type Large = "props" | "chain" | "onerror" | "oncancel" | "params" | `${Phase}_results`;

interface Statements {
  /** SQL for the bytes of a job in this variant. */
  readonly bytes: string;
  readonly pieces: ReturnType<typeof piecesOf>;
  /** Selects one job by uuid, with its text unless it is large. */
  readonly one: string;
  readonly listed: string;
}

/** The rows in the order of a list of ids. */
const JOBS_IN_LIST = "json_each(?2) AS listed CROSS JOIN jobs AS j ON j.id = listed.value " +
  "JOIN definitions AS d ON d.id = j.definition_id";

function statementsOf(showing: ShownAs): Statements {
  const pieces = piecesOf(showing);
  const bytes = showsExtra(showing) ? BYTES_WITH_EXTRA : BYTES;
  const whole = `concat(${pieces.map(([sql]) => sql).join(", ")})`;
  return {
    bytes,
    pieces,
    one: oneText(whole, bytes),
    listed: showing.masksSecrets ? eachText(whole) : joinedTexts(whole),
  };
}

/** SQL for the text of one job, null for a large one. @param whole,bytes SQL for the text and for its size */
function oneText(whole: string, bytes: string): string {
  return `SELECT j.id, ${SECRETS} AS secrets,
                 CASE WHEN sized.bytes <= ${PART_BYTES} THEN CAST(${whole} AS BLOB) END AS text
            FROM (SELECT id, ${bytes} AS bytes FROM jobs WHERE uuid = ?2) AS sized
            JOIN jobs AS j ON j.id = sized.id JOIN definitions AS d ON d.id = j.definition_id`;
}

/** SQL for the texts of listed jobs, a row for each with its secrets. */
function eachText(whole: string): string {
  return `SELECT CAST(${whole} AS BLOB) AS text, ${SECRETS} AS secrets FROM ${JOBS_IN_LIST}`;
}

/** SQL for the texts of listed jobs as one. */
function joinedTexts(whole: string): string {
  return `SELECT CAST(group_concat(${whole}, ',') AS BLOB) AS text, NULL AS secrets FROM ${JOBS_IN_LIST}`;
}

const WITH_SECRETS_WITHIN: Readonly<Record<Wording, Statements>> = {
  document: statementsOf({ wording: "document", masksSecrets: false }),
  "node-workflow": statementsOf({ wording: "node-workflow", masksSecrets: false }),
};
const WITH_SECRETS_APART: Readonly<Record<Wording, Statements>> = {
  document: statementsOf({ wording: "document", masksSecrets: true }),
  "node-workflow": statementsOf({ wording: "node-workflow", masksSecrets: true }),
};

function statementsFor({ wording, masksSecrets }: Showing): Statements {
  return (masksSecrets ? WITH_SECRETS_APART : WITH_SECRETS_WITHIN)[wording];
}

/** The text of one job; undefined when it does not exist. */
export function jobText(
  db: Connection,
  uuid: JobUuid,
  showing: Showing,
): StoredText | undefined {
  const row = db.row<{ id: number; text: Uint8Array | null; secrets: string | null }>(
    statementsFor(showing).one,
    showing.now,
    uuid,
  );
  if (row === undefined) return undefined;
  return row.text === null ? largeText(db, row.id, showing) : readText(row.text, row.secrets);
}

/**
 * The text of a job that was just written, in a tenth of the time of reading it. Undefined for a large job, and if
 * params are to be shown in one place only.
 * @param workflowBytes bytes of the workflow, whose tasks are in the text
 */
export function createdText(
  db: Connection,
  job: Job,
  workflowBytes: number,
  showing: Showing,
): StoredText | undefined {
  const { wording, masksSecrets, now } = showing;
  if (wording === "node-workflow" && masksSecrets) return undefined;
  if (workflowBytes + valueWeight(job.params) > SMALL_BYTES) return undefined;
  const { secret_params } = job.props;
  const secrets = secret_params === undefined ? null : JSON.stringify(secret_params);
  // The request was sent before its job was written: with that time, a ready job would look delayed.
  const shown = jobOnWire(job, wording, notBefore(job.created_at, now), ownHost(db));
  return textOfParts([JSON.stringify(shown)], secrets);
}

/** Approximate bytes of a job. */
export function jobBytes(db: Connection, uuid: JobUuid): number | undefined {
  const sql = `SELECT ${BYTES} AS bytes FROM jobs WHERE uuid = ?`;
  return db.row<{ bytes: number }>(sql, uuid)?.bytes;
}

/** The next jobs of a list, newest first, as many as fit a part, or a single larger one. */
export async function jobTexts(
  db: Connection,
  filter: JobFilter,
  page: JobPage & { readonly limit: number },
  showing: Showing,
): Promise<TextPage> {
  const sized = `id, ${statementsFor(showing).bytes} AS bytes`;
  const rows = await listRows<{ id: number; bytes: number }>(db, sized, filter, page);
  return await db.durably(() => {
    const fit = rows.slice(0, fitting(rows));
    const texts = fit.length === 1 && (fit[0]?.bytes ?? 0) > PART_BYTES
      ? fit.flatMap(({ id }) => largeText(db, id, showing) ?? [])
      : smallTexts(db, fit.map(({ id }) => id), showing);
    return {
      texts,
      entries: fit.length,
      place: fit.at(-1)?.id,
      last: rows.length < page.limit && fit.length === rows.length,
    };
  });
}

function smallTexts(db: Connection, ids: readonly number[], showing: Showing): StoredText[] {
  if (ids.length === 0) return [];
  return db.rows<{ text: Uint8Array | null; secrets: string | null }>(
    statementsFor(showing).listed,
    showing.now,
    JSON.stringify(ids),
    // The aggregate is null if all of these jobs have been removed.
  ).flatMap(({ text, secrets }) => text === null ? [] : [readText(text, secrets)]);
}

/** A job in parts. Small fields are read now, large fields when they are sent. */
function largeText(db: Connection, id: number, showing: Showing): StoredText | undefined {
  const { pieces } = statementsFor(showing);
  const columns = pieces.map(([sql, large], index) =>
    large === undefined
      ? `concat(${sql}) AS p${index}`
      : `${
        phaseOf(large) === undefined ? `coalesce(octet_length(${sql}), 0)` : "NULL"
      } AS p${index}`
  );
  const row = db.row<Record<string, string | number | null>>(
    `SELECT ${columns.join(", ")}, ${SECRETS} AS secrets
       FROM ${JOBS} WHERE j.id = ?2`,
    showing.now,
    id,
  );
  // The job was removed after it was found.
  if (row === undefined) return undefined;
  const parts = pieces.flatMap(([sql, large], index) => {
    const found = row[`p${index}`];
    if (large === undefined) return [String(found)];
    const phase = phaseOf(large);
    if (phase !== undefined) return resultParts(db, id, phase);
    const bytes = Number(found);
    const from = `${JOBS} WHERE j.id = ?`;
    return [partAt(db, { row: jobRow(id), sql, from, values: [id], bytes })];
  });
  return textOfParts(parts, typeof row.secrets === "string" ? row.secrets : null);
}

/** The phase whose results a piece holds. */
function phaseOf(large: Large): Phase | undefined {
  return PHASES.find((phase) => large === `${phase}_results`);
}

/** The current results of a phase: small ones are joined, each large one is a part of its own. */
function resultParts(db: Connection, id: number, phase: Phase): (LazyPart | string)[] {
  const rows = db.rows<{ position: number; bytes: number }>(
    `SELECT position, octet_length(entry) AS bytes FROM task_results
      WHERE job_id = ? AND phase = ? ORDER BY position`,
    id,
    phase,
  );
  const parts: (LazyPart | string)[] = [];
  for (let at = 0; at < rows.length;) {
    const fit = rows.slice(at, at + fitting(rows, at));
    if (at > 0) parts.push(",");
    parts.push(partAt(db, {
      row: jobRow(id),
      sql: "group_concat(entry, ',')",
      from: "task_results WHERE job_id = ? AND phase = ? AND position BETWEEN ? AND ?",
      values: [id, phase, fit[0]?.position ?? 0, fit.at(-1)?.position ?? 0],
      bytes: fit.reduce((sum, row) => sum + row.bytes, fit.length - 1),
    }));
    at += fit.length;
  }
  return parts;
}

/** The key of a job's row for readers of its text. */
export function jobRow(id: number): string {
  return `job ${id}`;
}

/** Call before changing a job, so that its readers keep the current version. */
export function changingJob(db: Connection, uuid: JobUuid): void {
  if (db.readers.idle) return;
  const row = db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid);
  if (row !== undefined) db.readers.changing(jobRow(row.id));
}
