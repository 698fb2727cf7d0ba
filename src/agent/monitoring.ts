// What /metrics shows: the meters, and values read at that moment. Writes of jobs are counted here.

import { undefinedWhileAway } from "../domain/error.ts";
import type { HostUuid } from "../domain/id.ts";
import { MS_PER_SECOND, msBetween, type Now } from "../domain/instant.ts";
import type { Family } from "../metrics/exposition.ts";
import type { Store } from "../store/store.ts";
import { gauge, type JobResult, meterFamilies, type Meters } from "../metrics/meters.ts";
import { runtimeVersion } from "../runtime/node.ts";
import { readBuildInfo, VERSION } from "../runtime/executable.ts";
import { afterTask, executionOf, EXECUTIONS, heldIn, isFinal } from "../domain/job/state.ts";
import type { SharedParts } from "./shared_parts.ts";
import { STATS_WINDOWS } from "../domain/job/job.ts";
import type { TaskRecord } from "../store/run_store.ts";

/** What /metrics shows of this agent. */
export function openAgentMetrics(
  { config, now }: Pick<SharedParts, "config" | "now">,
  places: Pick<MetricSources, "store" | "hostUuid">,
  meters: Meters,
): () => Promise<readonly Family[]> {
  const startedAt = now();
  // Read from a file with the first metrics.
  let build: Promise<Readonly<Record<string, string>>> | undefined;
  const readBuild = async () => ({
    version: VERSION,
    commit: (await readBuildInfo()).commit ?? "unknown",
    [runtimeVersion().name]: runtimeVersion().version,
    target: Deno.build.target,
  });
  return async () => {
    build ??= readBuild();
    const slots = config.slots.value;
    return await agentMetrics({ meters, ...places, slots, build: await build, startedAt, now });
  };
}

interface MetricSources {
  readonly meters: Meters;
  readonly store: Pick<Store, "jobs" | "index" | "machineClaims" | "media" | "measures">;
  /** The uuid under which this host is registered in the store. */
  readonly hostUuid: HostUuid;
  readonly slots: number;
  /** Versions that the program is built from; each becomes a label. */
  readonly build: Readonly<Record<string, string>>;
  readonly startedAt: string;
  readonly now: Now;
}

/** Reads all metrics, with a few short reads of the store, however many jobs there are. */
export async function agentMetrics(sources: MetricSources): Promise<Family[]> {
  const { meters, slots, build, startedAt } = sources;
  const { rss, heapUsed } = Deno.memoryUsage();
  const { getHeapStatistics } = await import("node:v8");
  return [
    {
      name: "zonewright_build_info",
      type: "gauge",
      help: "What the agent is made of; always 1.",
      samples: [{ labels: build, value: 1 }],
    },
    gauge("start_time_seconds", "When the agent started, seconds since 1970.", unix(startedAt)),
    gauge("process_resident_memory_bytes", "Memory of the agent without its guests.", rss),
    gauge("process_heap_bytes", "Memory that objects of the agent use.", heapUsed),
    gauge(
      "process_heap_limit_bytes",
      "Memory of objects at which the agent would end.",
      getHeapStatistics().heap_size_limit,
    ),
    gauge("runner_slots", "Jobs that may run at the same time.", slots),
    ...await storeFamilies(sources),
    ...meterFamilies(meters),
  ];
}

async function storeFamilies(sources: MetricSources): Promise<Family[]> {
  const { store, now } = sources;
  const at = now();
  const [jobs, measures, sync, mediaBytes] = await Promise.all([
    undefinedWhileAway(jobFamilies(sources)),
    store.measures.read(),
    store.index.lastSync(),
    store.media.bytes(),
  ]);
  const { oldest_ready_at, file_bytes, free_bytes } = measures;
  // If the clock was set back, an age would be negative.
  const ageMs = typeof oldest_ready_at === "string"
    ? Math.max(msBetween(oldest_ready_at, at), 0)
    : 0;
  return [
    gauge(
      "store_reachable",
      "Whether the database of jobs answers; what it says is left out while it does not.",
      jobs === undefined || oldest_ready_at === undefined ? 0 : 1,
    ),
    ...jobs ?? [],
    ...oldest_ready_at === undefined ? [] : [gauge(
      "queue_oldest_age_seconds",
      "How long the oldest job that could run has waited; 0 without one.",
      ageMs / MS_PER_SECOND,
    )],
    gauge("store_bytes", "Size of the database, without its log.", file_bytes),
    gauge("store_free_bytes", "Part of the database that is empty, and is used first.", free_bytes),
    gauge("media_cache_bytes", "Downloaded files that are kept.", mediaBytes),
    gauge(
      "index_last_sync_timestamp_seconds",
      "When the index was last compared with its upstream, seconds since 1970; 0 for never.",
      sync?.compared_at === undefined ? 0 : unix(sync.compared_at),
    ),
    gauge(
      "index_last_sync_problems",
      "Documents that the last sync refused or did not reach.",
      sync?.problems.length ?? 0,
    ),
  ];
}

/** Metrics that only a shared database has. */
async function jobFamilies(
  { store: { jobs, machineClaims }, hostUuid: host_uuid }: Pick<
    MetricSources,
    "store" | "hostUuid"
  >,
): Promise<Family[]> {
  const [stats, left] = await Promise.all([jobs.stats(), machineClaims.left({ host_uuid })]);
  return [
    {
      name: "zonewright_jobs",
      type: "gauge",
      help: "Jobs that are kept, by execution.",
      samples: EXECUTIONS.map((execution) => ({
        labels: { execution },
        value: STATS_WINDOWS.reduce((sum, window) => sum + stats[window][execution], 0),
      })),
    },
    gauge("machine_leftovers", "Machines of failed jobs that are not yet removed.", left.length),
  ];
}

function unix(instant: string): number {
  return Date.parse(instant) / MS_PER_SECOND;
}

/** Wraps a store so that its writes of jobs are counted, whichever part makes them. */
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
      order: async (order, rules) => {
        const outcome = await jobs.order(order, rules);
        if (outcome.kind === "created") jobsCreated.count += 1;
        return outcome;
      },
      retry: async (uuid, successor, unfinishedMax) => {
        const outcome = await jobs.retry(uuid, successor, unfinishedMax);
        if (outcome.kind === "created") jobsCreated.count += 1;
        return outcome;
      },
      recordTask: async (record, patient) => {
        const owned = await jobs.recordTask(record, patient);
        const result = owned ? resultOf(record) : undefined;
        if (result !== undefined) meters.jobs[result] += 1;
        if (result === "retried") jobsCreated.count += 1;
        return owned;
      },
      cancel: async (uuid, showing) => {
        const outcome = await jobs.cancel(uuid, showing);
        if (outcome.kind === "changed") meters.jobs.canceled += 1;
        return outcome;
      },
      resume: async (uuid, resume, showing, call) => {
        const outcome = await jobs.resume(uuid, resume, showing, call);
        if (outcome.kind === "changed") {
          const { execution } = outcome.job;
          if (execution === "succeeded" || execution === "failed") meters.jobs[execution] += 1;
        }
        return outcome;
      },
    },
  };
}

/** How this write ended the job; undefined when the job continues. */
function resultOf({ event, phase }: TaskRecord): JobResult | undefined {
  const { to, ends } = afterTask(heldIn(phase), event);
  const execution = executionOf(to);
  return ends && isFinal(execution) ? execution : undefined;
}
