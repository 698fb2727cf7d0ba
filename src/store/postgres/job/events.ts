// Reads events. Events committed since the last read are numbered first, because readers continue by number.

import type { EventKind, OwnEvent } from "../../../domain/event.ts";
import type { JobUuid, MachineUuid } from "../../../domain/id.ts";
import { machineTarget } from "../../../domain/job/summary.ts";
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
  EVENTS_KEPT,
  EVENTS_LOOKED_AT,
  type EventStore,
  type FoundEvents,
  KINDS_OF_JOBS,
  type PageLines,
  storedKinds,
} from "../../event_store.ts";
import type { SharedDatabase, Transaction } from "../connection.ts";
import { definitionOf } from "./rows.ts";
import { summariesById } from "./summaries.ts";
import { EVENT_NOTICE } from "../notices.ts";
import { fieldOf } from "../statements.ts";

/** Events that one transaction numbers. */
const NUMBERED_AT_ONCE = 10_000;

/** Opens the part of the store about events. */
export function openEvents(db: SharedDatabase): EventStore {
  return {
    append: (event) => db.write((tx) => insertEvent(tx, event)),
    bounds: () => readNumbered(db, (tx) => selectEventBounds(tx)),
    after: (seq, limit, filter = {}) =>
      readNumbered(db, (tx) => selectEvents(tx, seq, limit, filter)),
    follow(committed) {
      const ends = [db.follow(committed), db.watch()];
      return () => ends.forEach((end) => end());
    },
  };
}

/** Inserts an event. @throws {Error} when the payload exceeds its limit */
export async function insertEvent(tx: Transaction, { kind, payload }: OwnEvent): Promise<void> {
  const sql = "INSERT INTO events (kind, at, body) VALUES ($1, $2, $3)";
  await tx.run(sql, kind, tx.now, JSON.stringify(payload));
  tx.notify(EVENT_NOTICE);
}

/** Reads after numbering all committed events. If none lacks a number, nothing is written and no follower is called. */
async function readNumbered<T>(
  db: SharedDatabase,
  read: (tx: Transaction) => Promise<T>,
): Promise<T> {
  const found = await db.read(async (tx) =>
    await hasDrafts(tx) ? undefined : { value: await read(tx) }
  );
  if (found !== undefined) return found.value;
  await numberDrafts(db);
  return await db.read(read);
}

/** Numbers the events even if nobody reads them, so that the oldest ones are removed. */
export async function numberEvents(db: SharedDatabase): Promise<void> {
  if (await db.read(hasDrafts)) await numberDrafts(db);
}

/** Numbers the committed events, and removes the oldest ones beyond the number that is kept. */
async function numberDrafts(db: SharedDatabase): Promise<void> {
  for (let given = NUMBERED_AT_ONCE; given >= NUMBERED_AT_ONCE;) {
    given = await db.write(numberOldest);
  }
}

/** Numbers the oldest drafts. @returns how many */
async function numberOldest(tx: Transaction): Promise<number> {
  const row = await tx.row<{ given: number }>(
    "SELECT number_events($1, $2) AS given",
    NUMBERED_AT_ONCE,
    EVENTS_KEPT,
  );
  return row?.given ?? 0;
}

async function hasDrafts(tx: Transaction): Promise<boolean> {
  const sql = "SELECT EXISTS (SELECT 1 FROM events WHERE seq IS NULL) AS found";
  return (await tx.row<{ found: boolean }>(sql))?.found === true;
}

/** The numbers of the oldest and the newest event. */
async function selectEventBounds(tx: Transaction): Promise<EventBounds> {
  const row = await tx.row<{ first: number | null; last: number | null }>(
    "SELECT (SELECT min(seq) FROM events) AS first, (SELECT max(seq) FROM events) AS last",
  );
  return { first: row?.first ?? 0, last: row?.last ?? 0 };
}

/** A page of events, with the current state of their jobs. */
async function selectEvents(
  tx: Transaction,
  after: number,
  limit: number,
  filter: EventFilter,
): Promise<EventPage> {
  const bounds = await selectEventBounds(tx);
  const found = await rowsAfter(tx, after, limit, bounds.last, filter);
  const rows = found.rows.slice(0, limit);
  const lines = await selectLines(tx, rows);
  const fit = rows.slice(0, lines.fit);
  const jobs = await selectJobs(tx, fit);
  return eventPage(after, bounds, found, fit, jobs, lines.bySeq);
}

async function rowsAfter(
  tx: Transaction,
  after: number,
  limit: number,
  last: number,
  { job, machine, kind }: EventFilter,
): Promise<FoundEvents> {
  if (job !== undefined) {
    return { rows: await rowsOfJobs(tx, after, limit + 1, job, kind), upTo: last };
  }
  if (machine === undefined && kind === undefined) {
    return { rows: await selectAllRows(tx, after, limit + 1), upTo: last };
  }
  const upTo = Math.min(after + EVENTS_LOOKED_AT, last);
  return { rows: await selectMatching(tx, after, upTo, limit + 1, { machine, kind }), upTo };
}

function selectAllRows(tx: Transaction, after: number, limit: number): Promise<EventRow[]> {
  const sql = `SELECT ${EVENT_COLUMNS} FROM events WHERE seq > $1 ORDER BY seq LIMIT $2`;
  return tx.rows<EventRow>(sql, after, limit);
}

