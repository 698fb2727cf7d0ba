// What a job keeps of its workflow, as it was when the job was made. Jobs of an unchanged workflow
// share one row, so that a job costs its own data only. Rows never change and their ids are never
// used again: what was read of one is kept.

import type { WorkflowUuid } from "../../domain/id.ts";
import { timeoutOf } from "../../domain/job.ts";
import type { Task, Workflow } from "../../domain/workflow.ts";
import type { Connection } from "./connection.ts";

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
  readonly chain: string;
  readonly onerror: string;
  readonly oncancel: string;
  readonly timeout: number;
}

/** The definition of a job. */
export function definitionOf(db: Connection, id: number): Definition {
  return db.kept("definition", id, () => {
    const row = db.row<DefinitionRow>(
      "SELECT name, chain, onerror, oncancel, timeout FROM definitions WHERE id = ?",
      id,
    );
    if (row === undefined) throw new Error(`The definition ${id} is not there`);
    // The texts were made by this store from tasks.
    return {
      name: row.name,
      chain: JSON.parse(row.chain) as Task[],
      onerror: JSON.parse(row.onerror) as Task[],
      oncancel: JSON.parse(row.oncancel) as Task[],
      timeout: row.timeout,
    };
  });
}

/** The row of the workflow as it is: the one of its latest job, or a new one. */
export function definitionFor(db: Connection, workflow: Workflow): number {
  const columns = [
    workflow.uuid,
    workflow.name,
    JSON.stringify(workflow.chain),
    JSON.stringify(workflow.onerror),
    JSON.stringify(workflow.oncancel ?? []),
    timeoutOf(workflow),
  ] as const;
  return latestDefinition(db, columns) ?? insertDefinition(db, columns);
}

type Columns = readonly [WorkflowUuid, string, string, string, string, number];

function latestDefinition(db: Connection, columns: Columns): number | undefined {
  const row = db.row<{ id: number }>(
    `SELECT id FROM definitions
      WHERE id = (SELECT max(id) FROM definitions WHERE workflow_uuid = ?1)
        AND name = ?2 AND chain = ?3 AND onerror = ?4 AND oncancel = ?5 AND timeout = ?6`,
    ...columns,
  );
  return row?.id;
}

function insertDefinition(db: Connection, columns: Columns): number {
  const row = db.row<{ id: number }>(
    `INSERT INTO definitions (workflow_uuid, name, chain, onerror, oncancel, timeout)
     VALUES (?, ?, ?, ?, ?, ?) RETURNING id`,
    ...columns,
  );
  if (row === undefined) throw new Error("The definition was not written");
  return row.id;
}

/** Removes the definitions that no job has any more. */
export function deleteUnusedDefinitions(db: Connection): number {
  return db.run(
    `DELETE FROM definitions
      WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE definition_id = definitions.id)`,
  );
}
