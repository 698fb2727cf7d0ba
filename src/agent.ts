// Wires the rooms into one agent, and takes it down again in order. The only file that may import
// all of them; it decides nothing that a room could decide.

import { join } from "@std/path";
import { httpLimits } from "./agent_limits.ts";
import { type Ground, openRunner } from "./agent_runner.ts";
import type { Config } from "./config.ts";
import { AgentError, unreachable } from "./domain/error.ts";
import { type JobUuid, randomUuid } from "./domain/id.ts";
import { systemNow } from "./domain/instant.ts";
import { DEFAULT_POLICY } from "./domain/policy.ts";
import { parseWorkflow } from "./domain/workflow.ts";
import { selfCommand } from "./executable.ts";
import { powerOffSimulator } from "./host/simulated_host.ts";
import { localTransport, simulatedTransport, type Transport } from "./host/transport.ts";
import { openVmadm } from "./host/vmadm.ts";
import { createApp } from "./http/app.ts";
import { indexSyncRoutes } from "./http/index_sync.ts";
import { indexTreeRoutes } from "./http/index_tree.ts";
import { listen } from "./http/server.ts";
import type { Log } from "./log.ts";
import { Bells } from "./loop.ts";
import { type Mirror, openMirror } from "./mirror/mirror.ts";
import { syncRegularly } from "./mirror/sync_loop.ts";
import { takeStateDir } from "./state_dir.ts";
import { openSqliteStore } from "./store/sqlite/sqlite_store.ts";
import type { Store } from "./store/store.ts";
import { VERSION } from "./version.ts";
import { PROVISION_MACHINE } from "./workflows/provision_machine/workflow.ts";

/** Milliseconds that running tasks get to end by themselves when the agent stops. */
const DRAIN_MS = 10_000;

/** An agent that answers. */
export interface RunningAgent {
  /** Where it listens. */
  readonly urls: readonly string[];
  /** Settles when the agent has stopped. */
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
    const agent = await assemble(config, log, parts);
    log.info("agent started", { version: VERSION, urls: agent.urls.join(" "), pid: Deno.pid });
    const stopped = Promise.withResolvers<void>();
    let stopping: Promise<void> | undefined;
    const stop = (reason: string) =>
      stopping ??= (async () => {
        log.info("agent stopping", { reason });
        await closeAll(parts, log);
        log.info("agent stopped");
        stopped.resolve();
      })();
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
  config: Config,
  log: Log,
  parts: Closer[],
): Promise<{ urls: readonly string[] }> {
  const ground: Ground = {
    config,
    log,
    now: systemNow,
    newUuid: randomUuid,
    self: selfCommand(),
    opened: (name, close) => parts.push({ name, close }),
  };
  const state = await takeStateDir(config.state_dir.value);
  ground.opened("state folder", () => state.release());
  const store = await openSqliteStore(join(state.path, "zonewright.db"));
  ground.opened("store", () => store.close());
  const { uuid, definition } = PROVISION_MACHINE;
  const builtin = parseWorkflow(definition, uuid, ground.newUuid, httpLimits(config));
  await store.workflows.putBuiltin(builtin, ground.now());

  const transport = openTransport(ground, state.path);
  const vmadm = openVmadm(transport);
  const mirror = await openIndex(ground, store, state.path);
  const changes = new Bells<JobUuid>();
  const rooms = { store, transport, vmadm, mirror, changes };
  const runner = await openRunner(ground, rooms, state.path);
  ground.opened("runner", () => runner.stop(DRAIN_MS));
  const closing = new AbortController();
  const app = createApp({
    store,
    wake: () => runner.wake(),
    changes,
    cancelRunning: (uuid) => runner.cancelRunning(uuid),
    now: ground.now,
    newUuid: ground.newUuid,
    limits: httpLimits(config),
    wording: config.compat.value,
    log,
    machines: { vmadm, policy: DEFAULT_POLICY, provisionWorkflow: uuid },
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
  return { urls: server.urls };
}

function openTransport({ config, self, opened, log }: Ground, stateDir: string): Transport {
  const host = config.host.value;
  switch (host.kind) {
    case "local":
      return localTransport({ vmadm: config.vmadm.value, zonesRoot: config.zones.value });
    case "simulated": {
      const simulator = join(stateDir, "simulator");
      opened("simulated host", () => powerOffSimulator(self, simulator));
      log.warn("host simulated", { folder: simulator });
      return simulatedTransport({ self, stateDir: simulator });
    }
    case "ssh":
      throw new AgentError(
        "invalid_argument",
        `Cannot manage ${host.destination} over ssh: this version knows local and simulated hosts`,
      );
    default:
      return unreachable(host);
  }
}

/** The mirror, with the sample upstream behind it when a development agent was given none. */
async function openIndex(ground: Ground, store: Store, stateDir: string): Promise<Mirror> {
  const { config, log, now, opened } = ground;
  let upstream = config.index.value;
  const sample = config.dev.value && upstream === null;
  if (sample) {
    const { startSampleUpstream } = await import("./demo/upstream.ts");
    const started = await startSampleUpstream({ cacheDir: join(stateDir, "sample"), log });
    opened("sample upstream", () => started.close());
    upstream = started.url;
  }
  return openMirror({
    store: store.index,
    upstream,
    // The sample is served by this process, on a loopback address.
    allowHttp: config.allow_http_index.value || sample,
    cacheDir: join(stateDir, "media"),
    log,
    now,
    userAgent: `zonewright/${VERSION}`,
  });
}
