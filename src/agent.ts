// Wires the rooms into one agent, and takes it down again in order. The only file that may import
// all of them; it decides nothing that a room could decide.

import { openAgentCallbacks } from "./agent_callbacks.ts";
import { openTransport, warnOfMissing } from "./agent_host.ts";
import { openIndex } from "./agent_index.ts";
import { httpLimits } from "./agent_limits.ts";
import { type Ground, openRunner } from "./agent_runner.ts";
import { openStore } from "./agent_store.ts";
import type { Config } from "./config.ts";
import { AgentError, messageOf } from "./domain/error.ts";
import { type JobUuid, randomUuid } from "./domain/id.ts";
import { systemNow } from "./domain/instant.ts";
import { DEFAULT_POLICY } from "./domain/policy.ts";
import { parseWorkflow } from "./domain/workflow.ts";
import { selfCommand } from "./executable.ts";
import { openVmadm } from "./host/vmadm.ts";
import { createApp } from "./http/app.ts";
import { indexSyncRoutes } from "./http/index_sync.ts";
import { indexTreeRoutes } from "./http/index_tree.ts";
import { listen } from "./http/server.ts";
import type { Log } from "./log.ts";
import { Bells } from "./loop.ts";
import { syncRegularly } from "./mirror/sync_loop.ts";
import { takeStateDir } from "./state_dir.ts";
import type { Store } from "./store/store.ts";
import { VERSION } from "./version.ts";
import { PROVISION_MACHINE } from "./workflows/provision_machine/workflow.ts";

/** Milliseconds that running tasks get to end by themselves when the agent stops. */
const DRAIN_MS = 10_000;

/** An agent that answers. */
export interface RunningAgent {
  /** Where it listens. */
  readonly urls: readonly string[];
  /** Settles when the agent has stopped; rejects at once when it cannot go on. */
  readonly done: Promise<void>;
  /** Stops in order: no new work, running tasks to their end, then everything is closed. */
  stop(reason: string): Promise<void>;
}

/**
 * Starts an agent. It listens as soon as its store is open; guests and the index follow.
 * @throws {AgentError} `conflict` when another agent uses the state folder
 */
export async function startAgent(config: Config, { log }: { log: Log }): Promise<RunningAgent> {
  const parts: Closer[] = [];
  try {
    const stopped = Promise.withResolvers<void>();
    let stopping: Promise<void> | undefined;
    const stop = (reason: string) =>
      stopping ??= (async () => {
        log.info("agent stopping", { reason });
        await closeAll(parts, log);
        log.info("agent stopped");
        stopped.resolve();
      })();
    const broken = (error: unknown) => {
      const message = `Cannot go on: the disk of the store failed: ${messageOf(error)}`;
      log.error("store broken", { error });
      // Nobody knows what the disk holds: only a new process reads it again.
      stopped.reject(new AgentError("internal", message, { cause: error }));
    };
    // Whoever runs the agent hears of it, if anybody does.
    stopped.promise.catch(() => {});
    const opened = (name: string, close: Closer["close"]) => parts.push({ name, close });
    const agent = await assemble(
      { config, log, now: systemNow, newUuid: randomUuid, self: selfCommand(), opened },
      broken,
    );
    log.info("agent started", { version: VERSION, urls: agent.urls.join(" "), pid: Deno.pid });
    return { urls: agent.urls, done: stopped.promise, stop };
  } catch (error) {
    await closeAll(parts, log);
    throw error;
  }
}

/** How one part is taken down; parts are closed in the opposite order of their opening. */
interface Closer {
  readonly name: string;
  readonly close: () => void | Promise<void>;
}

async function closeAll(parts: Closer[], log: Log): Promise<void> {
  for (const { name, close } of parts.reverse()) {
    try {
      await close();
    } catch (error) {
      log.error("part not closed", { part: name, error });
    }
  }
}

async function assemble(
  ground: Ground,
  broken: (error: unknown) => void,
): Promise<{ urls: readonly string[] }> {
  const { config, log } = ground;
  const state = await takeStateDir(config.state_dir.value, ground.newUuid);
  ground.opened("state folder", () => state.release());
  const store = await openStore(ground, state.path, broken);
  await putBuiltinWorkflows(ground, store);
  await warnOfMissing(ground);
  const transport = openTransport(ground, state.path);
  const vmadm = openVmadm(transport);
  const mirror = await openIndex(ground, store, state.path);
  const callbacks = openAgentCallbacks(ground, store);
  const changes = new Bells<JobUuid>();
  const changed = (uuid: JobUuid) => {
    changes.ring(uuid);
    callbacks.wake();
  };
  const rooms = { store, transport, vmadm, mirror, changed };
  const runner = await openRunner(ground, rooms, state);
  ground.opened("runner", () => runner.stop(DRAIN_MS));
  const closing = new AbortController();
  const app = createApp({
    store,
    wake: () => runner.wake(),
    changes,
    changed,
    cancelRunning: (uuid) => runner.cancelRunning(uuid),
    now: ground.now,
    newUuid: ground.newUuid,
    limits: httpLimits(config),
    wording: config.compat.value,
    log,
    machines: { vmadm, policy: DEFAULT_POLICY, provisionWorkflow: PROVISION_MACHINE.uuid },
    allowedHosts: config.allowed_hosts.value,
    routes: [
      indexTreeRoutes({ index: store.index, generation: () => mirror.generation, now: ground.now }),
      indexSyncRoutes({ index: store.index, mirror, log }),
    ],
    closing: closing.signal,
  });
  const server = await listen(app, {
    tcp: config.listen.value,
    socketPath: config.socket.value,
    log,
  });
  ground.opened("http", async () => {
    closing.abort();
    // At the same time: the runner must claim nothing more while callers take their answers.
    await Promise.all([server.shutdown(), runner.stop(DRAIN_MS)]);
  });
  const syncing = syncRegularly(mirror, config.index_interval.value, log);
  ground.opened("index sync", () => syncing.stop());
  return server;
}

async function putBuiltinWorkflows({ config, newUuid, now }: Ground, store: Store): Promise<void> {
  const { uuid, definition } = PROVISION_MACHINE;
  const builtin = parseWorkflow(definition, uuid, newUuid, httpLimits(config));
  await store.workflows.putBuiltin(builtin, now());
}
