// Lists of job summaries, newest first. A page walks one index, or several of one kind side by side,
// from the place where the last page ended. What no index answers is checked job by job, in parts,
// with other work let through in between, up to a number of jobs and of bytes: the page is shorter
// then, and the next one goes on behind the last job that was looked at.

import type { JobUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Execution } from "../../../domain/job/state.ts";
import type { JobSummary, SummaryFilter, SummaryPlace } from "../../../domain/job/summary.ts";
import type { SummaryPage, SummaryPart } from "../../job_store.ts";
import { type Connection, otherWork } from "../connection.ts";
import { type Condition, conditionsOf, type SqlValue, whereOf } from "./lists.ts";
import { fitting } from "../text_parts.ts";
import { selectSummaries } from "./summary_rows.ts";

/** Jobs that one page looks at. */
export const LOOKED_AT_MAX = 20_000;
/** Jobs that are looked at in one part, without a pause. */
const PART_JOBS = 250;
/** Bytes of params that one part, and one page, are searched in. */
const PART_BYTES = 1024 * 1024;
const PAGE_BYTES = 32 * PART_BYTES;
/** Jobs whose uuids begin alike that are looked at; of a million, four characters leave some fifteen. */
const UUIDS_MAX = 1000;
/** Definitions of a workflow, one for each time it was changed, that are walked side by side. */
const DEFINITIONS_MAX = 16;

/** A page of summaries, and where the next one begins. */
export async function listSummaries(
  db: Connection,
  filter: SummaryFilter,
  { limit, after }: SummaryPage,
): Promise<SummaryPart> {
  const walk = await db.durably(() => walkOf(db, filter, after?.order));
  const found: number[] = [];
  let place = after;
  let jobs = 0;
  let bytes = 0;
  for (;;) {
    const part = lookAt(db, walk, {
      place,
      jobs: Math.min(LOOKED_AT_MAX - jobs, PART_JOBS),
      found: limit - found.length,
    });
    found.push(...part.found);
    place = part.place ?? place;
    jobs += part.jobs;
    bytes += part.bytes;
    if (part.last || found.length >= limit || jobs >= LOOKED_AT_MAX || bytes >= PAGE_BYTES) {
      const next = part.last ? undefined : place;
      const summaries = await db.durably(() => selectSummaries(db, found));
      return { summaries, ...(next === undefined ? {} : { next }) };
    }
    await otherWork();
  }
}

/** One job; undefined when it is missing. */
export function selectSummary(db: Connection, uuid: JobUuid): JobSummary | undefined {
  const row = db.row<{ id: number }>("SELECT id FROM jobs WHERE uuid = ?", uuid);
  return row === undefined ? undefined : selectSummaries(db, [row.id])[0];
}

// Which index a page walks.

/** How a list is walked: indexes with one order, and what is checked of each job. */
interface Walk {
  readonly order: SummaryPlace["order"];
  /** Conditions that an index answers, one for each that is walked. */
  readonly lanes: readonly Condition[];
  readonly checks: readonly Condition[];
  /** Whether params are searched. */
  readonly heavy: boolean;
}

const ALL: Condition = { sql: "id > ?", values: [0] };

/** An order that was begun is kept. */
function walkOf(
  db: Connection,
  filter: SummaryFilter,
  begun: SummaryPlace["order"] | undefined,
): Walk {
  const order = begun ?? orderOf(db, filter);
  const { lanes, answered } = lanesOf(db, filter, order);
  const { states, name, target, workflow_uuid, since, until, finished_since, search } = filter;
  const left = Object.fromEntries(
    Object.entries({ name, target, workflow_uuid, since, until })
      .filter(([key, value]) => value !== undefined && !answered.includes(key)),
  );
  const checks = conditionsOf(left);
  if (filter.uuid !== undefined && !answered.includes("uuid")) checks.push(begunBy(filter.uuid));
  if (states !== undefined && !answered.includes("states")) checks.push(stateIn(states));
  if (finished_since !== undefined && !answered.includes("finished_since")) {
    checks.push({ sql: "finished_at >= ?", values: [finished_since] });
  }
  const heavy = search !== undefined && filter.searchesParams;
  if (search !== undefined) checks.push(searchCondition(search, heavy));
  return { order, lanes, checks, heavy };
}

