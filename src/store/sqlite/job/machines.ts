// Jobs of machines, for lists.

import type { BindValue } from "@db/sqlite";
import { ASKED_PROPERTIES } from "../../../domain/machine/shown.ts";
import type { WorkflowUuid } from "../../../domain/id.ts";
import { HISTORY_LOOKED_AT_MAX, HISTORY_READ_MAX } from "../../limits.ts";
import {
  type MachineFilter,
  type MachineHistoryStore,
  type MachineJob,
  type MachineJobRow,
  machineJobs,
  type MachinePage,
  type MachineWorkflows,
} from "../../machine_store.ts";
import type { Connection } from "../connection.ts";
import { isOtherHost } from "../host_rows.ts";
import { HOLDS_TARGET, MACHINE_AT } from "../../sql.ts";

/** SQL for the part of a machine job's params that lists show, as JSON. */
const REQUESTED_PARTS = `json_object('media', params -> '$.media', 'machine', json_object(${
  ASKED_PROPERTIES.map((name) => `'${name}', params -> '$.machine.${name}'`).join(", ")
}))`;
const HOST = "(SELECT uuid FROM hosts) AS host_uuid, (SELECT name FROM hosts) AS host";

/** The part of the store about histories of machines. */
export function openMachineHistories(db: Connection): MachineHistoryStore {
  return {
    of: (targets, workflows) => db.durably(() => selectHistories(db, targets, workflows)),
    making: (workflow, filter, page) => db.durably(() => selectMaking(db, workflow, filter, page)),
  };
}

function selectHistories(
  db: Connection,
  targets: readonly string[],
  { make, eject, remove }: MachineWorkflows,
): MachineJob[] {
  const rows = db.rows<MachineJobRow>(
    `SELECT jobs.id, uuid, substr(target, ${MACHINE_AT}) AS machine_uuid, workflow_uuid, execution, ${HOST},
            CASE WHEN workflow_uuid = ?2 THEN ${REQUESTED_PARTS} END AS asked,
            CASE WHEN workflow_uuid = ?2 THEN props ->> 'medium_file' END AS placed
       FROM json_each(?1) AS wanted CROSS JOIN jobs ON jobs.id IN (
         SELECT id FROM (
           SELECT id, workflow_uuid FROM jobs WHERE target = wanted.value
            ORDER BY id DESC LIMIT ${HISTORY_LOOKED_AT_MAX})
          WHERE workflow_uuid IN (?2, ?3, ?4) ORDER BY id DESC LIMIT ${HISTORY_READ_MAX})
      ORDER BY jobs.id DESC`,
    JSON.stringify(targets),
    make,
    eject,
    remove,
  );
  const ejecting = rows.filter(({ workflow_uuid }) => workflow_uuid === eject);
  return machineJobs(rows, selectChainEntries(db, ejecting.map(({ id }) => id)));
}

function selectChainEntries(
  db: Connection,
  jobs: readonly number[],
): { job_id: number; entry: string }[] {
  return db.rows(
    `SELECT job_id, entry FROM json_each(?) AS wanted CROSS JOIN task_results
         ON job_id = wanted.value AND phase = 'chain'`,
    JSON.stringify(jobs),
  );
}

function selectMaking(
  db: Connection,
  workflow: WorkflowUuid,
  { brand, alias, host }: Omit<MachineFilter, "state">,
  { limit, offset, without }: MachinePage,
): { jobs: MachineJob[]; count: number } {
  if (isOtherHost(db, host)) return { jobs: [], count: 0 };
  const values = [workflow, JSON.stringify(without), brand ?? null, alias ?? null];
  const rows = selectMakingRows(db, values, limit, offset);
  return { jobs: machineJobs(rows, []), count: countMaking(db, values) };
}

/** The jobs that are making a machine, by ?1 to ?4: workflow, machines that are known, brand and alias. */
const MAKING = `FROM jobs
    WHERE machine_uuid IS NOT NULL AND ${HOLDS_TARGET} AND finished_at IS NULL
      AND workflow_uuid = ?1 AND machine_uuid NOT IN (SELECT value FROM json_each(?2))
      AND (?3 IS NULL OR params ->> '$.machine.brand' = ?3)
      AND (?4 IS NULL OR params ->> '$.machine.alias' = ?4)`;

function selectMakingRows(
  db: Connection,
  values: readonly BindValue[],
  limit: number,
  offset: number,
): MachineJobRow[] {
  return db.rows<MachineJobRow>(
    `SELECT id, uuid, machine_uuid, workflow_uuid, execution, ${HOST}, ${REQUESTED_PARTS} AS asked, NULL AS placed
       ${MAKING}
      ORDER BY id DESC LIMIT ?5 OFFSET ?6`,
    ...values,
    limit,
    offset,
  );
}

function countMaking(db: Connection, values: readonly BindValue[]): number {
  return db.row<{ jobs: number }>(`SELECT count(*) AS jobs ${MAKING}`, ...values)?.jobs ?? 0;
}
