// Workflows as rows.

import type { WorkflowUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import type { StoredWorkflow, Workflow } from "../../domain/workflow.ts";
import type { Connection } from "./connection.ts";

interface WorkflowRow {
  readonly body: string;
  readonly builtin: number;
  readonly created_at: Instant;
}

/** Writes a workflow, unless there are as many as may be. */
export function insertWorkflow(
  db: Connection,
  workflow: Workflow,
  now: Instant,
  workflowsMax: number,
): boolean {
  return db.run(
    `INSERT INTO workflows (uuid, name, body, builtin, created_at)
     SELECT ?1, ?2, ?3, 0, ?4 WHERE (SELECT count(*) FROM workflows) < ?5`,
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
    now,
    workflowsMax,
  ) > 0;
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

export function updateWorkflow(db: Connection, workflow: Workflow): boolean {
  return db.run(
    "UPDATE workflows SET name = ?2, body = ?3 WHERE uuid = ?1 AND builtin = 0",
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow),
  ) > 0;
}

export function deleteWorkflow(db: Connection, uuid: WorkflowUuid): boolean {
  return db.run("DELETE FROM workflows WHERE uuid = ? AND builtin = 0", uuid) > 0;
}

export function selectWorkflow(db: Connection, uuid: WorkflowUuid): StoredWorkflow | undefined {
  const row = db.row<WorkflowRow>(
    "SELECT body, builtin, created_at FROM workflows WHERE uuid = ?",
    uuid,
  );
  return row === undefined ? undefined : workflowFromRow(row);
}

/** In the order of their creation. */
export function selectWorkflows(db: Connection, name: string | undefined): StoredWorkflow[] {
  const rows = db.rows<WorkflowRow>(
    "SELECT body, builtin, created_at FROM workflows WHERE ?1 IS NULL OR name = ?1 ORDER BY id",
    name ?? null,
  );
  return rows.map(workflowFromRow);
}

function workflowFromRow(row: WorkflowRow): StoredWorkflow {
  return {
    // The text was made by this store from a workflow.
    workflow: JSON.parse(row.body) as Workflow,
    builtin: row.builtin === 1,
    created_at: row.created_at,
  };
}
