// Readings: what an agent shows is held against everything that is known of it.

import { type ChaosAgent, listOf, objectOf, type Reply } from "./agent_under_chaos.ts";
import type { JobBook, JobRecord } from "./job_book.ts";
import type { Random } from "./random.ts";
import type { WorkflowBook, WorkflowRecord } from "./workflow_book.ts";
import type { Workload } from "./workloads.ts";

/** What a caller works with. */
export interface LoadDeps {
  readonly agent: ChaosAgent;
  readonly jobs: JobBook;
  readonly workflows: WorkflowBook;
  /** The uuid of each workload's workflow. */
  readonly uuids: ReadonlyMap<string, string>;
  readonly random: Random;
  /** What jobs are made of. */
  readonly workloads: readonly Workload[];
  /** Makes a mark that nothing else has. */
  readonly newMark: () => string;
  /** Told of every acknowledged write, before anything else is done. */
  readonly acknowledged: () => void;
  /** Statuses of a refusal for a reason of the moment: nothing has happened then. */
  readonly notNow: readonly number[];
  /** Whether the callers are to end. */
  readonly over: () => boolean;
}

/** One of the jobs that are known, when there is any. */
export function anyJob(deps: Pick<LoadDeps, "jobs" | "random">): JobRecord | undefined {
  const { records } = deps.jobs;
  return records.length === 0 ? undefined : deps.random.pick(records);
}

/** Reads any job, or its info. @returns false when the agent did not answer */
export async function lookAtAny(deps: LoadDeps, info = false): Promise<boolean> {
  const record = anyJob(deps);
  if (record === undefined) return true;
  return info ? await lookAtInfo(deps, record) : await lookAtJob(deps, record);
}

/** A page of the newest; jobs of posts that are under way may be among them. */
export async function lookAtNewest(deps: LoadDeps): Promise<boolean> {
  const { agent, jobs } = deps;
  const since = jobs.now();
  const reply = await agent.call("GET", "/jobs?limit=50");
  if (reply === undefined) return false;
  const known = new Map(jobs.records.map((record) => [record.uuid, record]));
  for (const job of listOf(reply)) {
    const record = known.get(String(job.uuid));
    if (record !== undefined) jobs.look(record, job, since);
  }
  return true;
}

/** Reads one job. @returns false when the agent did not answer */
export async function lookAtJob(
  { agent, jobs }: Pick<LoadDeps, "agent" | "jobs">,
  record: JobRecord,
): Promise<boolean> {
  return await record.turns.take(async () => {
    const since = jobs.now();
    const reply = await agent.call("GET", `/jobs/${record.uuid}`);
    if (reply === undefined) return false;
    if (reply.status !== 200) record.expect([`GET was answered ${reply.status}`]);
    jobs.look(record, objectOf(reply), since);
    return true;
  });
}

/** Reads a job and then its info, which may only be further on than the job. */
export async function lookAtInfo(
  deps: Pick<LoadDeps, "agent" | "jobs">,
  record: JobRecord,
): Promise<boolean> {
  return await record.infoTurns.take(async () => {
    if (!await lookAtJob(deps, record)) return false;
    const { view } = record;
    const reply = await deps.agent.call("GET", `/jobs/${record.uuid}/info`);
    if (reply === undefined || view === undefined) return false;
    deps.jobs.lookAtInfo(record, listOf(reply), view);
    return true;
  });
}

/** Reads one workflow. @returns false when the agent did not answer */
export async function lookAtWorkflow(
  { agent }: Pick<LoadDeps, "agent">,
  record: WorkflowRecord,
): Promise<boolean> {
  const reply = await agent.call("GET", `/workflows/${record.uuid}`);
  if (reply === undefined) return false;
  record.is(reply.status === 404 ? "none" : objectOf(reply), "read");
  return true;
}

/** @throws {Error} for a status that an agent in order does not give */
export function expectRefusal({ status, body }: Reply, allowed: readonly number[]): void {
  if (!allowed.includes(status)) {
    throw new Error(`Unexpected answer ${status} ${JSON.stringify(body)}`);
  }
}
