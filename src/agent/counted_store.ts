// The store with meters beside it: what became of jobs is counted where it is written, once, whoever
// wrote it. Nothing waits for a meter.

import type { TaskRecord } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";
import type { JobResult, Meters } from "../metrics/meters.ts";

/** The same store; its writes of jobs move the meters. */
export function countedStore(store: Store, meters: Meters): Store {
  const { jobs } = store;
  const { jobsCreated } = meters;
  return {
    ...store,
    jobs: {
      ...jobs,
      create: async (job, unfinishedMax) => {
        const outcome = await jobs.create(job, unfinishedMax);
        if (outcome.kind === "created") jobsCreated.count += 1;
        return outcome;
      },
      retry: async (uuid, successor, unfinishedMax) => {
        const outcome = await jobs.retry(uuid, successor, unfinishedMax);
        if (outcome.kind === "created") jobsCreated.count += 1;
        return outcome;
      },
      recordTask: async (record) => {
        const owned = await jobs.recordTask(record);
        const result = owned ? resultOf(record) : undefined;
        if (result !== undefined) meters.jobs[result] += 1;
        if (result === "retried") jobsCreated.count += 1;
        if (owned && (result !== undefined || record.next.kind === "cancel_done")) {
          meters.told.jobEnded?.(record.job_uuid);
        }
        return owned;
      },
      cancel: async (uuid, now, showing) => {
        const outcome = await jobs.cancel(uuid, now, showing);
        if (outcome.kind === "changed") {
          meters.jobs.canceled += 1;
          meters.told.jobEnded?.(uuid);
        }
        return outcome;
      },
      resume: async (uuid, resume, now, showing) => {
        const outcome = await jobs.resume(uuid, resume, now, showing);
        if (outcome.kind === "changed") {
          const { execution } = outcome.job;
          if (execution === "succeeded" || execution === "failed") {
            meters.jobs[execution] += 1;
            meters.told.jobEnded?.(uuid);
          }
        }
        return outcome;
      },
    },
  };
}

/** How a job ended with this write; undefined while it goes on. */
function resultOf({ next }: TaskRecord): JobResult | undefined {
  switch (next.kind) {
    case "finished":
      return next.execution;
    case "retried":
    case "canceled":
      return next.kind;
    default:
      return undefined;
  }
}
