// Everything that /metrics shows: the meters, and what is read from its source at that moment.

import type { Now } from "../domain/instant.ts";
import { msBetween } from "../domain/instant.ts";
import { EXECUTIONS } from "../domain/job/state.ts";
import { STATS_WINDOWS } from "../store/job_store.ts";
import type { Store } from "../store/store.ts";
import { type Family } from "../metrics/exposition.ts";
import { gauge, meterFamilies, type Meters } from "../metrics/meters.ts";

const MS_PER_SECOND = 1000;

/** Where the figures come from. */
export interface FigureSources {
  readonly meters: Meters;
  readonly store: Pick<Store, "jobs" | "index" | "machineClaims" | "media" | "measures">;
  /** Jobs that may run at the same time. */
  readonly slots: number;
  /** What the program is made of; each becomes a label. */
  readonly build: Readonly<Record<string, string>>;
  /** When the agent started. */
  readonly startedAt: string;
  readonly now: Now;
}

/** Reads every figure. Costs some short reads of the store, however many jobs there are. */
export async function agentFigures(sources: FigureSources): Promise<Family[]> {
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

async function storeFamilies({ store, now }: FigureSources): Promise<Family[]> {
  const at = now();
  const [stats, measures, sync, mediaBytes, left] = await Promise.all([
    store.jobs.stats(at),
    store.measures.read(at),
    store.index.lastSync(),
    store.media.bytes(),
    store.machineClaims.left(),
  ]);
  const { oldest_ready_at, file_bytes, free_bytes } = measures;
  // A clock that was set back makes nothing younger than new.
  const ageMs = oldest_ready_at === null ? 0 : Math.max(msBetween(oldest_ready_at, at), 0);
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
    gauge(
      "queue_oldest_age_seconds",
      "How long the oldest job that could run has waited; 0 without one.",
      ageMs / MS_PER_SECOND,
    ),
    gauge("machine_leftovers", "Machines of failed jobs that are not yet removed.", left.length),
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

function unix(instant: string): number {
  return Date.parse(instant) / MS_PER_SECOND;
}