/** The events of some kinds or machines. A filter that is null matches all. */
function selectMatching(
  tx: Transaction,
  after: number,
  upTo: number,
  limit: number,
  { machine, kind }: Pick<EventFilter, "machine" | "kind">,
): Promise<EventRow[]> {
  return tx.rows<EventRow>(
    `SELECT ${EVENT_COLUMNS} FROM events
      WHERE seq > $1 AND seq <= $2
        AND ($3::text[] IS NULL OR kind = ANY($3::text[]))
        AND ($4::text[] IS NULL
          OR EXISTS (SELECT 1 FROM jobs
              WHERE jobs.id = events.job_id AND target = ANY($4::text[]))
          OR CASE WHEN kind = 'own_machine'
              THEN ${fieldOf("body", "machine_uuid")} = ANY($5::text[]) ELSE false END)
      ORDER BY seq LIMIT $6`,
    after,
    upTo,
    kind?.flatMap(storedKinds) ?? null,
    machine?.map(machineTarget) ?? null,
    machine?.map((uuid: MachineUuid) => JSON.stringify(uuid)) ?? null,
    limit,
  );
}

/** The next events of some jobs. Each job's scan follows an index and stops at the limit. */
async function rowsOfJobs(
  tx: Transaction,
  after: number,
  limit: number,
  jobs: readonly JobUuid[],
  kinds: readonly EventKind[] = KINDS_OF_JOBS,
): Promise<readonly EventRow[]> {
  const columns = EVENT_COLUMNS.split(", ").map((column) => `events.${column}`).join(", ");
  return await tx.rows<EventRow>(
    `SELECT * FROM (
       (SELECT ${columns} FROM jobs CROSS JOIN LATERAL (
          SELECT * FROM events
           WHERE job_id = jobs.id AND kind = ANY($4::text[]) AND seq > $1
           ORDER BY seq LIMIT $2) AS events
         WHERE jobs.uuid = ANY($3::text[]))
       UNION ALL
       -- A removed job has no row, and only its removal is shown.
       (SELECT ${columns} FROM events
         WHERE kind = 'removed_job' AND seq > $1
           AND body IN (SELECT json_build_object('job_uuid', gone.uuid)::text
                          FROM unnest($5::text[]) AS gone (uuid)))) AS found
      ORDER BY seq LIMIT $2`,
    after,
    limit,
    jobs,
    kinds.filter((kind) => KINDS_OF_JOBS.includes(kind)),
    kinds.includes("job") ? jobs : [],
  );
}

/** The log lines of a page, as many as fit. */
async function selectLines(tx: Transaction, rows: readonly EventRow[]): Promise<PageLines> {
  const found = await tx.rows<EventLineRow & { readonly bytes: number }>(
    `SELECT seq, phase, attempt, created_at, bytes, CASE WHEN bytes <= ${EVENT_LINE_BYTES_MAX}
              AND before <= ${EVENT_PAGE_BYTES} THEN entry END AS entry
       FROM (
         SELECT *, sum(sent) OVER (ORDER BY place) - sent AS before FROM (
           SELECT job_log.*, place, octet_length(entry) AS bytes,
                  CASE WHEN octet_length(entry) <= ${EVENT_LINE_BYTES_MAX}
                    THEN octet_length(entry) ELSE 0 END AS sent
             FROM unnest($1::bigint[]) WITH ORDINALITY AS listed (line, place)
             JOIN job_log ON job_log.seq = listed.line) AS sized) AS summed`,
    rows.flatMap(({ line }) => line ?? []),
  );
  const bySeq = new Map<number, JobLogLine | null>();
  const rowOf = new Map(found.map((row) => [row.seq, row]));
  let bytes = 0;
  for (const [at, { line }] of rows.entries()) {
    const found = line === null ? undefined : rowOf.get(line);
    if (line === null || found === undefined) continue;
    const { bytes: size, ...row } = found;
    const isLarge = size > EVENT_LINE_BYTES_MAX;
    if (bytes > EVENT_PAGE_BYTES || row.entry === null && !isLarge) return { bySeq, fit: at };
    if (!isLarge) bytes += size;
    // This store made the text from an object.
    const entry = row.entry === null ? null : JSON.parse(row.entry) as JsonObject;
    bySeq.set(line, entry === null ? null : { ...row, entry });
  }
  return { bySeq, fit: rows.length };
}

async function selectJobs(
  tx: Transaction,
  rows: readonly EventRow[],
): Promise<ReadonlyMap<number, EventJob>> {
  const ids = [...new Set(rows.flatMap(({ job_id }) => job_id ?? []))];
  const summaries = await summariesById(tx, ids);
  const named = await tx.rows<{
    id: number;
    definition_id: number;
    machine_uuid: MachineUuid | null;
  }>("SELECT id, definition_id, machine_uuid FROM jobs WHERE id = ANY($1::bigint[])", ids);
  const jobs = new Map<number, EventJob>();
  for (const { id, definition_id, machine_uuid } of named) {
    const summary = summaries.get(id);
    if (summary === undefined) continue;
    const definition = await definitionOf(tx, definition_id);
    jobs.set(id, { summary, definition, machine_uuid });
  }
  return jobs;
}
