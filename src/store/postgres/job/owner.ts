// Which host has a machine: jobs on it go there, and so do requests about it.

import type { HostUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { machineTarget } from "../../../domain/job/summary.ts";
import { DELETE_WORKFLOW } from "../../../domain/machine/action.ts";
import { CLAIMS_WITH_JOBS, HOLDS_TARGET, IS_LEFT } from "../../columns.ts";
import type { Transaction } from "../connection.ts";

/** Whether the host in a column is none that was forgotten. */
const KNOWN = "NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.uuid = found.host AND forgotten)";

/**
 * The host that has a machine: whose job has claimed it or acts on it, else the one that the latest of two says, the last
 * report that shows it or the last job on it that succeeded. After its deletion no host has it, but one that has parts
 * of it left. Of several that report it, the host of this agent comes before the others.
 */
export async function ownerOf(
  tx: Transaction,
  machine: string,
  own: string,
): Promise<HostUuid | undefined> {
  const claims = await tx.rows<{ host: HostUuid; is_left: boolean }>(
    `SELECT host, is_left FROM (
       SELECT c.owner AS host, ${IS_LEFT} AS is_left, c.claimed_at AS at, 1 AS place
         FROM ${CLAIMS_WITH_JOBS} WHERE c.uuid = $1
       UNION ALL
       SELECT host, false, created_at, 2 FROM jobs WHERE machine_uuid = $1 AND ${HOLDS_TARGET}
     ) AS found WHERE ${KNOWN} ORDER BY place, at DESC`,
    machine,
  );
  const held = claims.find(({ is_left }) => !is_left);
  return held?.host ?? await lastOwnerOf(tx, machine, own) ?? claims[0]?.host;
}

async function lastOwnerOf(
  tx: Transaction,
  machine: string,
  own: string,
): Promise<HostUuid | undefined> {
  const reported = await tx.row<{ host: HostUuid; reported_at: Instant }>(
    `SELECT host, reported_at FROM reported_machines found JOIN machine_reports USING (host)
      WHERE found.uuid = $1 AND ${KNOWN} ORDER BY host <> $2, reported_at DESC LIMIT 1`,
    machine,
    own,
  );
  const ended = await tx.row<{ host: HostUuid; finished_at: Instant; deletes: boolean }>(
    `SELECT host, finished_at, workflow_uuid = $3 AS deletes FROM jobs found
      WHERE target = $2 AND machine_uuid = $1 AND execution = 'succeeded' AND ${KNOWN}
      ORDER BY id DESC LIMIT 1`,
    machine,
    machineTarget(machine),
    DELETE_WORKFLOW,
  );
  if (ended === undefined || (reported !== undefined && reported.reported_at > ended.finished_at)) {
    return reported?.host;
  }
  return ended.deletes ? undefined : ended.host;
}
