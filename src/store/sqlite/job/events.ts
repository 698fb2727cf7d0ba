// Reads events. The job data in an event is read together with the event, not stored with it.

import type { EventKind, OwnEvent } from "../../../domain/event.ts";
import type { JobUuid, MachineUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { JobLogLine } from "../../../domain/job/log_line.ts";
import type { JsonObject } from "../../../domain/json.ts";
import {
  EVENT_COLUMNS,
  EVENT_LINE_BYTES_MAX,
  EVENT_PAGE_BYTES,
  type EventBounds,
  type EventFilter,
  type EventJob,
  type EventLineRow,
  type EventPage,
  eventPage,
  type EventRow,
  EVENTS_LOOKED_AT,
  type FoundEvents,
  KINDS_OF_JOBS,
  type PageLines,
  storedKinds,
} from "../../event_store.ts";
import type { Connection } from "../connection.ts";
import { definitionOf } from "./rows.ts";
import { summariesById } from "./summaries.ts";

/** @throws {Error} when the payload exceeds its limit */
export function insertEvent(db: Connection, { kind, payload }: OwnEvent, at: Instant): void {
  db.events.write();
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

/** A page of events, with what they show of jobs as those are now. */
export function selectEvents(
  db: Connection,
  after: number,
  limit: number,
  filter: EventFilter,
): EventPage {
  const bounds = selectEventBounds(db);
  const found = rowsAfter(db, after, limit, bounds.last, filter);
  const rows = found.rows.slice(0, limit);
  const lines = selectLines(db, rows);
  const fit = rows.slice(0, lines.fit);
  const jobs = selectJobs(db, fit);
  return eventPage(after, bounds, found, fit, jobs, lines.bySeq);
}

function rowsAfter(
  db: Connection,
  after: number,
  limit: number,
  last: number,
  { job, machine, kind }: EventFilter,
): FoundEvents {
  if (job !== undefined) {
    const seqs = seqsOfJobs(db, after, limit + 1, job, kind);
    return { rows: selectRows(db, seqs), upTo: last };
  }
  if (machine === undefined && kind === undefined) {
    return { rows: selectAllRows(db, after, limit + 1), upTo: last };
  }
  const upTo = Math.min(after + EVENTS_LOOKED_AT, last);
  return { rows: selectMatching(db, after, upTo, limit + 1, { machine, kind }), upTo };
}

function selectAllRows(db: Connection, after: number, limit: number): readonly EventRow[] {
  const sql = `SELECT ${EVENT_COLUMNS} FROM events WHERE seq > ? ORDER BY seq LIMIT ?`;
  return db.rows<EventRow>(sql, after, limit);
}

/** The events of some kinds or machines. A filter that is null matches all. */
function selectMatching(
  db: Connection,
  after: number,
  upTo: number,
  limit: number,
  { machine, kind }: Pick<EventFilter, "machine" | "kind">,
): readonly EventRow[] {
  return db.rows<EventRow>(
    `SELECT ${EVENT_COLUMNS} FROM events
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
    limit,
  );
}

/** Places of the next events of some jobs. Each look goes along an index and ends after the limit. */
function seqsOfJobs(
  db: Connection,
  after: number,
  limit: number,
  jobs: readonly JobUuid[],
  kinds: readonly EventKind[] = KINDS_OF_JOBS,
): number[] {
  const ids = selectJobIds(db, jobs);
  const ofJobs = kinds.filter((one) => KINDS_OF_JOBS.includes(one)).flatMap((kind) =>
    ids.flatMap((id) => selectSeqs(db, id, kind, after, limit))
  );
  // The row of a removed job is gone, and no other event of it is shown.
  const removals = kinds.includes("job")
    ? jobs.flatMap((uuid) => selectRemovals(db, uuid, after))
    : [];
  return [...ofJobs, ...removals].sort((one, other) => one - other).slice(0, limit);
}

function selectJobIds(db: Connection, jobs: readonly JobUuid[]): number[] {
  const sql = "SELECT id FROM jobs WHERE uuid IN (SELECT value FROM json_each(?))";
  return db.rows<{ id: number }>(sql, JSON.stringify(jobs)).map(({ id }) => id);
}

function selectSeqs(
  db: Connection,
  job: number,
  kind: EventKind,
  after: number,
  limit: number,
): number[] {
  const rows = db.rows<{ seq: number }>(
    `SELECT seq FROM events INDEXED BY events_job
      WHERE job_id = ? AND kind = ? AND seq > ?
      ORDER BY seq LIMIT ?`,
    job,
    kind,
    after,
    limit,
  );
  return rows.map(({ seq }) => seq);
}

function selectRemovals(db: Connection, uuid: JobUuid, after: number): number[] {
  const rows = db.rows<{ seq: number }>(
    `SELECT seq FROM events INDEXED BY events_removed
      WHERE kind = 'removed_job' AND body = json_object('job_uuid', ?) AND seq > ?`,
    uuid,
    after,
  );
  return rows.map(({ seq }) => seq);
}

function selectRows(db: Connection, seqs: readonly number[]): readonly EventRow[] {
  return db.rows<EventRow>(
    `SELECT ${EVENT_COLUMNS} FROM json_each(?) AS listed CROSS JOIN events ON events.seq = listed.value
      ORDER BY listed.key`,
    JSON.stringify(seqs),
  );
}

function selectLines(db: Connection, rows: readonly EventRow[]): PageLines {
  const bySeq = new Map<number, JobLogLine | null>();
  let bytes = 0;
  for (const [at, { line }] of rows.entries()) {
    if (line === null) continue;
    if (bytes > EVENT_PAGE_BYTES) return { bySeq, fit: at };
    const row = selectLine(db, line);
    if (row === undefined) continue;
    bytes += row.entry?.length ?? 0;
    // The text was made by this store from an object.
    const entry = row.entry === null ? null : JSON.parse(row.entry) as JsonObject;
    bySeq.set(line, entry === null ? null : { ...row, entry });
  }
  return { bySeq, fit: rows.length };
}

/** A line of a job's log; without its entry if that is too long for an event. */
function selectLine(db: Connection, seq: number): EventLineRow | undefined {
  return db.row<EventLineRow>(
    `SELECT seq, phase, attempt, created_at,
            CASE WHEN octet_length(entry) <= ${EVENT_LINE_BYTES_MAX} THEN entry END AS entry
       FROM job_log WHERE seq = ?`,
    seq,
  );
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
