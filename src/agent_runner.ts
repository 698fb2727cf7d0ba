// The runner of the agent with what it runs on: guests, and the capabilities of their tasks.

import { openCapabilities } from "./capabilities/capabilities.ts";
import type { Config } from "./config.ts";
import type { JobUuid, NewUuid } from "./domain/id.ts";
import type { Now } from "./domain/instant.ts";
import { DEFAULT_POLICY } from "./domain/policy.ts";
import type { SelfCommand } from "./executable.ts";
import type { Transport } from "./host/transport.ts";
import type { Vmadm } from "./host/vmadm.ts";
import { CONVENTIONS } from "./http/compat.ts";
import type { Log } from "./log.ts";
import type { Mirror } from "./mirror/mirror.ts";
import { Runner } from "./runner/runner.ts";
import { watchCalls } from "./runner/task_calls.ts";
import { findGuestUser } from "./sandbox/guest_user.ts";
import { openPool } from "./sandbox/pool.ts";
import { runTask } from "./sandbox/run_task.ts";
import type { StateDir } from "./state_dir.ts";
import type { Store } from "./store/store.ts";

/** What every part of the agent is given. */
export interface Ground {
  readonly config: Config;
  readonly log: Log;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly self: SelfCommand;
  /** Names how a part is taken down again. */
  readonly opened: (name: string, close: () => void | Promise<void>) => void;
}

/** What tasks and their ends reach. */
export interface Rooms {
  readonly store: Store;
  readonly transport: Transport;
  readonly vmadm: Vmadm;
  readonly mirror: Mirror;
  /** Told that a job has changed. */
  readonly changed: (uuid: JobUuid) => void;
}

/** Starts the runner. Guests warm up while the agent listens; the first tasks wait for them. */
export async function openRunner(
  ground: Ground,
  rooms: Rooms,
  state: StateDir,
): Promise<Runner> {
  const { config, log, now, newUuid, self, opened } = ground;
  const user = await findGuestUser(self, log);
  const pool = await openPool({
    self,
    slots: config.slots.value,
    runtimeDir: state.path,
    log,
    ...(user === undefined ? {} : { user }),
  });
  opened("guests", () => pool.close());
  const performFor = openCapabilities({
    ...rooms,
    policy: DEFAULT_POLICY,
    mediaDirs: config.media_dirs.value,
    log,
    now,
  });
  const runner = new Runner({
    store: rooms.store,
    runner_id: state.runner_id,
    slots: config.slots.value,
    runTask: async (run, { job_uuid, task }, signal) => {
      const context = { job_uuid, task_name: task.name ?? task.uuid, signal };
      const calls = watchCalls(performFor(context));
      const outcome = await runTask(pool, run, calls.perform, signal);
      if (!await calls.settled()) log.error("calls not ended", { job_uuid, task: run.taskName });
      return outcome;
    },
    now,
    monotonicMs: () => performance.now(),
    newUuid,
    retryCountsFirst: CONVENTIONS[config.compat.value].retryCountsFirst,
    changed: rooms.changed,
    log,
  });
  await runner.start();
  return runner;
}
