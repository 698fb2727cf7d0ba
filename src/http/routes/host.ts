// GET /agent/v1/host: the agent and its host at a glance, for `zonewright status` and the console. Values
// from the host are readings, each with its time or its error.

import {
  COUNT,
  INSTANT,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  orNull,
  type Shape,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
  wordOf,
} from "../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import {
  AGENT_FACTS,
  type AgentFacts,
  BYTES,
  DISK_ROOM,
  type DiskRoom,
  HOST_HARDWARE,
  HOST_POOL,
  type HostHardware,
  type HostPool,
  MACHINE_COUNTS,
  type MachineCounts,
  WALL,
  type Wall,
} from "../../domain/host.ts";
import {
  HOUR_MS,
  type Instant,
  instantAfter,
  MS_PER_SECOND,
  msBetween,
} from "../../domain/instant.ts";
import { STATS_WINDOWS } from "../../domain/job/job.ts";
import type { Execution } from "../../domain/job/state.ts";
import { SUMMARY_FIELDS, summaryOnWire } from "../../domain/job/summary.ts";
import type { JsonObject } from "../../domain/json.ts";
import { DEFAULT_POLICY, type Policy, policyOnWire } from "../../domain/policy.ts";
import { type KeptRead, type KeptReading, openKeptReads } from "../answer/cached_reading.ts";
import { setAge } from "../answer/text_answer.ts";
import type { IndexSync } from "../../store/store.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { seesSecrets } from "../caller.ts";
import { PAGE_MAX } from "../request/query.ts";
import { WARNING, warningsOf } from "./host_warnings.ts";
import type { ReadinessReport } from "./monitoring.ts";

/** Hours over which failed jobs are counted. */
const DAY_HOURS = 24;
const FAILED_SHOWN = 5;

/** A reading: its value, or the error. */
function reading<T>(
  description: string,
  value: Shape<T>,
): Shape<{ read_at: Instant; error: string | null; value: T | null }> {
  return whole(description, {
    read_at: { ...INSTANT, description: "When it was read, or the attempt failed." },
    error: { ...NULLABLE_TEXT, description: "Why it could not be read; null if it was." },
    value: orNull(value),
  });
}

const SETTING = { ...COUNT, description: "As the setting of this name." };
const POLICY: Shape<Readonly<Record<string, unknown>>> = whole(
  "The policy in force, by its settings.",
  Object.fromEntries(
    Object.entries(policyOnWire(DEFAULT_POLICY)).map(([name, value]): [string, JsonObject] => [
      name,
      Array.isArray(value) ? listOf(TEXT) : typeof value === "string" ? TEXT : SETTING,
    ]),
  ),
);

const { uuid, name, task, error, machine, finished_at } = SUMMARY_FIELDS;
const FAILED_JOB = whole("A job that failed.", { uuid, name, task, error, machine, finished_at });

const READINGS = {
  system: reading("What the host is made of, by `sysinfo`.", HOST_HARDWARE),
  pool: reading("Space in the pool of the machines, by `zfs`.", HOST_POOL),
  networks: reading("Networks of the host, which nics call their `nic_tag`.", listOf(TEXT)),
  machines: reading("Machines of the host, by `vmadm`.", MACHINE_COUNTS),
  walls: reading(
    "Walls around tasks, as a guest started for this has them.",
    listOf(shapeRef("Wall", WALL)),
  ),
  disk: reading("The disk of the state folder.", DISK_ROOM),
};

/** The answer to GET /agent/v1/host. */
export const HOST_PAGE = whole("The agent and its host on one page.", {
  ...AGENT_FACTS,
  time: { ...INSTANT, description: "The agent's clock." },
  warnings: {
    ...listOf(WARNING),
    description: "Usually none.",
  },
  slots: whole("Jobs that may run at the same time, and those running now.", {
    total: COUNT,
    busy: COUNT,
  }),
  jobs: orNull(whole("Unfinished jobs, and those that failed.", {
    queued: COUNT,
    running: COUNT,
    waiting: COUNT,
    failed_24h: {
      ...COUNT,
      description: "Failed in the last 24 hours, counted from the full hour before.",
    },
    last_failed: { ...listOf(FAILED_JOB), description: "The newest 5." },
  })),
  ...READINGS,
  brands: { ...listOf(TEXT), description: "Brands that the policy allows." },
  policy: POLICY,
  index: whole("The image index.", {
    upstream: NULLABLE_TEXT,
    interval_seconds: { ...COUNT, description: "Between two syncs; 0 for none." },
    compared_at: { ...NULLABLE_INSTANT, description: "With its upstream." },
    age_seconds: NULLABLE_COUNT,
    outcome: orNull(wordOf(["complete", "partial", "failed"])),
    problems: { ...COUNT, description: "Documents that the last sync refused or could not reach." },
  }),
  cache: whole("Downloaded media.", {
    bytes: BYTES,
    max_bytes: { ...NULLABLE_COUNT, description: "Null without a limit." },
  }),
  store: whole("The database.", {
    bytes: BYTES,
    free_bytes: { ...COUNT, description: "Empty space in it, which is used first." },
  }),
  leftovers: {
    ...NULLABLE_COUNT,
    description:
      "Machines of failed jobs that are not yet removed, on any host; null as `jobs` while a shared database is away and " +
      "they were not read before.",
  },
  settings_waiting: {
    ...listOf(TEXT),
    description: "Settings whose new value waits for a restart.",
  },
});

type HostPage = ShapeOf<typeof HOST_PAGE>;

