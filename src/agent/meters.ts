// The meters of the agent at the places where they turn.

import { afterTask, executionOf, heldIn, isFinal } from "../domain/job/state.ts";
import { isJsonObject } from "../domain/json.ts";
import type { ConsoleStream, MachineReader } from "../http/context.ts";
import type { JobResult, Meters } from "../metrics/meters.ts";
import type { Perform } from "../sandbox/run_task.ts";
import type { TaskRecord } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";

/** What a task calls, with the bytes that it places counted. */
export function countedPerform(perform: Perform, meters: Meters | undefined): Perform {
  if (meters === undefined) return perform;
  return async (name, args, signal) => {
    const result = await perform(name, args, signal);
    if (name === "media.place" && isJsonObject(result) && typeof result.size === "number") {
      meters.media.placed += result.size;
    }
    return result;
  };
}

/** The reading side of vmadm, with the consoles that are open over it counted. */
export function countedConsoles(vmadm: MachineReader, { consoles }: Meters): MachineReader {
  return {
    ...vmadm,
    async connectVnc(address, options): Promise<ConsoleStream> {
      const stream = await vmadm.connectVnc(address, options);
      consoles.open += 1;
      consoles.opened += 1;
      let open = true;
      return {
        greeting: stream.greeting,
        read: (buffer) => stream.read(buffer),
        write: (bytes) => stream.write(bytes),
        close() {
          if (open) consoles.open -= 1;
          open = false;
          stream.close();
        },
      };
    },
  };
}

// The store with meters beside it: what became of jobs is counted where it is written, once, whoever
// wrote it. Nothing waits for a meter.

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
        return owned;
      },
      cancel: async (uuid, now, showing) => {
        const outcome = await jobs.cancel(uuid, now, showing);
        if (outcome.kind === "changed") meters.jobs.canceled += 1;
        return outcome;
      },
      resume: async (uuid, resume, now, showing) => {
        const outcome = await jobs.resume(uuid, resume, now, showing);
        if (outcome.kind === "changed") {
          const { execution } = outcome.job;
          if (execution === "succeeded" || execution === "failed") meters.jobs[execution] += 1;
        }
        return outcome;
      },
    },
  };
}

/** How a job ended with this write; undefined while it goes on. */
function resultOf({ event, phase }: TaskRecord): JobResult | undefined {
  const { to, ends } = afterTask(heldIn(phase), event);
  const execution = executionOf(to);
  return ends && isFinal(execution) ? execution : undefined;
}
