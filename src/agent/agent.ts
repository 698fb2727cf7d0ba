// Wires the parts into one agent, and closes them in order. Only this folder and trial/ may import all of
// them; it decides nothing that a part could decide.

import { nicsOf, requireNetworks, requirePoolRoom } from "../host/machine_needs.ts";
import { type Callbacks, openCallbacks } from "../runner/callbacks.ts";
import { openGuests, openPolicy, openRunner, withDecoders } from "./runner.ts";
import { openAccess } from "./access.ts";
import { openAgentPeers } from "./peers.ts";
import { openEmitter, openWatchedStore } from "./store.ts";
import { chooseSimulatedEngine, countedConsoles, openTransport, warnOfMissing } from "./host.ts";
import { type EmitHost, withSeenStates } from "./watches.ts";
import { openAgentLibrary, openIndex, openMediaFolders, syncRegularly } from "./mirror.ts";
import { takeStateDir } from "../state_dir/state_dir.ts";
import { openHostReadings } from "./host_readings.ts";
import type { Config } from "../config/settings.ts";
import { openMemoryBudget } from "../domain/memory_budget.ts";
import { AgentError, messageOf } from "../domain/error.ts";
import { hostEvent } from "../domain/event.ts";
import { type JobUuid, randomUuid } from "../domain/id.ts";
import { systemNow } from "../domain/instant.ts";
import { selfCommand, VERSION } from "../runtime/executable.ts";
import { guardedTransport, type Transport } from "../host/transport.ts";
import { openVmadm, type Vmadm, withReadTurns } from "../host/vmadm/vmadm.ts";
import { createAgentApp } from "../http/app.ts";
import { listen } from "../http/server.ts";
import type { Log } from "../metrics/log.ts";
import { Notifiers } from "../runtime/notifier.ts";
import type { MachineAccess } from "../http/machine_access.ts";
import { type Meters, openMeters } from "../metrics/meters.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { openLeftovers } from "../machines/leftovers.ts";
import type { Policy } from "../domain/policy.ts";
import { openRetention } from "../runner/retention.ts";
import type { Runner } from "../runner/runner.ts";
import type { JobStore } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";
import {
  agentLimits,
  closeAll,
  type Closer,
  type EarlyParts,
  type SharedParts,
} from "./shared_parts.ts";
import { openReloads, type ReloadReport, type Reloads } from "./settings_in_force.ts";
import { PROVISION_MACHINE } from "../machines/workflows/provision_machine.ts";

/** Time for running tasks to end by themselves when the agent stops, milliseconds. */
const DRAIN_MS = 10_000;
/** Time for answers and their callers then, milliseconds. */
const ANSWERS_MS = 5_000;
/** Time for one part of the agent to close, draining included, milliseconds; the service manager waits twice as long. */
const CLOSE_MS = 30_000;

/** What the process may do with an agent that has started. */
export interface RunningAgent {
  /** Addresses it listens on, with the port that the system chose for 0. */
  readonly urls: readonly string[];
  /** Settles when the agent has stopped; rejects immediately when it cannot continue. */
  readonly done: Promise<void>;
  /** Applies a changed configuration, as far as possible without a restart. */
  reload(read: () => Promise<Config>): Promise<ReloadReport>;
  /** Stops in order: no new work, running tasks finish, then everything closes. */
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
    const listening = Promise.withResolvers<void>();
    let stopping: Promise<void> | undefined;
    const assembled: { agent?: Assembled } = {};
    const stop = (reason: string) =>
      stopping ??= (async () => {
        log.info("agent stopping", { reason });
        await assembled.agent?.emit("draining", reason);
        await closeAll(parts, log, CLOSE_MS);
        log.info("agent stopped");
        stopped.resolve();
      })();
    const broken = (error: unknown) => stopped.reject(endOf(error, log));
    // The caller may not await it.
    stopped.promise.catch(() => {});
    const opened = (name: string, close: Closer["close"]) => parts.push({ name, close });
    const reloads = openReloads(config);
    const { follow, reload, inForce } = reloads;
    // Reloading the configuration also sets the log level.
    follow(["log_level"], () => {});
    const agent = await assemble(
      {
        config,
        limits: agentLimits(config),
        log,
        now: systemNow,
        newUuid: randomUuid,
        self: selfCommand(),
        budget: openMemoryBudget(),
        listening: listening.promise,
        opened,
        follow,
      },
      inForce,
      broken,
    );
    log.info("agent started", { version: VERSION, urls: agent.urls.join(" "), pid: Deno.pid });
    listening.resolve();
    assembled.agent = agent;
    const { urls, refresh, emit } = agent;
    await emit("started", `version ${VERSION}`);
    const reloadAll = async (read: () => Promise<Config>) => {
      const report = await reload(read, refresh);
      await emit("settings_reloaded", report.applied.join(", "));
      return report;
    };
    return { urls, done: stopped.promise, reload: reloadAll, stop };
  } catch (error) {
    await closeAll(parts, log, CLOSE_MS);
    throw error;
  }
}

