// A simulated host with everything that capabilities need: real vmadm calls, a real store, real
// files, and the sample upstream where a test wants an index.

import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { openCapabilities } from "../../src/capabilities/capabilities.ts";
import type { CapabilityLimits } from "../../src/capabilities/capability.ts";
import type { TaskContext, TaskPerform } from "../../src/sandbox/task_calls.ts";
import { AGENT_PREFIX } from "../../src/domain/job/log_line.ts";
import type { JobUuid, MachineUuid } from "../../src/domain/id.ts";
import { type Now, systemNow } from "../../src/domain/instant.ts";
import { isJsonObject, type JsonObject } from "../../src/domain/json.ts";
import { DEFAULT_POLICY, type Policy } from "../../src/domain/policy.ts";
import { type SelfCommand } from "../../src/runtime/executable.ts";
import type { Timers } from "../../src/runtime/timers.ts";
import type { waitOrAbort } from "../../src/runtime/wait.ts";
import { runCommand } from "../../src/host/program.ts";
import { readDatasets } from "../../src/simulator/pool.ts";
import { outcomeOf } from "../../src/simulator/simulate.ts";
import { openState } from "../../src/simulator/host_folder.ts";
import { simulatedTransport, type Transport } from "../../src/host/transport.ts";
import { openVmadm, type Vmadm } from "../../src/host/vmadm/vmadm.ts";
import { type Log, openLog } from "../../src/metrics/log.ts";
import type { Decoders } from "../../src/decoder/pool.ts";
import { openTestDecoders } from "../support/decoders.ts";
import { type Mirror, openMirror } from "../../src/mirror/mirror.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../../src/store/store.ts";
import { NO_TOKEN } from "../mirror/test_mirror.ts";
import { TIME_LIMITS } from "../../src/mirror/web/time_limits.ts";
import { jobOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { isoBytes } from "../support/medium.ts";
import { selfOfRun } from "../support/agent_process.ts";
import { NO_LIMIT } from "../support/limits.ts";

const CALL_DEADLINE_MS = 60_000;
/** Faces of the simulator that are processes of their own here: a fault may end them. */
const PROCESSES: readonly string[] = ["vmadm", "zfs"];

export interface SimulatedHost {
  readonly folder: string;
  /** Where media may be taken from; it holds `install.iso`. */
  readonly mediaDir: string;
  readonly iso: string;
  readonly store: Store;
  readonly transport: Transport;
  readonly vmadm: Vmadm;
  readonly mirror: Mirror;
  readonly self: SelfCommand;
  readonly log: Log;
  readonly lines: string[];
  readonly performFor: (context: TaskContext) => TaskPerform;
  /** What tasks have placed in zones, bytes. */
  readonly mediaCounts: { readonly placed: number };
  /** Makes a job, and what a task of it may call. */
  newJob(number: number): Promise<{ uuid: JobUuid; perform: TaskPerform }>;
  /** Runs commands of the simulator, such as `fault`. */
  simulate(...args: string[]): Promise<{ code: number; stdout: string }>;
  /** Lets the installation of a zone take so long. */
  slowInstall(ms: number): Promise<void>;
  /** Lets a create wait so long with its volumes made and no zone yet. */
  slowVolumes(ms: number): Promise<void>;
  /** Lets a machine be ready so long before it runs. */
  slowBoot(ms: number): Promise<void>;
  /** Names of the datasets in the pool. */
  datasets(): Promise<string[]>;
  /** Fails unless the host holds exactly these machines, and nothing else. */
  assertHolds(...uuids: string[]): Promise<void>;
}

export interface HostOptions {
  /** The program that plays vmadm and the guests; this one from source when absent. */
  readonly self?: SelfCommand;
  readonly policy?: Policy;
  /** Address of an index to sync from. */
  readonly upstream?: string;
  readonly now?: Now;
  /** The folder of the store's file; that of the host unless given. */
  readonly storeDir?: string;
  /** The clock of the store; that of the system unless given. */
  readonly storeNow?: Now;
  /** The clock between two looks at a machine. */
  readonly wait?: typeof waitOrAbort;
  /** Where they are not those of an agent. */
  readonly limits?: Partial<CapabilityLimits>;
  /** The clock of deadlines. */
  readonly timers?: Timers;
}

export const ISO_BYTES = 300 * 1024;

/** Runs with a new host, and ends its machines and removes its folder whatever happens. */
export async function withHost(
  run: (host: SimulatedHost) => Promise<void>,
  options: HostOptions = {},
): Promise<void> {
  await withFolder(async (temporary) => {
    // Paths of a job's media must not depend on links in the system's temporary folder.
    const folder = await Deno.realPath(temporary);
    const store = await openSqliteStore(
      join(options.storeDir ?? folder, "store.db"),
      options.storeNow === undefined ? {} : { now: options.storeNow },
    );
    const decoders = openTestDecoders();
    const host = await openHost(folder, store, decoders, options);
    try {
      await run(host);
    } finally {
      await host.simulate("stop-all");
      await decoders.close();
      await store.close();
    }
  });
}

async function openHost(
  folder: string,
  store: Store,
  decoders: Decoders,
  { self = selfOfRun(), policy = DEFAULT_POLICY, upstream, now = systemNow, wait, ...bounds }:
    HostOptions,
): Promise<SimulatedHost> {
  const lines: string[] = [];
  const log = openLog({ level: "debug", format: "json", write: (line) => lines.push(line), now });
  const stateDir = join(folder, "host");
  const mediaDir = join(folder, "media");
  await Deno.mkdir(stateDir);
  await Deno.mkdir(mediaDir);
  const iso = join(mediaDir, "install.iso");
  await Deno.writeFile(iso, isoBytes(ISO_BYTES));
  const transport = simulatedTransport({ self, stateDir });
  const vmadm = openVmadm(transport, wait);
  const mirror = openMirror({
    store: store.index,
    media: store.media,
    images: store.images,
    decoders,
    upstream: upstream ?? null,
    indexToken: NO_TOKEN,
    allowHttp: true,
    cacheDir: join(folder, "cache"),
    log,
    now,
    times: TIME_LIMITS,
    userAgent: "zonewright/test",
  });
  const mediaCounts = { placed: 0 };
  const performFor = openCapabilities({
    mediaCounts,
    vmadm,
    transport,
    mirror,
    store,
    policy,
    mediaDirs: [mediaDir],
    slots: 1,
    log,
    now,
    ...bounds,
    limits: { ...DEFAULT_LIMITS, ...bounds?.limits },
  });
  const simulate = async (...args: string[]) => {
    const call = ["--state", stateDir, ...args];
    if (!PROCESSES.includes(args[0] ?? "")) return await outcomeOf(call);
    const words = [...self.args, "simulate", ...call];
    const options = { deadlineMs: CALL_DEADLINE_MS, env: { ...self.env } };
    return await runCommand(self.program, words, options);
  };
  return {
    folder,
    mediaDir,
    iso,
    store,
    transport,
    vmadm,
    mirror,
    self,
    log,
    lines,
    performFor,
    mediaCounts,
    simulate,
    async newJob(number) {
      const job = jobOf(number);
      await store.jobs.create(job, NO_LIMIT);
      const { signal } = new AbortController();
      return {
        uuid: job.uuid,
        perform: performFor({ job_uuid: job.uuid, task_name: "t", signal }),
      };
    },
    slowInstall: (ms) => delay(stateDir, "install", ms),
    slowVolumes: (ms) => delay(stateDir, "volumes", ms),
    slowBoot: (ms) => delay(stateDir, "boot", ms),
    async datasets() {
      return (await readDatasets(await openState(stateDir))).map(({ name }) => name);
    },
    async assertHolds(...uuids) {
      const { stdout } = await simulate("audit");
      assertEquals(JSON.parse(stdout), { leftovers: [] });
      const machines = await vmadm.list();
      assertEquals(machines.map(({ uuid }) => uuid).sort(), uuids.toSorted());
    },
  };
}

async function delay(stateDir: string, phase: string, ms: number): Promise<void> {
  const file = join(stateDir, "host.json");
  const facts = JSON.parse(await Deno.readTextFile(file));
  facts.delays[phase] = ms;
  // In one step: a phase that lasts reads it again.
  await Deno.writeTextFile(`${file}.new`, JSON.stringify(facts));
  await Deno.rename(`${file}.new`, file);
}

/** What tasks have written into the info of a job, without what the agent adds: progress and calls. */
export async function notesOf(store: Store, job: JobUuid): Promise<JsonObject[]> {
  return (await store.info.list(job) ?? []).filter((entry) =>
    !isJsonObject(entry.progress) && !isOfAgent(entry)
  );
}

/** What the agent has written about the calls of a job. */
export async function callsOf(store: Store, job: JobUuid): Promise<JsonObject[]> {
  return (await store.info.list(job) ?? []).filter(isOfAgent);
}

function isOfAgent(entry: JsonObject): boolean {
  return Object.keys(entry).some((name) => name.startsWith(AGENT_PREFIX));
}

/** A uuid for a machine that ends in a number. */
export function machineUuidOf(number: number): MachineUuid {
  // The text has the form of a uuid, which is what the brand stands for.
  return `aaaaaaaa-0000-4000-8000-${String(number).padStart(12, "0")}` as MachineUuid;
}
