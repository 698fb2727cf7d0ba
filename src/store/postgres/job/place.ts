// Where a new job goes: into the queue of the one host that may run it, or into that of the free jobs.

import { isFree, type NewJob, placeOf, propsOf } from "../../../domain/job/job.ts";
import { ANY_HOST } from "../../../domain/job/workflow.ts";
import type { NoHost } from "../../host_store.ts";
import type { Transaction } from "../connection.ts";
import { findHost } from "../hosts.ts";
import { ownerOf } from "./owner.ts";

/** Hosts that take a job which names none and has no machine. */
export interface PlaceHosts {
  /** The host of the agent that accepts it. */
  readonly own: string;
  /** The queue of the job that it repeats. */
  readonly before?: string;
}

/** The queue of a job, and the host that alone may run it; null for a free job. */
export interface JobQueue {
  readonly kind: "queue";
  readonly queue: string;
  readonly host: string | null;
}

/** The queue of a new job, or why no host can run it. */
export async function queueFor(
  tx: Transaction,
  job: NewJob,
  { own, before }: PlaceHosts,
): Promise<JobQueue | NoHost> {
  if (isFree(propsOf(job))) return { kind: "queue", queue: ANY_HOST, host: null };
  const { server, machine } = placeOf(job.params);
  if (server !== undefined) return await queueOfHost(tx, server);
  const owner = machine === undefined ? undefined : await ownerOf(tx, machine, own);
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

/** Whether the queue of an earlier job is that of a host that may still run jobs. */
async function isUsable(tx: Transaction, queue: string | undefined): Promise<boolean> {
  if (queue === undefined || queue === ANY_HOST) return false;
  return await tx.row(
    "SELECT 1 AS found FROM hosts WHERE uuid = $1 AND forgotten",
    queue,
  ) === undefined;
}
