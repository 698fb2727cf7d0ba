// The data behind GET /agent/v1/host, config and doctor: facts and settings of this process, and readings of
// the managed host. Each reading has a deadline, is cached for a while, and never runs twice at once.

import type { Hono } from "hono";
import { type Config, RELOADED_SETTINGS, valueText } from "../config/settings.ts";
import { type ConfigLine, configLines, flagWords } from "../config/sources.ts";
import { AgentError } from "../domain/error.ts";
import type { HostUuid } from "../domain/id.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../domain/json.ts";
import { runCommand } from "../host/program.ts";
import { describeResult } from "../host/program_output.ts";
import type { Policy } from "../domain/policy.ts";
import { askNetworks, askPool, askSystem, type HostAnswer } from "../host/inventory.ts";
import type { Transport } from "../host/transport.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import type { HttpEnv } from "../http/context.ts";
import {
  agentRoutes,
  type AgentSources,
  type ShownDiagnosis,
  type ShownSetting,
} from "../http/routes/agent.ts";
import type { AgentFacts, MachineCounts } from "../domain/host.ts";
import { hostRoutes, type HostSources } from "../http/routes/host.ts";
import type { Meters } from "../metrics/meters.ts";
import { systemFreeBytes } from "../mirror/media/disk.ts";
import { keptReading, type Readable } from "../http/answer/kept_reading.ts";
import { runtimeVersion } from "../runtime/other_runtime.ts";
import { readBuildInfo, runtimeLabel, VERSION } from "../runtime/executable.ts";
import type { Runner } from "../runner/runner.ts";
import type { Store } from "../store/store.ts";
import type { AgentContext, Reloads } from "./context.ts";
import { guestsCheck } from "./walls.ts";
import { diskLook, type EmitHost, hostName, wallsLook, watchHost } from "./host.ts";
import {
  type MachineList,
  monitoringRoutes,
  openAgentReadiness,
  openMachineList,
} from "./monitoring.ts";

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
  /** This host among those of the store. */
  readonly hostUuid: HostUuid;
}

/**
 * The routes for monitoring, which share one list of machines. Only the disk, and the machines while events
 * are being read, are checked without a request.
 */
export function watchRoutes(
  context: AgentContext,
  meters: Meters,
  places: WatchPlaces,
): Hono<HttpEnv>[] {
  const { config, now } = context;
  const { store, policy, inForce, transport } = places;
  const machines = openMachineList(context, places.vmadm);
  const readiness = openAgentReadiness(context, { ...places, machines });
  const readings = openReadings(context, places, machines);
  const { stateDir: folder, emit, followed } = places;
  const disk = diskLook({ folder, freeBytes: systemFreeBytes, emit });
  context.opened("watch of the host", watchHost({ disk, machines, followed }));
  context.opened("watch of the walls", repeatedly(readings.walls, WALLS_FIRST_MS, WALLS_KEEP_MS));
  return [
    agentRoutes(openSelfDescription(context, inForce)),
    ...monitoringRoutes(context, meters, places, readiness),
    hostRoutes({
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
    }),
  ];
}

/** The versions of the build, read from a file once. */
function openFacts(
  { config, now }: { readonly config: Config; readonly now: AgentContext["now"] },
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
  { now, self, limits, log, config }: AgentContext,
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

// The settings, and the findings of the doctor. The doctor runs as a process of its own, as on the command
// line: it reads the whole database, and runs as the owner of the state folder.

const DOCTOR_KEEP_MS = 10_000;
/** Time limit of the doctor; enough for a host where several checks time out. */
const DOCTOR_DEADLINE_MS = 180_000;
/** Variables by which ssh finds the keys of the agent's user. */
const DOCTOR_VARIABLES = ["HOME", "PATH", "TMPDIR"] as const;

/** Where the agent's own pages come from. */
function openSelfDescription(
  { self, now }: Pick<AgentContext, "self" | "now">,
  inForce: Reloads["inForce"],
): AgentSources {
  const look = async (signal: AbortSignal) => {
    const words = ["doctor", "--json", ...flagWords(inForce().config)];
    const inherited = DOCTOR_VARIABLES.flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    const result = await runCommand(self.program, [...self.args, ...words], {
      env: { ...Object.fromEntries(inherited), ...self.env },
      deadlineMs: DOCTOR_DEADLINE_MS,
      signal,
    });
    const diagnoses = diagnosesIn(result.stdout) ?? unreadConfig(result.stderr);
    if (diagnoses !== undefined) return diagnoses;
    const message =
      `Cannot run the doctor: "zonewright doctor --json" ${describeResult(result)}, ` +
      "expected its findings as JSON";
    throw new AgentError("internal", message);
  };
  const clocks = { now, monotonicMs: () => performance.now() };
  return {
    settings: () => configLines(inForce().config).map(shownSetting),
    settingsWaiting: () => inForce().waiting,
    diagnoses: keptReading(
      { keepMs: DOCTOR_KEEP_MS, deadlineMs: DOCTOR_DEADLINE_MS, look },
      clocks,
    ),
  };
}

/** A JSON text; undefined for any other, which an error then shows. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** It exits 1 when something is broken, and has printed its findings. */
function diagnosesIn(stdout: string): readonly ShownDiagnosis[] | undefined {
  const printed = parsed(stdout);
  return Array.isArray(printed) && printed.every(isDiagnosis) ? printed : undefined;
}

/** The one finding of a doctor who could not read the configuration: the file has changed since the agent read it. */
function unreadConfig(stderr: string): readonly ShownDiagnosis[] | undefined {
  const found = parsed(stderr);
  if (!isJsonObject(found) || typeof found.message !== "string") return undefined;
  if (found.code !== "invalid_argument" && found.code !== "not_found") return undefined;
  return [{
    name: "config",
    outcome: "fail",
    detail: `${found.message}; the agent runs with the settings that it read before`,
    fix: "zonewright config check",
    repaired: false,
  }];
}

function isDiagnosis(value: unknown): value is ShownDiagnosis {
  return isJsonObject(value) && value.repaired === false &&
    [value.name, value.outcome, value.detail].every((text) => typeof text === "string");
}

function shownSetting({ name, row, setting }: ConfigLine): ShownSetting {
  const { origin, value } = setting;
  const text = valueText(row, value);
  const kept = row.table ?? row.key;
  return {
    name,
    // Every kind of setting reads JSON values.
    value: JSON.parse(JSON.stringify(value)) as JsonValue,
    text: text === "-" ? null : text,
    origin: origin.kind,
    source: origin.kind === "default" ? null : origin.kind === "file" ? origin.path : origin.name,
    meaning: row.meaning,
    reloads: RELOADED_SETTINGS.some((one) => one === kept),
  };
}
