// Reads events. The job data in an event is read together with the event, not stored with it.

import type { EventKind, OwnEvent, StoredEvent } from "../../domain/event.ts";
import type { JobUuid, MachineUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { Execution, Phase } from "../../domain/job/state.ts";
import type { JobLogLine, JobSummary, SummaryTask } from "../../domain/job/summary.ts";
import { taskName } from "../../domain/job/workflow.ts";
import type { JsonObject } from "../../domain/json.ts";
import {
  EVENT_LINE_BYTES_MAX,
  type EventBounds,
  type EventFilter,
  type EventPage,
} from "../event_store.ts";
import type { Connection } from "./connection.ts";
import { definitionOf, type JobDefinition } from "./job/rows.ts";
import { summariesById } from "./job/summary_rows.ts";

/** Bytes of log lines in one page. */
const PAGE_BYTES = 256 * 1024;
/** Rows among which one page of some kinds or machines is looked for. */
const LOOKED_AT = 4096;
/** Kinds whose rows name their job. */
const OF_JOBS: readonly EventKind[] = ["job", "log", "machine"];

/** @throws {Error} when the payload exceeds its limit */
export function insertEvent(db: Connection, { kind, payload }: OwnEvent, at: Instant): void {
  const sql = "INSERT INTO events (kind, at, body) VALUES (?, ?, ?)";
  db.run(sql, kind, at, JSON.stringify(payload));
}

/** The oldest and newest kept event. */
export function selectEventBounds(db: Connection): EventBounds {
  // Each reads one row at an end of the table.
  const row = db.row<{ first: number | null; last: number | null }>(
    "SELECT (SELECT min(seq) FROM events) AS first, (SELECT max(seq) FROM events) AS last",
  );
  return { first: row?.first ?? 0, last: row?.last ?? 0 };
}

interface EventRow {
  readonly seq: number;
  readonly kind: StoredEvent["kind"];
  readonly at: Instant;
  readonly job_id: number | null;
  readonly change: Extract<StoredEvent, { kind: "job" }>["change"] | null;
  readonly state: Execution | null;
  readonly phase: Phase | null;
  readonly ended: number | null;
  readonly next_phase: Phase | null;
  readonly line: number | null;
  readonly body: string | null;
}

const COLUMNS = "seq, kind, at, job_id, change, state, phase, ended, next_phase, line, body";

/** A page of events, with what they show of jobs as those are now. */
export function selectEvents(
  db: Connection,
  after: number,
  limit: number,
  filter: EventFilter,
): EventPage {
  const { first, last } = selectEventBounds(db);
  const found = rowsAfter(db, after, limit, last, filter);
  const rows = found.rows.slice(0, limit);
  const lines = selectLines(db, rows);
  const fit = rows.slice(0, lines.fit);
  const jobs = selectJobs(db, fit);
  const cut = fit.length < found.rows.length;
  const upTo = cut ? fit.at(-1)?.seq ?? after : Math.max(found.upTo, after);
  return {
    events: fit.flatMap((row) => eventFromRow(row, jobs, lines.bySeq) ?? []),
    last: upTo,
    more: upTo < last,
    // Every number is used, and the newest event is never removed.
    joins: last <= after || first <= after + 1,
  };
}

/** Rows that fit, and the place up to which they are all that do. */
interface FoundRows {
  readonly rows: readonly EventRow[];
  readonly upTo: number;
}

function rowsAfter(
  db: Connection,
  after: number,
  limit: number,
  last: number,
  { job, machine, kind }: EventFilter,
): FoundRows {
  if (job !== undefined) {
    const seqs = seqsOfJobs(db, after, limit + 1, job, kind);
    return { rows: selectRows(db, seqs), upTo: last };
  }
  if (machine === undefined && kind === undefined) {
    const sql = `SELECT ${COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?`;
    return { rows: db.rows<EventRow>(sql, after, limit + 1), upTo: last };
  }
  const upTo = Math.min(after + LOOKED_AT, last);
  const rows = db.rows<EventRow>(
    `SELECT ${COLUMNS} FROM events
      WHERE seq > ?1 AND seq <= ?2
        AND (?3 IS NULL OR kind IN (SELECT value FROM json_each(?3)))
        AND (?4 IS NULL
          OR EXISTS (SELECT 1 FROM jobs
              WHERE jobs.id = events.job_id AND target IN (SELECT value FROM json_each(?4)))
          OR kind = 'own_machine'
            AND '/machines/' || (body ->> '$.machine_uuid') IN (SELECT value FROM json_each(?4)))
      ORDER BY seq LIMIT ?5`,
    after,
    upTo,
    kind === undefined ? null : JSON.stringify(kind.flatMap(storedKinds)),
    machine === undefined ? null : JSON.stringify(machine.map((uuid) => `/machines/${uuid}`)),
    limit + 1,
  );
  return { rows, upTo };
}

/** The kinds of rows that are sent under one kind. */
function storedKinds(kind: EventKind): readonly StoredEvent["kind"][] {
  switch (kind) {
    case "job":
      return ["job", "removed_job"];
    case "machine":
      return ["machine", "own_machine"];
    default:
      return [kind];
  }
}

/** Places of the next events of some jobs. Each look goes along an index and ends after the limit. */
function seqsOfJobs(
  db: Connection,
  after: number,
  limit: number,
  jobs: readonly JobUuid[],
  kinds: readonly EventKind[] = OF_JOBS,
): number[] {
  const ids = db.rows<{ id: number }>(
    "SELECT id FROM jobs WHERE uuid IN (SELECT value FROM json_each(?))",
    JSON.stringify(jobs),
  );
  const found: { readonly seq: number }[] = [];
  for (const kind of kinds.filter((one) => OF_JOBS.includes(one))) {
    for (const { id } of ids) {
      const sql = `SELECT seq FROM events INDEXED BY events_job
        WHERE job_id = ? AND kind = ? AND seq > ? ORDER BY seq LIMIT ?`;
      found.push(...db.rows<{ seq: number }>(sql, id, kind, after, limit));
    }
  }
  // The row of a removed job is gone, and no other event of it is shown.
  for (const uuid of kinds.includes("job") ? jobs : []) {
    const sql = `SELECT seq FROM events INDEXED BY events_removed
      WHERE kind = 'removed_job' AND body = json_object('job_uuid', ?) AND seq > ?`;
    found.push(...db.rows<{ seq: number }>(sql, uuid, after));
  }
  return found.map(({ seq }) => seq).sort((one, other) => one - other).slice(0, limit);
}

function selectRows(db: Connection, seqs: readonly number[]): readonly EventRow[] {
  return db.rows<EventRow>(
    `SELECT ${COLUMNS} FROM json_each(?) AS listed CROSS JOIN events ON events.seq = listed.value
      ORDER BY listed.key`,
    JSON.stringify(seqs),
  );
}

/** The lines of a page: those that are sent, null for those that are too large. */
interface PageLines {
  readonly bySeq: ReadonlyMap<number, JobLogLine | null>;
  /** Events that fit the page. */
  readonly fit: number;
}

interface EventLineRow {
  readonly seq: number;
  readonly phase: Phase | null;
  readonly attempt: number | null;
  readonly entry: string | null;
  readonly created_at: Instant;
}

function selectLines(db: Connection, rows: readonly EventRow[]): PageLines {
  const bySeq = new Map<number, JobLogLine | null>();
  let bytes = 0;
  for (const [at, { line }] of rows.entries()) {
    if (line === null) continue;
    if (bytes > PAGE_BYTES) return { bySeq, fit: at };
    const row = db.row<EventLineRow>(
      `SELECT seq, phase, attempt, created_at,
              CASE WHEN octet_length(entry) <= ${EVENT_LINE_BYTES_MAX} THEN entry END AS entry
         FROM job_log WHERE seq = ?`,
      line,
    );
    if (row === undefined) continue;
    bytes += row.entry?.length ?? 0;
    // The text was made by this store from an object.
    const entry = row.entry === null ? null : JSON.parse(row.entry) as JsonObject;
    bySeq.set(line, entry === null ? null : { ...row, entry });
  }
  return { bySeq, fit: rows.length };
}

/** The job data that events show. */
interface EventJob {
  readonly summary: JobSummary;
  readonly definition: JobDefinition;
  readonly machine_uuid: MachineUuid | null;
}

function selectJobs(db: Connection, rows: readonly EventRow[]): ReadonlyMap<number, EventJob> {
  const ids = [...new Set(rows.flatMap(({ job_id }) => job_id ?? []))];
  const summaries = summariesById(db, ids);
  const named = db.rows<{ id: number; definition_id: number; machine_uuid: MachineUuid | null }>(
    `SELECT jobs.id, definition_id, machine_uuid
       FROM json_each(?) AS listed CROSS JOIN jobs ON jobs.id = listed.value`,
    JSON.stringify(ids),
  );
  return new Map(named.flatMap(({ id, definition_id, machine_uuid }) => {
    const summary = summaries.get(id);
    if (summary === undefined) return [];
    return [[id, { summary, definition: definitionOf(db, definition_id), machine_uuid }]];
  }));
}

/** Undefined for an event whose subject was removed. */
function eventFromRow(
  row: EventRow,
  jobs: ReadonlyMap<number, EventJob>,
  lines: PageLines["bySeq"],
): StoredEvent | undefined {
  const { seq, at, kind, job_id, body } = row;
  // The texts were made by this store from values of these types.
  if (kind === "removed_job") {
    return { seq, at, kind, ...JSON.parse(body ?? "") as { readonly job_uuid: JobUuid } };
  }
  if (kind === "media" || kind === "index" || kind === "host" || kind === "own_machine") {
    return { seq, at, kind, payload: JSON.parse(body ?? "") as never };
  }
  const found = job_id === null ? undefined : jobs.get(job_id);
  if (found === undefined) return undefined;
  const { summary: job, definition, machine_uuid } = found;
  if (kind === "log") {
    const line = row.line === null ? undefined : lines.get(row.line);
    return line === undefined ? undefined : { seq, at, kind, job, sequence: row.line ?? 0, line };
  }
  const { change, state } = row;
  if (state === null) return undefined;
  if (kind === "machine") {
    return machine_uuid === null ? undefined : { seq, at, kind, job, machine_uuid, state };
  }
  return change === null
    ? undefined
    : { seq, at, kind, job, change, state, ...tasksOf(row, change, definition) };
}

/** Changes about the current task: it started, failed or ended. */
const OF_TASK: readonly string[] = [
  "started",
  "task",
  "attempt",
  "waiting",
  "succeeded",
  "failed",
  "retried",
];

function tasksOf(
  { phase, ended, next_phase }: EventRow,
  change: string,
  definition: JobDefinition,
): { readonly task: SummaryTask | null; readonly next_task: SummaryTask | null } {
  const named = (phase: Phase | null, index: number): SummaryTask | null => {
    const task = phase === null ? undefined : definition[phase][index];
    return phase === null || task === undefined ? null : { name: taskName(task), phase, index };
  };
  if (ended === null || !OF_TASK.includes(change)) return { task: null, next_task: null };
  const next = next_phase === phase ? ended + 1 : 0;
  return {
    task: named(phase, ended),
    next_task: change === "task" ? named(next_phase, next) : null,
  };
}
