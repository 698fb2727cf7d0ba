// Where a new job goes: into the queue of the one host that may run it, or into that of the free jobs.

import type { HostUuid } from "../../../domain/id.ts";
import type { Instant } from "../../../domain/instant.ts";
import { isFree, type NewJob, placeOf, propsOf } from "../../../domain/job/job.ts";
import { machineTarget } from "../../../domain/job/summary.ts";
import { DELETE_WORKFLOW } from "../../../domain/machine/action.ts";
import { ANY_HOST } from "../../../domain/job/workflow.ts";
import type { NoHost } from "../../host_store.ts";
import type { Transaction } from "../connection.ts";
import { findHost } from "../hosts.ts";
import { CLAIMS_WITH_JOBS, IS_LEFT } from "../machine_claims.ts";
import { HOLDS_TARGET } from "../../words.ts";

/** Hosts that take a job which names none and has no machine. */
export interface PlaceHosts {
  /** The host of the agent that accepts it. */
  readonly own: string;
  /** The queue of the job that it repeats. */
  readonly before?: string;
}

/** The queue of a job, and the host that alone may run it; null for a free job. */
type JobQueue = { readonly kind: "queue"; readonly queue: string; readonly host: string | null };

/** The queue of a new job, or why no host can run it. */
export async function queueFor(
  tx: Transaction,
  job: NewJob,
  { own, before }: PlaceHosts,
): Promise<JobQueue | NoHost> {
  if (isFree(propsOf(job))) return { kind: "queue", queue: ANY_HOST, host: null };
  const { server, machine } = placeOf(job.params);
  if (server !== undefined) return await queueOfHost(tx, server);
  const owner = machine === undefined ? undefined : await ownerOf(tx, machine);
  const host = owner ?? (await isUsable(tx, before) ? before : undefined) ?? own;
  return { kind: "queue", queue: host, host };
}

async function queueOfHost(tx: Transaction, name: string): Promise<JobQueue | NoHost> {
  const found = await findHost(tx, name);
  if (found.kind !== "found") {
    const reason = found.kind === "ambiguous" ? "ambiguous" : "unknown";
    return { kind: "no_host", host: name, reason };
  }
  const { uuid, forgotten } = found.host;
  if (forgotten) return { kind: "no_host", host: name, reason: "forgotten" };
  return { kind: "queue", queue: uuid, host: uuid };
}

/** Whether the host in a column is none that was forgotten. */
const KNOWN = "NOT EXISTS (SELECT 1 FROM hosts WHERE hosts.uuid = found.host AND forgotten)";

/**
 * The host that has a machine: whose job has claimed it or acts on it, else the one that the latest of two says, the last
 * report that shows it or the last job on it that succeeded. After its deletion no host has it, but one that has parts
 * of it left.
 */
async function ownerOf(tx: Transaction, machine: string): Promise<string | undefined> {
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
  return held?.host ?? await lastOwnerOf(tx, machine) ?? claims[0]?.host;
}

async function lastOwnerOf(tx: Transaction, machine: string): Promise<string | undefined> {
  const reported = await tx.row<{ host: HostUuid; reported_at: Instant }>(
    `SELECT host, reported_at FROM reported_machines found JOIN machine_reports USING (host)
      WHERE found.uuid = $1 AND ${KNOWN} ORDER BY reported_at DESC LIMIT 1`,
    machine,
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

/** Whether the queue of an earlier job is that of a host that may still run jobs. */
async function isUsable(tx: Transaction, queue: string | undefined): Promise<boolean> {
  if (queue === undefined || queue === ANY_HOST) return false;
  return await tx.row(
    "SELECT 1 AS found FROM hosts WHERE uuid = $1 AND forgotten",
    queue,
  ) === undefined;
}
