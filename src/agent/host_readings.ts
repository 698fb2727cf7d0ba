// The data behind GET /agent/v1/host: facts of this process, and readings of the managed host. Each reading has a
// deadline, is cached for a while, and never runs twice at the same time.

import type { Config } from "../config/settings.ts";
import { AgentError } from "../domain/error.ts";
import type { HostUuid } from "../domain/id.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Policy } from "../domain/policy.ts";
import { askPool, askSystem, type HostAnswer } from "../host/inventory.ts";
import { askNetworks } from "../host/machine_needs.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import type { AgentFacts, MachineCounts } from "../domain/host.ts";
import type { HostReadings } from "../http/app.ts";
import type { HostSources } from "../http/routes/host.ts";
import type { Meters } from "../metrics/meters.ts";
import { systemFreeBytes } from "../mirror/media/disk.ts";
import { keptReading, type Readable } from "../http/answer/cached_reading.ts";
import { runtimeVersion } from "../runtime/node.ts";
import {
  readBuildInfo,
  rememberProgramFile,
  runtimeLabel,
  VERSION,
} from "../runtime/executable.ts";
import type { Runner } from "../runner/runner.ts";
import type { GuestPool } from "../sandbox/pool.ts";
import type { Store } from "../store/store.ts";
import type { SharedParts } from "./shared_parts.ts";
import { openSelfDescription, type Reloads } from "./settings_in_force.ts";
import { guestsCheck } from "./walls.ts";
import { hostName } from "./host.ts";
import { diskLook, type EmitHost, wallsLook, watchHost } from "./watches.ts";
import { openAgentMetrics } from "./monitoring.ts";
import { type MachineList, openAgentReadiness, openMachineList } from "./readiness.ts";

const DEADLINE_MS = 5_000;
const ROOM_KEEP_MS = 5_000;
/** An unreachable host is asked again soon, milliseconds. */
const FAILED_KEEP_MS = 5_000;
/** Processors and memory do not change, and networks rarely. */
const SYSTEM_KEEP_MS = 60_000;
/** The walls depend on programs and permissions, which hardly change while the agent runs. */
const WALLS_KEEP_MS = 600_000;
/** Delay of the first check after the start, which has other work. */
const WALLS_FIRST_MS = 60_000;

interface WatchPlaces {
  readonly store: Store;
  readonly transport: Transport;
  readonly vmadm: Pick<Vmadm, "list">;
  readonly stateDir: string;
  readonly policy: Policy;
  readonly inForce: Reloads["inForce"];
  readonly emit: EmitHost;
  /** Counts the readers of events. */
  readonly followed: () => boolean;
  readonly runner: Pick<Runner, "admission">;
  readonly guests: Pick<GuestPool, "startProblem">;
  /** The uuid under which this host is registered in the store. */
  readonly hostUuid: HostUuid;
}

/**
 * The readings for monitoring, which share one list of machines. Only the disk, and the machines while events
 * are being read, are checked without a request.
 */
export function openHostReadings(
  context: SharedParts,
  meters: Meters,
  places: WatchPlaces,
): HostReadings {
  const { config, now } = context;
  const { store, policy, inForce, transport } = places;
  const machines = openMachineList(context, places.vmadm);
  const program = rememberProgramFile();
  const freeBytes = systemFreeBytes;
  const readiness = openAgentReadiness(context, { ...places, machines, program, freeBytes });
  const readings = openReadings(context, places, machines);
  const { stateDir: folder, emit, followed } = places;
  const disk = diskLook({ folder, freeBytes, emit });
  context.opened("watch of the host", watchHost({ disk, machines, followed }));
  context.opened("watch of the walls", repeatedly(readings.walls, WALLS_FIRST_MS, WALLS_KEEP_MS));
  return {
    self: openSelfDescription(context, inForce),
    metrics: openAgentMetrics(context, places, meters),
    readiness,
    host: {
      store,
      now,
      policy,
      readiness,
      facts: openFacts(context, transport.kind),
      slots: () => ({ total: config.slots.value, busy: meters.now.slotsBusy() }),
      index: () => ({
        upstream: config.index.value,
        interval_seconds: inForce().config.index_interval.value,
      }),
      cacheBytesMax: config.cache_max.value || null,
      settingsWaiting: () => inForce().waiting,
      settingsProblem: () => inForce().problem,
      readings,
    },
  };
}

/** The versions of the build, read from a file once. */
function openFacts(
  { config, now }: { readonly config: Config; readonly now: SharedParts["now"] },
  mode: Transport["kind"],
): () => Promise<AgentFacts> {
  const started_at = now();
  let facts: Promise<AgentFacts> | undefined;
  const read = async () => {
    const { commit, runtime } = await readBuildInfo();
    const { name, version } = runtimeVersion();
    return {
      name: hostName(config.host.value),
      mode,
      version: VERSION,
      commit,
      runtime: `${name} ${runtimeLabel(version, runtime)}`,
      target: Deno.build.target,
      pid: Deno.pid,
      started_at,
    };
  };
  return () => facts ??= read();
}

function openReadings(
  { now, self, limits, log, config }: SharedParts,
  { transport, stateDir, emit }: WatchPlaces,
  machines: MachineList,
): HostSources["readings"] {
  const clocks = { now, monotonicMs: () => performance.now() };
  const kept = <T>(keepMs: number, look: Readable<T>["look"]) =>
    keptReading<T>(
      { keepMs, keepFailedMs: FAILED_KEEP_MS, deadlineMs: DEADLINE_MS, look },
      clocks,
    );
  const walls = guestsCheck({
    self,
    user: config.guest_user.value,
    freshRealm: config.fresh_realm.value,
    limits,
    log,
  });
  const look = wallsLook(emit);
  return {
    system: kept(SYSTEM_KEEP_MS, async (signal) => said(await askSystem(transport, signal))),
    networks: kept(SYSTEM_KEEP_MS, async (signal) => {
      return said(await askNetworks(transport, signal)).map(({ tag }) => tag);
    }),
    pool: kept(ROOM_KEEP_MS, async (signal) => said(await askPool(transport, signal))),
    machines: async () => {
      const reading = await machines();
      return reading.error === null ? { ...reading, value: countsOf(reading.value) } : reading;
    },
    walls: kept(WALLS_KEEP_MS, async () => {
      const { parts, detail } = await walls.examine();
      if (parts === undefined) throw new AgentError("internal", detail);
      await look(parts);
      return parts;
    }),
    disk: kept(ROOM_KEEP_MS, async () => {
      const free = await systemFreeBytes(stateDir);
      return { folder: stateDir, free_bytes: Number.isFinite(free) ? free : null };
    }),
  };
}

/** Repeats a reading. @returns stops that, after the reading in progress */
function repeatedly(read: () => Promise<unknown>, firstMs: number, everyMs: number) {
  let reading: Promise<unknown> = Promise.resolve();
  let timer = setTimeout(again, firstMs);
  function again() {
    reading = read();
    timer = setTimeout(again, everyMs);
  }
  return async () => {
    clearTimeout(timer);
    await reading;
  };
}

/** The value of an answer. @throws {AgentError} `host` with the reason why there is none */
function said<T>(answer: HostAnswer<T>): T {
  if ("value" in answer) return answer.value;
  throw new AgentError("host", answer.unasked);
}

function countsOf(machines: readonly JsonObject[]): MachineCounts {
  const by_state: Record<string, number> = {};
  for (const { state } of machines) {
    const word = typeof state === "string" ? state : "unknown";
    by_state[word] = (by_state[word] ?? 0) + 1;
  }
  return { total: machines.length, by_state };
}