/** Jobs of rare states are found through their index also within a time. */
function orderOf(db: Connection, filter: SummaryFilter): SummaryPlace["order"] {
  const { uuid, states, target, since, until, finished_since } = filter;
  if (uuid !== undefined || target !== undefined) return "id";
  if (finished_since !== undefined) return "finished";
  if (since === undefined && until === undefined) return "id";
  return states !== undefined && isRare(db, states) ? "id" : "created";
}

interface Lanes {
  readonly lanes: readonly Condition[];
  /** The keys of the filter that need no check. */
  readonly answered: readonly string[];
}

function lanesOf(db: Connection, filter: SummaryFilter, order: SummaryPlace["order"]): Lanes {
  const { uuid, states, target, since, until, finished_since } = filter;
  // A list of few jobs, in whatever order it was begun.
  if (uuid !== undefined && order === "id") return { lanes: [begunBy(uuid)], answered: ["uuid"] };
  if (order === "finished") {
    const lane = { sql: "finished_at >= ?", values: [finished_since ?? ""] };
    return { lanes: [lane], answered: ["finished_since"] };
  }
  if (order === "created") {
    const lane = {
      sql: "created_at >= ? AND created_at < ?",
      values: [since ?? "", until ?? "9999"],
    };
    return { lanes: [lane], answered: ["since", "until"] };
  }
  if (target !== undefined) {
    return { lanes: [{ sql: "target = ?", values: [target] }], answered: ["target"] };
  }
  if (states !== undefined && isRare(db, states)) return stateLanes(states);
  const definitions = definitionsOf(db, filter);
  if (definitions !== undefined) {
    const lanes = definitions.map((id) => ({ sql: "definition_id = ?", values: [id] }));
    return { lanes, answered: ["name", "workflow_uuid"] };
  }
  return states === undefined ? { lanes: [ALL], answered: [] } : stateLanes(states);
}

/** Jobs whose uuid begins so; behind its hexadecimal digits comes the letter g. */
function begunBy(uuid: string): Condition {
  return {
    sql: `id IN (SELECT id FROM jobs WHERE uuid >= ? AND uuid < ? || 'g' LIMIT ${UUIDS_MAX})`,
    values: [uuid, uuid],
  };
}

function stateLanes(states: readonly Execution[]): Lanes {
  const lanes = states.map((state) => ({ sql: "execution = ?", values: [state] }));
  return { lanes, answered: ["states"] };
}

/** Whether one page looks at all jobs in the states, by the counters. */
function isRare(db: Connection, states: readonly Execution[]): boolean {
  const row = db.row<{ jobs: number | null }>(
    `SELECT sum(jobs) AS jobs FROM job_counts
      WHERE minute = '' AND execution IN (SELECT value FROM json_each(?))`,
    JSON.stringify(states),
  );
  return (row?.jobs ?? 0) <= LOOKED_AT_MAX;
}

/** The definitions that a name or a workflow means; undefined when neither is given, or for many. */
function definitionsOf(
  db: Connection,
  { name, workflow_uuid }: SummaryFilter,
): number[] | undefined {
  if (name === undefined && workflow_uuid === undefined) return undefined;
  const where = whereOf([
    ...(workflow_uuid === undefined ? [] : [{ sql: "workflow_uuid = ?", values: [workflow_uuid] }]),
    ...(name === undefined ? [] : [{ sql: "name = ?", values: [name] }]),
  ]);
  const rows = db.rows<{ id: number }>(
    `SELECT id FROM definitions ${where.sql} LIMIT ?`,
    ...where.values,
    DEFINITIONS_MAX + 1,
  );
  return rows.length > DEFINITIONS_MAX ? undefined : rows.map(({ id }) => id);
}

function stateIn(states: readonly Execution[]): Condition {
  return {
    sql: "execution IN (SELECT value FROM json_each(?))",
    values: [JSON.stringify(states)],
  };
}

