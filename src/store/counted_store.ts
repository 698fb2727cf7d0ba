// A store that counts the writes of jobs in the meters, whichever module makes them.

import { afterTask, executionOf, heldIn, isFinal } from "../domain/job/state.ts";
import type { JobResult, Meters } from "../metrics/meters.ts";
import type { TaskRecord } from "./job_store.ts";
import type { Store } from "./store.ts";

/** Wraps a store so that its writes of jobs are counted. */
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
      order: async (order, rules) => {
        const outcome = await jobs.order(order, rules);
        if (outcome.kind === "created") jobsCreated.count += 1;
        return outcome;
      },
      retry: async (uuid, successor, unfinishedMax) => {
        const outcome = await jobs.retry(uuid, successor, unfinishedMax);
        if (outcome.kind === "created") jobsCreated.count += 1;
        return outcome;
      },
      recordTask: async (record, patient) => {
        const owned = await jobs.recordTask(record, patient);
        const result = owned ? resultOf(record) : undefined;
        if (result !== undefined) meters.jobs[result] += 1;
        if (result === "retried") jobsCreated.count += 1;
        return owned;
      },
      cancel: async (uuid, showing) => {
        const outcome = await jobs.cancel(uuid, showing);
        if (outcome.kind === "changed") meters.jobs.canceled += 1;
        return outcome;
      },
      resume: async (uuid, resume, showing, call) => {
        const outcome = await jobs.resume(uuid, resume, showing, call);
        if (outcome.kind === "changed") {
          const { execution } = outcome.job;
          if (execution === "succeeded" || execution === "failed") meters.jobs[execution] += 1;
        }
        return outcome;
      },
    },
  };
}

/** How this write ended the job; undefined while it continues. */
function resultOf({ event, phase }: TaskRecord): JobResult | undefined {
  const { to, ends } = afterTask(heldIn(phase), event);
  const execution = executionOf(to);
  return ends && isFinal(execution) ? execution : undefined;
}
