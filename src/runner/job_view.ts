// The job as a task body sees it, and what of it the body may change. Whatever a task sets on its
// job is seen by later tasks and in GET /jobs/:job_uuid, except for the engine's own fields.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import type { Job } from "../domain/job/job.ts";
import { ENGINE_FIELDS } from "../domain/job/wire.ts";
import type { Perform } from "../sandbox/run_task.ts";

/** What a task may change. */
export interface JobData {
  readonly params: JsonObject;
  readonly props: JsonObject;
}

/**
 * The object that a body is given.
 * @param attempt how often this task was started, crashes of the agent included
 */
export function jobView(job: Job, data: JobData, attempt: number): JsonObject {
  const failure = job.phase === "chain" ? undefined : job.chain_results.at(-1)?.error;
  const fields = {
    ...(failure === undefined ? {} : { error: failure }),
    ...data.props,
    uuid: job.uuid,
    workflow: job.workflow_uuid,
    workflow_uuid: job.workflow_uuid,
    name: job.name,
    execution: job.execution,
    chain: job.chain,
    chain_results: job.chain_results,
    onerror: job.onerror,
    onerror_results: job.onerror_results,
    exec_after: job.exec_after,
    timeout: job.timeout,
    created_at: job.created_at,
    started: job.started_at === null ? null : Date.parse(job.started_at),
    params: data.params,
    attempt,
    ...(job.target === null ? {} : { target: job.target }),
  };
  // What was parsed from JSON; it crosses to the guest as text, so that nothing of it is shared.
  const view: unknown = fields;
  return view as JsonObject;
}

/** What is kept of the job object that a task left behind. */
export function jobData(left: JsonObject | null, before: JobData): JobData {
  if (left === null) return before;
  const engineOwned = Object.entries(before.props).filter(([key]) => ENGINE_FIELDS.has(key));
  const set = Object.entries(left).filter(([key]) => key !== "params" && !ENGINE_FIELDS.has(key));
  return {
    params: isJsonObject(left.params) ? left.params : before.params,
    // Entries, not assignment: a key named __proto__ must stay a key.
    props: Object.fromEntries([...engineOwned, ...set]),
  };
}

// The capability calls of one execution. A task that is killed leaves calls behind which are being
// cut off; what follows it, such as the undoing of a machine, must not overtake them.

/** Longest wait for calls that were told to stop. A host program is killed well within it. */
const SETTLE_MS_MAX = 30_000;

export interface TaskCalls {
  readonly perform: Perform;
  /** Waits until no call is under way any more. @returns whether that came true in time */
  settled(): Promise<boolean>;
}

/** Watches over the calls that go through `perform`. */
export function watchCalls(perform: Perform): TaskCalls {
  const underWay = new Set<Promise<unknown>>();
  return {
    perform: (name, args, signal) => {
      const call = perform(name, args, signal);
      const end = call.then(() => {}, () => {}).finally(() => underWay.delete(end));
      underWay.add(end);
      return call;
    },
    settled: async () => {
      if (underWay.size === 0) return true;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<false>((resolve) => {
        timer = setTimeout(() => resolve(false), SETTLE_MS_MAX);
      });
      const all = Promise.all(underWay).then(() => true as const);
      const inTime = await Promise.race([all, late]);
      clearTimeout(timer);
      return inTime;
    },
  };
}
