// The store of the agent: its built-in workflows, meters for its writes, failpoints for tests, and
// the removal of old jobs.

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

/** Opens the store with its built-in workflows and counted writes. */
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
 * Limits of the built-in workflows. The operator's limits are for callers' workflows; the jobs of
 * built-in ones obey the limits on results and calls like all others.
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
    // The agent's own sources, read by a test.
    const builtin = readWorkflow(definition, uuid, newUuid, BUILTIN_LIMITS).accept([]);
    await store.workflows.putBuiltin(builtin, now());
  }
}

/** Counts the store's writes of jobs, from any part of the agent. */
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

/** How this write ended the job; undefined while it continues. */
function resultOf({ event, phase }: TaskRecord): JobResult | undefined {
  const { to, ends } = afterTask(heldIn(phase), event);
  const execution = executionOf(to);
  return ends && isFinal(execution) ? execution : undefined;
}
