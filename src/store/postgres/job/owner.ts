// Finds the host of a machine, to which jobs on it and requests about it are sent.

import type { HostUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { machineTarget } from "../../../domain/job/summary.ts";
import { DELETE_WORKFLOW } from "../../../domain/machine/action.ts";
import { CLAIMS_WITH_JOBS, HOLDS_TARGET, IS_LEFT } from "../../sql.ts";
import type { Transaction } from "../connection.ts";

/** A condition that the host in a row is not forgotten. */
const HOST_NOT_FORGOTTEN =
  "NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.uuid = found.host AND forgotten)";

/**
 * The host of a machine. That is the host whose job has claimed it or acts on it; else the one named by whichever is
 * newer, the last report that lists the machine or the last successful job on it; else a host with leftovers of it.
 * After its deletion it has no host, except one with leftovers. If several hosts report it, this agent's host comes
 * first.
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
     ) AS found WHERE ${HOST_NOT_FORGOTTEN} ORDER BY place, at DESC`,
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
  const reported = await selectReporter(tx, machine, own);
  const ended = await selectLastJob(tx, machine);
  if (ended === undefined || (reported !== undefined && reported.reported_at > ended.finished_at)) {
    return reported?.host;
  }
  return ended.deletes ? undefined : ended.host;
}

/** The host that lists the machine in its last report. */
function selectReporter(
  tx: Transaction,
  machine: string,
  own: string,
): Promise<{ readonly host: HostUuid; readonly reported_at: Instant } | undefined> {
  return tx.row(
    `SELECT host, reported_at FROM reported_machines found JOIN machine_reports USING (host)
      WHERE found.uuid = $1 AND ${HOST_NOT_FORGOTTEN} ORDER BY host <> $2, reported_at DESC LIMIT 1`,
    machine,
    own,
  );
}

/** The host of the last job on the machine that succeeded, and whether that job deleted it. */
function selectLastJob(
  tx: Transaction,
  machine: string,
): Promise<
  | { readonly host: HostUuid; readonly finished_at: Instant; readonly deletes: boolean }
  | undefined
> {
  return tx.row(
    `SELECT host, finished_at, workflow_uuid = $3 AS deletes FROM jobs found
      WHERE target = $2 AND machine_uuid = $1 AND execution = 'succeeded' AND ${HOST_NOT_FORGOTTEN}
      ORDER BY id DESC LIMIT 1`,
    machine,
    machineTarget(machine),
    DELETE_WORKFLOW,
  );
}
