// Workflows as rows.

import type { WorkflowUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import type { StoredWorkflow, Workflow } from "../../../domain/job/workflow.ts";
import type {
  CreateWorkflowOutcome,
  ListedWorkflow,
  ReplaceWorkflowOutcome,
  WorkflowFilter,
  WorkflowPage,
  WorkflowRules,
} from "../../store.ts";
import { fitting, readText, type StoredText, type TextPage } from "../../stored_text.ts";
import type { Connection } from "../connection.ts";
import { type Condition, whereOf } from "./lists.ts";
import { textAt, type TextPlace } from "../text_parts.ts";

interface WorkflowRow {
  readonly id: number;
  readonly body: string;
  readonly builtin: number;
  readonly created_at: Instant;
}

/** Creates a workflow, unless its uuid is taken or the rules forbid it. */
export function insertWorkflow(
  db: Connection,
  workflow: Workflow,
  now: Instant,
  { max, uniqueName = false }: WorkflowRules,
): CreateWorkflowOutcome {
  const written = db.run(
    `INSERT INTO workflows (uuid, name, body, builtin, created_at)
     SELECT ?1, ?2, ?3, 0, ?4
      WHERE (SELECT count(*) FROM workflows) < ?5
        AND (?6 = 0 OR NOT EXISTS (SELECT 1 FROM workflows WHERE name = ?2))
     ON CONFLICT (uuid) DO NOTHING`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    now,
    max,
    Number(uniqueName),
  );
  if (written > 0) return { kind: "created" };
  if (isThere(db, workflow.uuid)) return { kind: "uuid_taken" };
  const holder = uniqueName ? otherOfName(db, workflow) : undefined;
  return holder === undefined ? { kind: "full" } : { kind: "name_taken", uuid: holder };
}

/** Writes a built-in workflow, replacing that of an earlier version of the agent. */
export function putBuiltinWorkflow(db: Connection, workflow: Workflow, now: Instant): void {
  changingWorkflow(db, workflow.uuid);
  db.run(
    `INSERT INTO workflows (uuid, name, body, builtin, created_at) VALUES (?1, ?2, ?3, 1, ?4)
     ON CONFLICT (uuid) DO UPDATE SET name = ?2, body = ?3, builtin = 1
      WHERE body <> ?3 OR builtin = 0`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    now,
  );
}

/** Replaces a workflow, unless it is built in. */
export function updateWorkflow(
  db: Connection,
  workflow: Workflow,
  { uniqueName = false }: Pick<WorkflowRules, "uniqueName">,
): ReplaceWorkflowOutcome {
  changingWorkflow(db, workflow.uuid);
  const written = db.run(
    `UPDATE workflows SET name = ?2, body = ?3
      WHERE uuid = ?1 AND builtin = 0
        AND (?4 = 0 OR NOT EXISTS (SELECT 1 FROM workflows WHERE name = ?2 AND uuid <> ?1))`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    Number(uniqueName),
  );
  if (written > 0) return { kind: "replaced" };
  const holder = isChangeable(db, workflow.uuid) ? otherOfName(db, workflow) : undefined;
  return holder === undefined ? { kind: "not_found" } : { kind: "name_taken", uuid: holder };
}

/** Leaves built-in workflows alone. @returns whether a workflow was removed */
export function deleteWorkflow(db: Connection, uuid: WorkflowUuid): boolean {
  changingWorkflow(db, uuid);
  return db.run("DELETE FROM workflows WHERE uuid = ? AND builtin = 0", uuid) > 0;
}

/** The workflow with its tasks, built-in ones too; undefined when it is missing. */
export function selectWorkflow(db: Connection, uuid: WorkflowUuid): StoredWorkflow | undefined {
  const row = db.row<Omit<WorkflowRow, "id">>(
    "SELECT body, builtin, created_at FROM workflows WHERE uuid = ?",
    uuid,
  );
  return row === undefined ? undefined : workflowFromRow(row);
}

/** Result of looking up the workflow for a new job. */
type WorkflowToRun =
  | { readonly kind: "found"; readonly workflow: Workflow; readonly bytes: number }
  | { readonly kind: "large"; readonly bytes: number }
  | { readonly kind: "missing" };

/** The cache key of a workflow. */
const CACHED_WORKFLOW = "workflow";

/** The workflow, unless it is too large. It is read and parsed once, for its first job. */
export function workflowToRun(
  db: Connection,
  uuid: WorkflowUuid,
  bytesMax: number,
): WorkflowToRun {
  const found = db.cached<WorkflowToRun>(CACHED_WORKFLOW, uuid, () => {
    const bytes = workflowBytes(db, uuid) ?? 0;
    const workflow = bytes > bytesMax ? undefined : selectWorkflow(db, uuid)?.workflow;
    if (workflow !== undefined) return { value: { kind: "found", workflow, bytes }, chars: bytes };
    const value = bytes > bytesMax
      ? { kind: "large", bytes } as const
      : { kind: "missing" } as const;
    return { value, chars: Number.POSITIVE_INFINITY };
  });
  if (found.kind !== "found" || found.bytes <= bytesMax) return found;
  return { kind: "large", bytes: found.bytes };
}

/** Call before changing a workflow, so that its readers keep the present version. */
function changingWorkflow(db: Connection, uuid: WorkflowUuid): void {
  db.forget(CACHED_WORKFLOW, uuid);
  db.readers.changing(workflowRow(uuid));
}

/** Bytes of the JSON text of a workflow. */
function workflowBytes(db: Connection, uuid: WorkflowUuid): number | undefined {
  const row = db.row<{ bytes: number }>(
    "SELECT octet_length(body) AS bytes FROM workflows WHERE uuid = ?",
    uuid,
  );
  return row?.bytes;
}

/** In order of creation. Skipped workflows are not read. */
export function selectWorkflows(
  db: Connection,
  filter: WorkflowFilter,
  { limit = -1, offset = 0, after = 0 }: WorkflowPage,
): ListedWorkflow[] {
  const where = whereOf([...conditionsOf(filter), { sql: "id > ?", values: [after] }]);
  const rows = db.rows<WorkflowRow>(
    `SELECT id, body, builtin, created_at FROM workflows ${where.sql}
      ORDER BY id LIMIT ? OFFSET ?`,
    ...where.values,
    limit,
    offset,
  );
  return rows.map((row) => ({ ...workflowFromRow(row), place: row.id }));
}

/** A workflow as stored, or as GET shows it, with `wf_uuid` appended. */
export function workflowText(
  db: Connection,
  uuid: WorkflowUuid,
  as: "stored" | "shown",
): StoredText | undefined {
  const bytes = workflowBytes(db, uuid);
  if (bytes === undefined) return undefined;
  if (as === "stored") return textAt(db, placeOf(uuid, bytes));
  const shown = `,"wf_uuid":"${uuid}"}`;
  const sql = `substr(body, 1, length(body) - 1) || '${shown}'`;
  return textAt(db, { ...placeOf(uuid, bytes - 1 + shown.length), sql });
}

/** The next workflows of a list, in order of creation: as many as fit a part. */
export function workflowTexts(
  db: Connection,
  filter: WorkflowFilter,
  { limit, offset = 0, after = 0 }: WorkflowPage & { readonly limit: number },
): TextPage {
  const where = whereOf([...conditionsOf(filter), { sql: "id > ?", values: [after] }]);
  const rows = db.rows<{ id: number; uuid: WorkflowUuid; bytes: number }>(
    `SELECT id, uuid, octet_length(body) AS bytes FROM workflows ${where.sql}
      ORDER BY id LIMIT ? OFFSET ?`,
    ...where.values,
    limit,
    offset,
  );
  const fit = rows.slice(0, fitting(rows));
  const place = fit.at(-1)?.id;
  const [first] = fit;
  const text = () => {
    if (first === undefined || place === undefined) return [];
    if (fit.length === 1) return [textAt(db, placeOf(first.uuid, first.bytes))];
    const bodies = selectBodies(db, fit.map(({ id }) => id));
    return bodies === undefined ? [] : [readText(bodies)];
  };
  return {
    texts: text(),
    entries: fit.length,
    place,
    last: rows.length < limit && fit.length === rows.length,
  };
}

/** The bodies of workflows in this order, separated by commas. */
function selectBodies(db: Connection, ids: readonly number[]): Uint8Array | undefined {
  return db.row<{ text: Uint8Array }>(
    `SELECT CAST(group_concat(body, ',') AS BLOB) AS text FROM (
       SELECT body FROM json_each(?) AS listed
         CROSS JOIN workflows ON workflows.id = listed.value)`,
    JSON.stringify(ids),
  )?.text;
}

function placeOf(uuid: WorkflowUuid, bytes: number): TextPlace {
  const from = "workflows WHERE uuid = ?";
  return { row: workflowRow(uuid), sql: "body", from, values: [uuid], bytes };
}

/** A workflow as a row that is being read. */
function workflowRow(uuid: WorkflowUuid): string {
  return `workflow ${uuid}`;
}

/** How many workflows match a filter. */
export function countWorkflows(db: Connection, filter: WorkflowFilter): number {
  const where = whereOf(conditionsOf(filter));
  const row = db.row<{ workflows: number }>(
    `SELECT count(*) AS workflows FROM workflows ${where.sql}`,
    ...where.values,
  );
  return row?.workflows ?? 0;
}

function conditionsOf({ name, uuid, builtin }: WorkflowFilter): Condition[] {
  const given: (Condition | false)[] = [
    // `g` sorts after all hexadecimal digits.
    uuid !== undefined && { sql: "uuid >= ? AND uuid < ? || 'g'", values: [uuid, uuid] },
    name !== undefined && { sql: "name = ?", values: [name] },
    // SQLite stores 0 and 1 in the header of a row, so this reads no bodies.
    builtin !== undefined && { sql: "builtin = ?", values: [Number(builtin)] },
  ];
  return given.filter((condition) => condition !== false);
}

function isThere(db: Connection, uuid: WorkflowUuid): boolean {
  return db.row("SELECT 1 AS found FROM workflows WHERE uuid = ?", uuid) !== undefined;
}

function isChangeable(db: Connection, uuid: WorkflowUuid): boolean {
  const sql = "SELECT 1 AS found FROM workflows WHERE uuid = ? AND builtin = 0";
  return db.row(sql, uuid) !== undefined;
}

/** Another workflow of the same name. */
function otherOfName(db: Connection, { name, uuid }: Workflow): WorkflowUuid | undefined {
  return db.row<{ uuid: WorkflowUuid }>(
    "SELECT uuid FROM workflows WHERE name = ? AND uuid <> ? ORDER BY id LIMIT 1",
    name,
    uuid,
  )?.uuid;
}

function workflowFromRow(row: Omit<WorkflowRow, "id">): StoredWorkflow {
  return {
    // The text was made by this store from a workflow.
    workflow: JSON.parse(row.body) as Workflow,
    builtin: row.builtin === 1,
    created_at: row.created_at,
  };
}
