// The rows of jobs that appear in lists of machines.

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
import type { SharedDatabase, Transaction } from "../connection.ts";
import { HOLDS_TARGET, MACHINE_AT } from "../../sql.ts";
import { isText, jsonOf, Values, whereOf } from "../statements.ts";

/** SQL for a property of the machine that a job creates; `read` is the JSON of the job's params. */
const asked = (name: string) => `read -> 'machine' -> '${name}'`;
const REQUESTED_PARTS = `json_build_object('media', read -> 'media', 'machine', json_build_object(${
  ASKED_PROPERTIES.map((name) => `'${name}', ${asked(name)}`).join(", ")
}))::text`;
const READ = `LATERAL (SELECT ${jsonOf("params")} AS read) AS parsed`;
const HOST_NAME = "(SELECT name FROM hosts WHERE hosts.uuid = jobs.host)";

/** Opens the part of the store about histories of machines. */
export function openMachineHistories(db: SharedDatabase): MachineHistoryStore {
  return {
    of: (targets, workflows) => db.read((tx) => selectHistories(tx, targets, workflows)),
    making: (workflow, filter, page) => db.read((tx) => selectMaking(tx, workflow, filter, page)),
  };
}

async function selectHistories(
  tx: Transaction,
  targets: readonly string[],
  { make, eject, remove }: MachineWorkflows,
): Promise<MachineJob[]> {
  const rows = await tx.rows<MachineJobRow>(
    `SELECT jobs.id, jobs.uuid, substr(target, ${MACHINE_AT}) AS machine_uuid, workflow_uuid, execution,
            host AS host_uuid, ${HOST_NAME} AS host,
            CASE WHEN workflow_uuid = $2 THEN (SELECT ${REQUESTED_PARTS} FROM ${READ}) END AS asked,
            CASE WHEN workflow_uuid = $2 THEN ${jsonOf("props")} ->> 'medium_file' END AS placed
       FROM unnest($1::text[]) AS wanted (machine) CROSS JOIN LATERAL (
         SELECT id FROM (
           SELECT id, workflow_uuid FROM jobs WHERE target = wanted.machine
            ORDER BY id DESC LIMIT ${HISTORY_LOOKED_AT_MAX}) AS newest
          WHERE workflow_uuid IN ($2, $3, $4) ORDER BY id DESC LIMIT ${HISTORY_READ_MAX}
       ) AS found JOIN jobs USING (id)
      ORDER BY jobs.id DESC`,
    targets,
    make,
    eject,
    remove,
  );
  const ejecting = rows.filter(({ workflow_uuid }) => workflow_uuid === eject);
  if (ejecting.length === 0) return machineJobs(rows, []);
  return machineJobs(rows, await selectChainEntries(tx, ejecting.map(({ id }) => id)));
}

function selectChainEntries(
  tx: Transaction,
  jobs: readonly number[],
): Promise<{ job_id: number; entry: string }[]> {
  return tx.rows(
    "SELECT job_id, entry FROM task_results WHERE job_id = ANY($1::bigint[]) AND phase = 'chain'",
    jobs,
  );
}

async function selectMaking(
  tx: Transaction,
  workflow: WorkflowUuid,
  filter: Omit<MachineFilter, "state">,
  { limit, offset, without }: MachinePage,
): Promise<{ jobs: MachineJob[]; count: number }> {
  const values = new Values();
  const found = makingBy(workflow, filter, without, values);
  const count = await countMaking(tx, found, values);
  const rows = limit === 0 ? [] : await selectMakingRows(tx, found, values, limit, offset);
  return { jobs: machineJobs(rows, []), count };
}

/** SQL for the jobs that are making a machine which no host reports yet. */
function makingBy(
  workflow: WorkflowUuid,
  { brand, alias, host }: Omit<MachineFilter, "state">,
  without: readonly string[],
  values: Values,
): string {
  const askedText = (name: string) => `(${asked(name)}) #>> '{}'`;
  const conditions = [
    `machine_uuid IS NOT NULL AND ${HOLDS_TARGET} AND finished_at IS NULL`,
    `workflow_uuid = ${values.add(workflow)}`,
    `machine_uuid <> ALL(${values.add(without)}::text[])`,
    `NOT EXISTS (SELECT 1 FROM reported_machines m JOIN hosts h ON h.uuid = m.host
                  WHERE m.uuid = machine_uuid AND NOT h.forgotten)`,
    ...host === undefined ? [] : [isText("host", host, values)],
    ...brand === undefined ? [] : [isText(askedText("brand"), brand, values)],
    ...alias === undefined ? [] : [isText(askedText("alias"), alias, values)],
  ];
  return `FROM jobs CROSS JOIN ${READ} ${whereOf(conditions)}`;
}

/** @param found as makingBy() returns it, with its values */
async function countMaking(tx: Transaction, found: string, values: Values): Promise<number> {
  const sql = `SELECT count(*) AS jobs ${found}`;
  return (await tx.row<{ jobs: number }>(sql, ...values.all))?.jobs ?? 0;
}

/** @param found as makingBy() returns it, with its values */
function selectMakingRows(
  tx: Transaction,
  found: string,
  values: Values,
  limit: number,
  offset: number,
): Promise<MachineJobRow[]> {
  return tx.rows<MachineJobRow>(
    `SELECT id, uuid, machine_uuid, workflow_uuid, execution, host AS host_uuid, ${HOST_NAME} AS host,
            ${REQUESTED_PARTS} AS asked, NULL AS placed
       ${found}
      ORDER BY id DESC LIMIT ${values.add(limit)} OFFSET ${values.add(offset)}`,
    ...values.all,
  );
}
