// The store of the agent with everything around it: the built-in workflows in it, meters that count its
// writes, points at which a test kills the agent, and the removal of what is old.

import { join } from "@std/path";
import { DATABASE_NAME } from "../state/state_dir.ts";
import { removeUnfinishedRestore } from "../state/database_restore.ts";
import { watchForDeath } from "../program/failpoint.ts";
import { openSyncJournal } from "../mirror/sync/sync.ts";
import { openRetention } from "../runner/retention.ts";
import { openSqliteStore } from "../store/sqlite/sqlite_store.ts";
import type { Store } from "../store/store.ts";
import { readWorkflow, type WorkflowLimits } from "../domain/job/workflow.ts";
import { FETCH_MEDIUM_WORKFLOW } from "../machines/workflows/fetch_medium.ts";
import { MACHINE_LIFE } from "../machines/workflows/machine_life.ts";
import { PROVISION_MACHINE } from "../machines/workflows/provision_machine.ts";
import type { JobResult, Meters } from "../metrics/meters.ts";
import { afterTask, executionOf, heldIn, isFinal } from "../domain/job/state.ts";
import type { TaskRecord } from "../store/job_store.ts";
import type { AgentContext } from "./context.ts";

/** The store, whose writes are counted, with the built-in workflows in it. */
export async function openWatchedStore(
  context: AgentContext,
  path: string,
  meters: Meters,
  broken: (error: unknown) => void,
): Promise<Store> {
  const store = countedStore(await openStore(context, path, broken), meters);
  await putBuiltinWorkflows(context, store);
  return store;
}

/**
 * Opens the store in the state folder.
 * @param broken called once when its disk has failed: the agent must end, and may be started again
 */
async function openStore(
  { config, log, now, opened, follow }: AgentContext,
  stateDir: string,
  broken: (error: unknown) => void,
): Promise<Store> {
  const committing = watchForDeath(config.failpoint.value, { dev: config.dev.value });
  const path = join(stateDir, DATABASE_NAME);
  removeUnfinishedRestore(path);
  const file = await openSqliteStore(path, {
    broken,
    ...(committing === undefined ? {} : { committing, migrating: committing }),
  });
  opened("store", () => file.close());
  const store: Store = { ...file, index: openSyncJournal(file.index) };
  const keeping = { seconds: config.keep_finished.value };
  follow(["keep_finished"], (next) => {
    keeping.seconds = next.keep_finished.value;
  });
  const retention = openRetention({
    store,
    keepSeconds: () => keeping.seconds,
    finishedMax: config.limits.finished_jobs_max.value,
    now,
    log,
  });
  opened("retention", () => retention.stop());
  return store;
}

/**
 * What the workflows of the agent itself keep to. The operator's limits are for what callers send; what
 * a job of these holds, returns and calls is under them like every other.
 */
const BUILTIN_LIMITS: WorkflowLimits = {
  tasksMax: 16,
  sourceCharsMax: 16 * 1024,
  retryMax: 16,
  timeoutSecondsMax: 86_400,
};

async function putBuiltinWorkflows({ newUuid, now }: AgentContext, store: Store): Promise<void> {
  for (
    const { uuid, definition } of [
      PROVISION_MACHINE,
      FETCH_MEDIUM_WORKFLOW,
      ...Object.values(MACHINE_LIFE),
    ]
  ) {
    // Its sources are the agent's own, and a test reads them.
    const builtin = readWorkflow(definition, uuid, newUuid, BUILTIN_LIMITS).accept([]);
    await store.workflows.putBuiltin(builtin, now());
  }
}

/** The same store; the meters count its writes of jobs, by whatever part of the agent. */
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
