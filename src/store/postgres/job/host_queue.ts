// Chooses the queue of a new job: that of the only host that may run it, or that of free jobs.

import { isFree, type NewJob, placeOf, propsOf } from "../../../domain/job/job.ts";
import { refusalOf, type TakenJobs, takesAll, type Taking } from "../../../domain/taking.ts";
import { ANY_HOST } from "../../../domain/job/workflow.ts";
import type { NoHost } from "../../host_store.ts";
import type { Transaction } from "../connection.ts";
import { findHost } from "../host_rows.ts";
import { ownerOf } from "./owner.ts";

/** The hosts to choose from for a job that names neither a host nor a machine. */
export interface PlaceHosts {
  /** The host of the agent that accepts the job. */
  readonly own: string;
  /** The queue of the job that it repeats. */
  readonly before?: string;
  /** That agent's policy and its own workflows. */
  readonly taken?: TakenJobs | undefined;
}

/** The queue of a job, and the only host that may run it; null for a free job. */
export interface JobQueue {
  readonly kind: "queue";
  readonly queue: string;
  readonly host: string | null;
}

/** Chooses the queue of a new job, or says why no host can or may run it. */
export async function queueFor(
  tx: Transaction,
  job: NewJob,
  hosts: PlaceHosts,
): Promise<JobQueue | NoHost> {
  const place = await placeFor(tx, job, hosts);
  if (place.kind !== "queue" || place.host === null) return place;
  const { own, taken } = hosts;
  const taking = place.host === own ? taken?.taking : await takingOf(tx, place.host);
  if (taking === undefined || takesAll(taking)) return place;
  const { workflow } = job;
  const judged = { ...workflow, props: propsOf(job) };
  const words = await refusalOf(taking, judged, taken?.own(workflow.uuid));
  if (words === undefined) return place;
  const { server = place.host } = placeOf(job.params);
  return { kind: "no_host", host: server, reason: { words } };
}

/** The part of a host's policy that it has registered. The host itself checks again before it runs a job. */
async function takingOf(tx: Transaction, host: string): Promise<Taking | undefined> {
  const row = await tx.row<Readonly<Record<keyof Taking, string>>>(
    "SELECT allow_workflow, allow_caller FROM hosts WHERE uuid = $1",
    host,
  );
  // This store made the texts from lists of words.
  return row && {
    allow_workflow: JSON.parse(row.allow_workflow) as string[],
    allow_caller: JSON.parse(row.allow_caller) as string[],
  };
}

async function placeFor(
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

/** Whether the queue of an earlier job belongs to a host that is not forgotten. */
async function isUsable(tx: Transaction, queue: string | undefined): Promise<boolean> {
  if (queue === undefined || queue === ANY_HOST) return false;
  return await tx.row(
    "SELECT 1 AS found FROM hosts WHERE uuid = $1 AND forgotten",
    queue,
  ) === undefined;
}