/** Where the parts of the overview come from. */
export interface HostSources extends Pick<ServedAgent, "store" | "now"> {
  readonly facts: () => Promise<AgentFacts>;
  readonly slots: () => { readonly total: number; readonly busy: number };
  readonly policy: Policy;
  /** The configured upstream, and the seconds between syncs; 0 for none. */
  readonly index: () => { readonly upstream: string | null; readonly interval_seconds: number };
  /** Null when there is no limit. */
  readonly cacheBytesMax: number | null;
  /** Names of settings whose new value takes effect at the next restart. */
  readonly settingsWaiting: () => readonly string[];
  /** Why the last reload of the settings failed; null if it did not. */
  readonly settingsProblem: () => string | null;
  readonly readiness: () => Promise<ReadinessReport>;
  readonly readings: {
    readonly system: () => Promise<KeptReading<HostHardware>>;
    readonly pool: () => Promise<KeptReading<HostPool>>;
    readonly networks: () => Promise<KeptReading<readonly string[]>>;
    readonly machines: () => Promise<KeptReading<MachineCounts>>;
    readonly walls: () => Promise<KeptReading<readonly Wall[]>>;
    readonly disk: () => Promise<KeptReading<DiskRoom>>;
  };
}

/** The route of the host's page. @see docs/operations.md, The host at a glance */
export function hostRoutes(sources: HostSources): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  const readKept = openKeptReads<Stored>(() => performance.now());
  app.get("/agent/v1/host", async (c) => {
    c.header("cache-control", "no-store");
    // Callers who may not see params get other texts.
    const kind = seesSecrets(c.get("caller")) ? "whole" : "masked";
    const kept = await readKept(kind, () => storedOf(c, sources));
    setAge(c, kept.staleMs);
    return c.json(await pageOf(sources, kept));
  });
  return app;
}

/** The part of the page that comes from the store. */
type Stored = Pick<HostPage, "jobs" | "leftovers">;

async function storedOf(c: Context<HttpEnv>, sources: HostSources): Promise<Stored> {
  const { store: { machineClaims }, now } = sources;
  const [jobs, left] = await Promise.all([
    jobsOf(c, sources, now()),
    machineClaims.left({ limit: PAGE_MAX }),
  ]);
  return { jobs, leftovers: left.length };
}

async function pageOf(sources: HostSources, kept: KeptRead<Stored>): Promise<HostPage> {
  const { store, now, readings } = sources;
  const { jobs, leftovers } = kept.value ?? { jobs: null, leftovers: null };
  const at = now();
  const [facts, readiness, system, pool, networks, machines, walls, disk] = await Promise.all([
    sources.facts(),
    sources.readiness(),
    readings.system(),
    readings.pool(),
    readings.networks(),
    readings.machines(),
    readings.walls(),
    readings.disk(),
  ]);
  const [sync, cacheBytes, measures] = await Promise.all([
    store.index.lastSync(),
    store.media.bytes(),
    store.measures.read(),
  ]);
  const waiting = sources.settingsWaiting();
  const read = { system, pool, networks, machines, walls, disk };
  return {
    ...facts,
    time: at,
    warnings: warningsOf({
      host: facts.name,
      kept,
      readiness,
      sync,
      readings: read,
      leftovers: leftovers ?? 0,
      settings: { waiting, problem: sources.settingsProblem() },
    }),
    slots: { ...sources.slots() },
    jobs,
    ...read,
    brands: [...sources.policy.brands],
    policy: policyOnWire(sources.policy),
    index: indexOnWire(sources, sync, at),
    cache: { bytes: cacheBytes, max_bytes: sources.cacheBytesMax },
    store: { bytes: measures.file_bytes, free_bytes: measures.free_bytes },
    leftovers,
    settings_waiting: [...waiting],
  };
}

/** How many jobs are unfinished, how many failed recently, and the newest failures. */
async function jobsOf(
  c: Context<HttpEnv>,
  { store, now, facts }: HostSources,
  at: Instant,
): Promise<HostPage["jobs"]> {
  const since = instantAfter(at, -DAY_HOURS * HOUR_MS);
  const [stats, hours, failed, { name }] = await Promise.all([
    store.jobs.stats(),
    store.jobs.finished(since),
    store.jobs.summaries({ states: ["failed"], searchesParams: false }, { limit: FAILED_SHOWN }),
    facts(),
  ]);
  const countOf = (execution: Execution) =>
    STATS_WINDOWS.reduce((sum, window) => sum + stats[window][execution], 0);
  const view = { now: now(), host: name, showsParams: seesSecrets(c.get("caller")) };
  return {
    queued: countOf("queued"),
    running: countOf("running"),
    waiting: countOf("waiting"),
    failed_24h: hours.reduce((sum, hour) => sum + hour.failed, 0),
    last_failed: failed.summaries.map((job) => {
      const { uuid, name, task, error, machine, finished_at } = summaryOnWire(job, view);
      return { uuid, name, task, error, machine, finished_at };
    }),
  };
}

function indexOnWire(
  { index }: HostSources,
  sync: IndexSync | undefined,
  at: Instant,
): HostPage["index"] {
  const { upstream, interval_seconds } = index();
  const compared_at = sync?.compared_at ?? null;
  return {
    upstream: sync?.upstream ?? upstream,
    interval_seconds,
    compared_at,
    // Never negative, even after the clock was set back.
    age_seconds: compared_at === null
      ? null
      : Math.max(Math.round(msBetween(compared_at, at) / MS_PER_SECOND), 0),
    outcome: sync?.outcome ?? null,
    problems: sync?.problems.length ?? 0,
  };
}
