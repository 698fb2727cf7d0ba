// Workflows as rows.

import type { WorkflowUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { StoredWorkflow, Workflow } from "../../domain/workflow.ts";
import type {
  CreateWorkflowOutcome,
  ListedWorkflow,
  ReplaceWorkflowOutcome,
  WorkflowFilter,
  WorkflowPage,
  WorkflowRules,
} from "../store.ts";
import type { Connection } from "./connection.ts";
import { type Condition, whereOf } from "./job_filter.ts";

interface WorkflowRow {
  readonly id: number;
  readonly body: string;
  readonly builtin: number;
  readonly created_at: Instant;
}

/** Writes a workflow, unless its uuid is taken or the rules are against it. */
export function insertWorkflow(
  db: Connection,
  workflow: Workflow,
  now: Instant,
  { max = Number.MAX_SAFE_INTEGER, uniqueName = false }: WorkflowRules,
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

/** Writes a workflow of the agent itself over whatever an earlier version of the agent left. */
export function putBuiltinWorkflow(db: Connection, workflow: Workflow, now: Instant): void {
  db.run(
    `INSERT INTO workflows (uuid, name, body, builtin, created_at) VALUES (?1, ?2, ?3, 1, ?4)
     ON CONFLICT (uuid) DO UPDATE SET name = ?2, body = ?3, builtin = 1`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    now,
  );
}

/** Writes a workflow over the one of its uuid, unless that is part of the agent. */
export function updateWorkflow(
  db: Connection,
  workflow: Workflow,
  { uniqueName = false }: Pick<WorkflowRules, "uniqueName">,
): ReplaceWorkflowOutcome {
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

export function deleteWorkflow(db: Connection, uuid: WorkflowUuid): boolean {
  return db.run("DELETE FROM workflows WHERE uuid = ? AND builtin = 0", uuid) > 0;
}

export function selectWorkflow(db: Connection, uuid: WorkflowUuid): StoredWorkflow | undefined {
  const row = db.row<Omit<WorkflowRow, "id">>(
    "SELECT body, builtin, created_at FROM workflows WHERE uuid = ?",
    uuid,
  );
  return row === undefined ? undefined : workflowFromRow(row);
}

/** In the order of their creation. The bodies of those that are passed over are not read. */
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

export function countWorkflows(db: Connection, filter: WorkflowFilter): number {
  const where = whereOf(conditionsOf(filter));
  const row = db.row<{ workflows: number }>(
    `SELECT count(*) AS workflows FROM workflows ${where.sql}`,
    ...where.values,
  );
  return row?.workflows ?? 0;
}

function conditionsOf({ name, builtin }: WorkflowFilter): Condition[] {
  const given: (Condition | false)[] = [
    name !== undefined && { sql: "name = ?", values: [name] },
    // SQLite keeps 0 and 1 in the head of a row, so that no body is read for them.
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