/** SQLite folds ASCII only, and so does this. */
function folded(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** In the JSON of params a text stands as JSON writes it. */
function searchCondition(search: string, heavy: boolean): Condition {
  const text = folded(search);
  const places = [
    "(SELECT name FROM definitions WHERE id = definition_id)",
    "coalesce(target, '')",
    "coalesce(error, '')",
  ].map((place) => ({ place, value: text }));
  if (heavy) places.push({ place: "params", value: JSON.stringify(text).slice(1, -1) });
  return {
    sql: `(${places.map(({ place }) => `instr(lower(${place}), ?) > 0`).join(" OR ")})`,
    values: places.map(({ value }) => value),
  };
}

// One part of a walk.

/** Where a part begins, and how much it may look at. */
interface PartBounds {
  readonly place: SummaryPlace | undefined;
  readonly jobs: number;
  readonly found: number;
}

/** What a part came to. */
interface WalkedPart {
  readonly found: readonly number[];
  /** The last job that was looked at; undefined when there was none. */
  readonly place: SummaryPlace | undefined;
  /** Jobs that were read of indexes; fewer were looked at. */
  readonly jobs: number;
  readonly bytes: number;
  /** Whether the walk is at its end. */
  readonly last: boolean;
}

interface KeyRow {
  readonly id: number;
  readonly at: Instant;
}

function lookAt(db: Connection, walk: Walk, { place, jobs, found: room }: PartBounds): WalkedPart {
  const { checks, heavy } = walk;
  // Of each lane one more is read than is looked at, which says whether the walk goes on.
  const ofLane = Math.max(Math.floor(jobs / walk.lanes.length) - 1, 1);
  // Without a check every job fits.
  const wanted = checks.length === 0 ? Math.min(ofLane, room) : ofLane;
  const keys = walk.lanes
    .flatMap((lane) => selectKeys(db, walk.order, lane, place, wanted + 1))
    .sort((one, other) => compare(other.at, one.at) || other.id - one.id);
  let looked: readonly KeyRow[] = keys.slice(0, wanted);
  let bytes = 0;
  if (heavy) ({ looked, bytes } = withinBytes(db, looked));
  const fits = checks.length === 0
    ? looked.map(({ id }) => id)
    : checked(db, looked.map(({ id }) => id), checks);
  const found = fits.slice(0, room);
  // Where there is no room for more, the next page looks again at those behind the last one.
  const end = fits.length > room
    ? looked.findIndex(({ id }) => id === found.at(-1))
    : looked.length - 1;
  const key = looked[end];
  return {
    found,
    place: key === undefined ? undefined : { order: walk.order, ...key },
    jobs: Math.max(keys.length, 1),
    bytes,
    last: end + 1 === keys.length,
  };
}

function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** The next jobs of one lane. @returns at most `limit` */
function selectKeys(
  db: Connection,
  order: SummaryPlace["order"],
  lane: Condition,
  place: SummaryPlace | undefined,
  limit: number,
): KeyRow[] {
  const bound = (...values: SqlValue[]) => [...lane.values, ...values, limit];
  const last = place?.id ?? Number.MAX_SAFE_INTEGER;
  switch (order) {
    case "id":
      return db.rows<KeyRow>(
        `SELECT id, '' AS at FROM jobs WHERE ${lane.sql} AND id < ? ORDER BY id DESC LIMIT ?`,
        ...bound(last),
      );
    case "created":
      return db.rows<KeyRow>(
        `SELECT id, created_at AS at FROM jobs
          WHERE ${lane.sql} AND (created_at, id) < (?, ?)
          ORDER BY created_at DESC, id DESC LIMIT ?`,
        ...bound(place?.at ?? "9999", last),
      );
    case "finished":
      return db.rows<KeyRow>(
        `SELECT id, finished_at AS at FROM jobs
          WHERE ${lane.sql} AND (finished_at, id) < (?, ?)
          ORDER BY finished_at DESC, id DESC LIMIT ?`,
        ...bound(place?.at ?? "9999", last),
      );
  }
}

/** As many jobs as have few params together, and one at least. */
function withinBytes(
  db: Connection,
  keys: readonly KeyRow[],
): { readonly looked: readonly KeyRow[]; readonly bytes: number } {
  const rows = db.rows<{ bytes: number | null }>(
    `SELECT (SELECT octet_length(params) FROM jobs WHERE id = value) AS bytes FROM json_each(?)`,
    JSON.stringify(keys.map(({ id }) => id)),
  );
  const sizes = rows.map(({ bytes }) => ({ bytes: bytes ?? 0 }));
  const looked = keys.slice(0, fitting(sizes, 0, PART_BYTES));
  const bytes = sizes.slice(0, looked.length).reduce((sum, one) => sum + one.bytes, 0);
  return { looked, bytes };
}

/** Those of the jobs that pass every check, in their order. */
function checked(db: Connection, ids: readonly number[], checks: readonly Condition[]): number[] {
  const where = whereOf(checks);
  const rows = db.rows<{ id: number }>(
    `SELECT id FROM (SELECT value AS listed_id FROM json_each(?))
       CROSS JOIN jobs ON jobs.id = listed_id ${where.sql}`,
    JSON.stringify(ids),
    ...where.values,
  );
  const passed = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => passed.has(id));
}