/** The error with which an agent ends after its store has failed. */
function endOf(error: unknown, log: Log): AgentError {
  // It has an exit code of its own, because a restart does not help.
  if (error instanceof AgentError && error.code === "other_schema") {
    log.error("database of another version", { error });
    return error;
  }
  if (error instanceof AgentError && error.code === "conflict") {
    log.error("host of another agent", { error });
    return error;
  }
  const message = `Cannot continue: the disk of the store failed: ${messageOf(error)}`;
  log.error("store broken", { error });
  // What is on the disk is unknown: only a new process reads it again.
  return new AgentError("internal", message, { cause: error });
}

interface Assembled {
  readonly urls: readonly string[];
  readonly refresh: (next: Config) => Promise<void>;
  readonly emit: EmitHost;
}

async function assemble(
  started: EarlyParts,
  inForce: Reloads["inForce"],
  broken: (error: unknown) => void,
): Promise<Assembled> {
  const { config, log } = started;
  const state = await takeStateDir(config.state_dir.value, started.newUuid);
  started.opened("state folder", () => state.release());
  const meters = openMeters(started.log.leftOut);
  const context = await withDecoders(started, { meters, stateDir: state.path });
  const guests = openGuests(context, state);
  const opened = await openWatchedStore(context, state, meters, broken);
  const { store, followed, admission, own, key, refusal } = opened;
  const emit = openEmitter(store, log);
  const emitHost: EmitHost = (change, detail) => emit(hostEvent(own.uuid, change, detail));
  const { transport, guard } = guardedTransport(await openHost(context, state.path));
  const seen = withSeenStates(openVmadm(transport), emit);
  const { vmadm, peers } = await openAgentPeers(context, store, { own, key, vmadm: seen });
  const folders = openMediaFolders(context, state.path);
  const mirror = await openIndex(context, store, state.path, folders.all, { emit, meters });
  const changes = openChanges(store.jobs, openAgentCallbacks(context, store));
  const rooms = { store, transport, vmadm, mirror, mediaDirs: folders.all, admission };
  const counted = { ...context, meters };
  const runner = await openRunner(counted, { ...rooms, guard, refusal }, state, guests);
  context.opened("runner", () => runner.stop(DRAIN_MS));
  removeLeftovers(context, store, vmadm, transport.host, runner);
  const gate = await openAccess(context, state.path, meters);
  const [policy, closing, hostUuid] = [openPolicy(context), new AbortController(), own.uuid];
  const running = { runner, guests: await guests };
  const watched = { inForce, stateDir: state.path, emit: emitHost, hostUuid, followed, ...running };
  const readings = openHostReadings(context, meters, { ...rooms, policy, ...watched });
  const app = createAgentApp({
    ...context,
    access: gate.access,
    auditTrail: gate.auditTrail,
    store,
    changes,
    checkSources: context.sources.acceptable,
    wording: config.compat.value,
    peers,
    machines: openMachineAccess({ ...rooms, config, policy, meters, name: own.name }),
    hostUuid,
    mediaFiles: mirror.files,
    library: openAgentLibrary(context, store, mirror, folders, emit),
    allowedHosts: gate.allowedHosts,
    requests: meters,
    closing: closing.signal,
  }, { mirror, readings });
  const server = await listen(app, { ...gate.listening, log });
  context.opened("http", () => stopTogether(closing, server, runner));
  beginBackground(context, store, mirror);
  return { urls: server.urls, refresh: (next) => gate.refresh(next, server), emit: emitHost };
}

