// What a job keeps of its workflow, as it was when the job was made. Jobs of an unchanged workflow
// share one row, so that a job costs its own data only. Rows never change and their ids are never
// used again: what was read of one is kept.

import type { WorkflowUuid } from "../../../domain/id.ts";
import { timeoutOf } from "../../../domain/job/job.ts";
import type { Task, Workflow } from "../../../domain/job/workflow.ts";
import type { Connection } from "../connection.ts";

/** The job's copy of its workflow. */
export interface Definition {
  readonly name: string;
  readonly chain: readonly Task[];
  readonly onerror: readonly Task[];
  readonly oncancel: readonly Task[];
  readonly timeout: number;
}

interface DefinitionRow {
  readonly name: string;
  readonly chars: number;
  readonly chain: string;
  readonly onerror: string;
  readonly oncancel: string;
  readonly timeout: number;
}

/** The definition of a job. */
export function definitionOf(db: Connection, id: number): Definition {
  return db.kept("definition", id, () => {
    const row = db.row<DefinitionRow>(
      "SELECT name, chars, chain, onerror, oncancel, timeout FROM definitions WHERE id = ?",
      id,
    );
    if (row === undefined) throw new Error(`Cannot read definition ${id}: its row is missing`);
    // The texts were made by this store from tasks.
    const value = {
      name: row.name,
      chain: JSON.parse(row.chain) as Task[],
      onerror: JSON.parse(row.onerror) as Task[],
      oncancel: JSON.parse(row.oncancel) as Task[],
      timeout: row.timeout,
    };
    return { value, chars: row.chars };
  });
}

/** What a new job of a workflow keeps of it: what the row of `definitionFor()` holds. */
export function definitionAt(workflow: Workflow): Definition {
  const { name, chain, onerror, oncancel = [] } = workflow;
  return { name, chain, onerror, oncancel, timeout: timeoutOf(workflow) };
}

/** The row of the workflow as it is: the one of an earlier job, or a new one. */
export function definitionFor(db: Connection, workflow: Workflow): number {
  const [chain, onerror, oncancel] = [workflow.chain, workflow.onerror, workflow.oncancel ?? []]
    .map((tasks) => JSON.stringify(tasks)) as [string, string, string];
  const columns: Columns = [
    workflow.uuid,
    workflow.name,
    chain.length + onerror.length + oncancel.length,
    chain,
    onerror,
    oncancel,
    timeoutOf(workflow),
  ];
  return findDefinition(db, columns) ?? insertDefinition(db, columns);
}

type Columns = readonly [WorkflowUuid, string, number, string, string, string, number];

function findDefinition(db: Connection, columns: Columns): number | undefined {
  const row = db.row<{ id: number }>(
    `SELECT id FROM definitions
      WHERE workflow_uuid = ?1 AND chars = ?3 AND name = ?2 AND chain = ?4 AND onerror = ?5
        AND oncancel = ?6 AND timeout = ?7
      ORDER BY id DESC LIMIT 1`,
    ...columns,
  );
  return row?.id;
}

function insertDefinition(db: Connection, columns: Columns): number {
  const row = db.row<{ id: number }>(
    `INSERT INTO definitions (workflow_uuid, name, chars, chain, onerror, oncancel, timeout)
     VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`,
    ...columns,
  );
  if (row === undefined) throw new Error(`Cannot write a definition of ${columns[0]}: no row came`);
  return row.id;
}

/** Removes those of the definitions that no job has any more. */
export function deleteUnusedDefinitions(db: Connection, ids: Iterable<number>): void {
  for (const id of ids) {
    db.run(
      `DELETE FROM definitions
        WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM jobs WHERE definition_id = ?1)`,
      id,
    );
  }
}
