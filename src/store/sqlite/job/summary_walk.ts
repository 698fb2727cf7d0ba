// How a list of summaries is read: along one index, or along several indexes of one order that are merged, from the end
// of the last page. Conditions without an index are checked job by job.

import type { MachineUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { Execution } from "../../../domain/job/state.ts";
import {
  machineTarget,
  type SummaryFilter,
  type SummaryPlace,
} from "../../../domain/job/summary.ts";
import { SUMMARIES_LOOKED_AT_MAX, UUIDS_MAX } from "../../limits.ts";
import { folded } from "../../summary_rows.ts";
import type { Connection } from "../connection.ts";
import { countsOfAll } from "./counts.ts";
import { type Condition, conditionsOf, whereOf } from "./lists.ts";
import { definitionsOf } from "./counted_walk.ts";
import { fitting } from "../../stored_text.ts";

/** Bytes of params that are searched in one part. */
export const PART_BYTES = 1024 * 1024;

/** How to walk a list: indexes of one order, and checks per job. */
interface Walk {
  readonly order: SummaryPlace["order"];
  /** Conditions answered by an index, one per walked index. */
  readonly lanes: readonly Condition[];
  readonly checks: readonly Condition[];
  /** Whether params are searched, which takes longest. */
  readonly heavy: boolean;
}

const ALL: Condition = { sql: "id > ?", values: [0] };

/** Chooses how a filter is answered. A list that was begun keeps its order. */
export function walkOf(
  db: Connection,
  filter: SummaryFilter,
  begun: SummaryPlace["order"] | undefined,
): Walk {
  const order = begun ?? orderOf(db, filter);
  const { lanes, answered } = lanesOf(db, filter, order);
  const { states, name, target, machine, workflow_uuid, since, until, params } = filter;
  const { finished_since, search } = filter;
  const left = Object.fromEntries(
    Object.entries({ name, target, workflow_uuid, since, until, params })
      .filter(([key, value]) => value !== undefined && !answered.includes(key)),
  );
  const checks = conditionsOf(left);
  if (machine !== undefined && !answered.includes("machine")) checks.push(ofMachine(machine));
  if (filter.uuid !== undefined && !answered.includes("uuid")) checks.push(begunBy(filter.uuid));
  if (states !== undefined && !answered.includes("states")) checks.push(stateIn(states));
  if (finished_since !== undefined && !answered.includes("finished_since")) {
    checks.push({ sql: "finished_at >= ?", values: [finished_since] });
  }
  const searched = search !== undefined && filter.searchesParams;
  if (search !== undefined) checks.push(searchCondition(search, searched));
  const heavy = searched || params !== undefined;
  return { order, lanes, checks, heavy };
}

/** Jobs in rare states are found through their index, even with a time range. */
function orderOf(db: Connection, filter: SummaryFilter): SummaryPlace["order"] {
  const { uuid, states, target, machine, since, until, finished_since } = filter;
  if (uuid !== undefined || target !== undefined || machine !== undefined) return "id";
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
  const { uuid, states, target, machine, since, until, finished_since } = filter;
  // A list of few jobs; either order works.
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
  if (machine !== undefined) return { lanes: [ofMachine(machine)], answered: ["machine"] };
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

function ofMachine(machine: MachineUuid): Condition {
  return { sql: "target = ?", values: [machineTarget(machine)] };
}

/** Jobs with this uuid prefix; `g` sorts after all hexadecimal digits. */
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

/** Whether one page can examine all jobs in these states, by the counters. */
function isRare(db: Connection, states: readonly Execution[]): boolean {
  const counts = countsOfAll(db);
  return states.reduce((sum, state) => sum + counts[state], 0) <= SUMMARIES_LOOKED_AT_MAX;
}

function stateIn(states: readonly Execution[]): Condition {
  return {
    sql: "execution IN (SELECT value FROM json_each(?))",
    values: [JSON.stringify(states)],
  };
}

/** Searches strings as JSON escapes them. */
function searchCondition(search: string, heavy: boolean): Condition {
  const text = folded(search);
  // Most texts need no escapes: then one search over all columns together takes a quarter less time. Such a text has
  // no line break, so it cannot match across two columns.
  if (heavy && JSON.stringify(text) === `"${text}"`) {
    return {
      sql: `instr(lower(concat_ws(char(10), (SELECT name FROM definitions WHERE id = definition_id),
        target, error, params)), ?) > 0`,
      values: [text],
    };
  }
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

interface PartBounds {
  readonly place: SummaryPlace | undefined;
  readonly jobs: number;
  readonly found: number;
}

interface WalkedPart {
  readonly found: readonly number[];
  /** The last examined job, if any. */
  readonly place: SummaryPlace | undefined;
  /** Jobs read from indexes; not all of them were examined. */
  readonly jobs: number;
  readonly bytes: number;
  readonly last: boolean;
}

interface KeyRow {
  readonly id: number;
  /** The sort key of an order by time. */
  readonly at?: Instant;
  /** Bytes of its params, if those are searched. */
  readonly bytes?: number;
}

/** The result of one statement for a part. */
interface TogetherRow {
  readonly jobs: number;
  /** The last examined job; null when there is none. */
  readonly id: number | null;
  readonly bytes: number;
  readonly largest: number | null;
  /** The jobs that pass every check, a JSON list. */
  readonly fits: string;
}

/** Examines the next part of a walk. */
export function lookAt(db: Connection, walk: Walk, bounds: PartBounds): WalkedPart {
  const [lane, ...others] = walk.lanes;
  const together = walk.order === "id" && others.length === 0 && walk.checks.length > 0;
  const part = lane !== undefined && together ? lookTogether(db, walk, lane, bounds) : undefined;
  return part ?? lookOneByOne(db, walk, bounds);
}

/** Bytes of params up to which a job is examined together with others, so that a whole part stays within its limit. */
const TOGETHER_BYTES_MAX = 4096;

/**
 * Examines the jobs of one lane with one statement that returns one row, which takes half the time.
 * @returns undefined when a job has large params; then no job was searched
 */
function lookTogether(
  db: Connection,
  { checks, heavy }: Walk,
  lane: Condition,
  { place, jobs, found: room }: PartBounds,
): WalkedPart | undefined {
  const wanted = Math.max(jobs, 1);
  const size = heavy ? "octet_length(params)" : "0";
  const all = checks.map(({ sql }) => `(${sql})`).join(" AND ");
  const row = db.row<TogetherRow>(
    `SELECT count(*) AS jobs, min(id) AS id, total(bytes) AS bytes, max(bytes) AS largest,
            json_group_array(id) FILTER (WHERE fits) AS fits
       FROM (SELECT id, ${size} AS bytes,
                    CASE WHEN ${size} <= ${TOGETHER_BYTES_MAX} THEN ${all} END AS fits
               FROM jobs WHERE ${lane.sql} AND id < ? ORDER BY id DESC LIMIT ?)`,
    ...checks.flatMap(({ values }) => values),
    ...lane.values,
    lastId(place),
    wanted,
  );
  if (row === undefined || (row.largest ?? 0) > TOGETHER_BYTES_MAX) return undefined;
  const fits = (JSON.parse(row.fits) as number[]).sort((one, other) => other - one);
  const found = fits.slice(0, room);
  // When the page is full, the next page examines the jobs after the last one again.
  const full = fits.length > room;
  const end = full ? found.at(-1) : row.id;
  return {
    found,
    place: typeof end === "number" ? { order: "id", at: "", id: end } : undefined,
    jobs: Math.max(row.jobs, 1),
    bytes: row.bytes,
    last: !full && row.jobs < wanted,
  };
}

function lookOneByOne(
  db: Connection,
  walk: Walk,
  { place, jobs, found: room }: PartBounds,
): WalkedPart {
  const { checks } = walk;
  // Reads one more job per lane than it examines, to find out whether the walk continues.
  const ofLane = Math.max(Math.floor(jobs / walk.lanes.length) - 1, 1);
  // Without checks every job matches.
  const wanted = checks.length === 0 ? Math.min(ofLane, room) : ofLane;
  const keys = walk.lanes.flatMap((lane) => selectKeys(db, walk, lane, place, wanted + 1));
  // One lane is in order already.
  if (walk.lanes.length > 1) {
    keys.sort((one, other) => compare(other.at ?? "", one.at ?? "") || other.id - one.id);
  }
  const { looked, bytes } = withinBytes(keys.slice(0, wanted));
  const fits = checks.length === 0
    ? looked.map(({ id }) => id)
    : checked(db, looked.map(({ id }) => id), checks);
  const found = fits.slice(0, room);
  // When the page is full, the next page examines the jobs after the last one again.
  const end = fits.length > room
    ? looked.findIndex(({ id }) => id === found.at(-1))
    : looked.length - 1;
  const key = looked[end];
  return {
    found,
    place: key === undefined ? undefined : { order: walk.order, at: key.at ?? "", id: key.id },
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
  { order, heavy }: Walk,
  lane: Condition,
  place: SummaryPlace | undefined,
  limit: number,
): KeyRow[] {
  const columns = heavy ? "id, octet_length(params) AS bytes" : "id";
  switch (order) {
    case "id":
      return selectById(db, columns, lane, place, limit);
    case "created":
      return selectByCreation(db, columns, lane, place, limit);
    case "finished":
      return selectByEnd(db, columns, lane, place, limit);
  }
}

function selectById(
  db: Connection,
  columns: string,
  lane: Condition,
  place: SummaryPlace | undefined,
  limit: number,
): KeyRow[] {
  return db.rows<KeyRow>(
    `SELECT ${columns} FROM jobs WHERE ${lane.sql} AND id < ? ORDER BY id DESC LIMIT ?`,
    ...lane.values,
    lastId(place),
    limit,
  );
}

function selectByCreation(
  db: Connection,
  columns: string,
  lane: Condition,
  place: SummaryPlace | undefined,
  limit: number,
): KeyRow[] {
  return db.rows<KeyRow>(
    `SELECT ${columns}, created_at AS at FROM jobs
      WHERE ${lane.sql} AND (created_at, id) < (?, ?)
      ORDER BY created_at DESC, id DESC LIMIT ?`,
    ...lane.values,
    lastAt(place),
    lastId(place),
    limit,
  );
}

function selectByEnd(
  db: Connection,
  columns: string,
  lane: Condition,
  place: SummaryPlace | undefined,
  limit: number,
): KeyRow[] {
  return db.rows<KeyRow>(
    `SELECT ${columns}, finished_at AS at FROM jobs
      WHERE ${lane.sql} AND (finished_at, id) < (?, ?)
      ORDER BY finished_at DESC, id DESC LIMIT ?`,
    ...lane.values,
    lastAt(place),
    lastId(place),
    limit,
  );
}

function lastAt(place: SummaryPlace | undefined): string {
  return place?.at ?? "9999";
}

function lastId(place: SummaryPlace | undefined): number {
  return place?.id ?? Number.MAX_SAFE_INTEGER;
}

/** As many jobs as fit the byte limit of params, and at least one. */
function withinBytes(
  keys: readonly KeyRow[],
): { readonly looked: readonly KeyRow[]; readonly bytes: number } {
  const sizes = keys.map(({ bytes = 0 }) => ({ bytes }));
  const looked = keys.slice(0, fitting(sizes, 0, PART_BYTES));
  const bytes = sizes.slice(0, looked.length).reduce((sum, one) => sum + one.bytes, 0);
  return { looked, bytes };
}

/** The jobs that pass every check, in order. */
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
