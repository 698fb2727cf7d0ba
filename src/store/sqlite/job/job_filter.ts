// The filter of a list as conditions of a statement. They are fixed texts: a statement that has only
// the conditions that count can be answered from their index, where `? IS NULL OR` would read every
// job.

import type { JobFilter } from "../../job_store.ts";

/** What is bound to a question mark. */
export type Bound = string | number | null;

/** A condition, and what is bound to its question marks. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly Bound[];
}

/** The conditions of the keys that are given. */
export function conditionsOf(filter: JobFilter): Condition[] {
  const { execution, target, name, workflow_uuid, since, until, params = {} } = filter;
  const given: (Condition | false)[] = [
    execution !== undefined && { sql: "execution = ?", values: [execution] },
    target !== undefined && { sql: "target = ?", values: [target] },
    name !== undefined && {
      sql: "definition_id IN (SELECT id FROM definitions WHERE name = ?)",
      values: [name],
    },
    workflow_uuid !== undefined && {
      sql: "definition_id IN (SELECT id FROM definitions WHERE workflow_uuid = ?)",
      values: [workflow_uuid],
    },
    since !== undefined && { sql: "created_at >= ?", values: [since] },
    until !== undefined && { sql: "created_at < ?", values: [until] },
    ...Object.entries(params).map(([key, value]) => paramCondition(key, value)),
  ];
  return given.filter((condition) => condition !== false);
}

/** The JSON of the value is compared: a text stands in it with quotes, all else as it was sent. */
function paramCondition(key: string, value: string): Condition {
  const text = JSON.stringify(value);
  return {
    sql: "(params -> ?) IN (?, ?)",
    // A bare key would be read as a path when it begins with `$` or holds a quote. What begins with
    // a quote is the JSON of a text, never of anything else.
    values: [`$.${JSON.stringify(key)}`, text, value.startsWith('"') ? text : value],
  };
}

/** The conditions as the part of a statement that begins with WHERE, or nothing. */
export function whereOf(conditions: readonly Condition[]): { sql: string; values: Bound[] } {
  if (conditions.length === 0) return { sql: "", values: [] };
  return {
    sql: `WHERE ${conditions.map(({ sql }) => sql).join(" AND ")}`,
    values: conditions.flatMap(({ values }) => values),
  };
}

/** Whether some condition has no index, so that jobs must be looked at one by one. */
export function isScan({ since, until, params = {}, target }: JobFilter): boolean {
  if (target !== undefined) return false;
  return since !== undefined || until !== undefined || Object.keys(params).length > 0;
}