/** Stops both together: the runner must not claim any more jobs while callers still read their answers. */
async function stopTogether(
  closing: AbortController,
  server: { shutdown(graceMs: number): Promise<void> },
  runner: { stop(drainMs: number): Promise<void> },
): Promise<void> {
  closing.abort();
  await Promise.all([server.shutdown(ANSWERS_MS), runner.stop(DRAIN_MS)]);
}

/** Reports changed jobs to waiting requests and to callbacks. */
function openChanges(
  jobs: Pick<JobStore, "follow" | "watch">,
  callbacks: { wake(): void },
): Pick<Notifiers<JobUuid>, "listen"> {
  const notifiers = new Notifiers<JobUuid>();
  jobs.follow((notice) => {
    if (notice.kind === "callback") callbacks.wake();
    if (notice.kind !== "changed") return;
    if (notice.job_uuid === undefined) notifiers.notifyAll();
    else notifiers.notify(notice.job_uuid);
  });
  return {
    listen(uuid: JobUuid) {
      const [listener, unwatch] = [notifiers.listen(uuid), jobs.watch()];
      return {
        wait: listener.wait,
        [Symbol.dispose]: () => {
          listener[Symbol.dispose]();
          unwatch();
        },
      };
    },
  };
}

/** Starts sending callbacks for finished jobs, as far as the configuration allows them. */
function openAgentCallbacks(
  { config, now, log, opened, budget }: SharedParts,
  store: Store,
): Pick<Callbacks, "wake"> {
  const hosts = config.callback_host.value;
  const callbacks = openCallbacks({
    store,
    hosts,
    wording: config.compat.value,
    fetch,
    userAgent: `zonewright/${VERSION}`,
    now,
    log,
    budget,
  });
  opened("callbacks", () => callbacks.stop());
  // Without allowed hosts there is nothing to send sooner.
  return { wake: hosts.length === 0 ? () => {} : () => callbacks.wake() };
}

/** What requests may do with machines. They have limits of their own, because callers must not delay tasks. */
function openMachineAccess(
  { config, policy, name, transport, vmadm, mirror: media, meters }: {
    readonly config: Config;
    readonly policy: Policy;
    readonly name: string;
    readonly transport: Transport;
    readonly vmadm: Vmadm;
    readonly mirror: Mirror;
    readonly meters: Meters;
  },
): MachineAccess {
  const inTurn = withReadTurns(vmadm, config.slots.value);
  return {
    vmadm: countedConsoles(inTurn, meters),
    policy,
    media,
    host: name,
    payloadChecks: [
      (payload) => inTurn.validateCreate(payload).then(() => []),
      (payload) => requireNetworks(transport, nicsOf(payload, "machine")),
      (payload) => requirePoolRoom(transport, payload, "machine"),
    ],
  };
}

/** Opens the transport, after warning of what the host lacks. */
async function openHost(context: SharedParts, path: string): Promise<Transport> {
  await warnOfMissing(context);
  await chooseSimulatedEngine(context, path);
  return openTransport(context, path);
}

/** Starts removing what failed jobs left on the host. */
function removeLeftovers(
  { log, opened }: SharedParts,
  store: Store,
  host: Vmadm,
  hostName: string,
  runner: Pick<Runner, "admission">,
): void {
  const workflow = PROVISION_MACHINE.uuid;
  const admitted = () => runner.admission !== "forgotten";
  const leftovers = openLeftovers({ store, host, hostName, workflow, log }, admitted);
  opened("leftovers", () => leftovers.stop());
}

/**
 * Starts background work once the agent listens: a warm decoder, the removal of old jobs, and regular syncs of
 * the index at the configured interval.
 */
function beginBackground(context: SharedParts, store: Store, mirror: Mirror): void {
  const { config, log, opened, follow, decoders } = context;
  decoders.warm();
  let keepSeconds = config.keep_finished.value;
  follow(["keep_finished"], (next) => void (keepSeconds = next.keep_finished.value));
  const finishedMax = config.limits.finished_jobs_max.value;
  const retention = openRetention({ store, keepSeconds: () => keepSeconds, finishedMax, log });
  opened("retention", () => retention.stop());
  let syncing = syncRegularly(mirror, config.index_interval.value, log);
  opened("index sync", () => syncing.stop());
  follow(["index_interval"], async (next) => {
    await syncing.stop();
    syncing = syncRegularly(mirror, next.index_interval.value, log);
  });
}
