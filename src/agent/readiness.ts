// What the readiness of the agent is judged by: its store, its disk, its host, its index.

import type { Ground } from "./runner.ts";
import type { RunnerId } from "../domain/id.ts";
import { instantAfter, msBetween } from "../domain/instant.ts";
import type { Vmadm } from "../host/vmadm/vmadm.ts";
import {
  openReadiness,
  type ReadinessCheck,
  type ReadinessReport,
  readinessRoutes,
} from "../http/routes/health.ts";
import { FREE_BYTES_MIN, type FreeBytes, systemFreeBytes } from "../mirror/media/free_space.ts";
import type { Store } from "../store/store.ts";
import type { Hono } from "hono";
import { metricsRoutes } from "../http/routes/metrics.ts";
import { agentFigures } from "./figures.ts";
import type { Family } from "../metrics/exposition.ts";
import type { Meters } from "../metrics/meters.ts";
import { readBuildInfo, VERSION } from "../program/version.ts";

/** A write and its sync; a disk that takes longer keeps every caller waiting. */
const STORE_DEADLINE_MS = 5_000;
const STORE_KEEP_MS = 2_000;
const DISK_DEADLINE_MS = 5_000;
const DISK_KEEP_MS = 5_000;
/** vmadm of a host with many machines takes seconds, and runs on the host's processors. */
const HOST_DEADLINE_MS = 10_000;
const HOST_KEEP_MS = 30_000;
const INDEX_DEADLINE_MS = 5_000;
const INDEX_KEEP_MS = 2_000;
/** What the runner asks for by itself; see src/runner/runner.ts. */
const LEASE_MS = 60_000;
/** Syncs that may be missed before the index is told to be old. */
const SYNCS_MISSED_MAX = 3;
const BYTES_PER_MB = 1e6;
const MS_PER_SECOND = 1000;

/** What the looks are made at. */
interface ReadinessPlaces {
  readonly store: Store;
  readonly vmadm: Vmadm;
  readonly runner_id: RunnerId;
  readonly stateDir: string;
  /** The system's own unless given. */
  readonly freeBytes?: FreeBytes;
}

/** Opens the looks of this agent. */
export function openAgentReadiness(
  ground: Pick<Ground, "config" | "now">,
  places: ReadinessPlaces,
): () => Promise<ReadinessReport> {
  const checks = {
    store: storeCheck(ground, places),
    disk: diskCheck(places),
    host: hostCheck(places),
    index: indexCheck(ground, places),
  };
  return openReadiness(checks, () => performance.now());
}

/** A write as every other, with its sync: that of a runner that lives, which this one does. */
function storeCheck(
  { now }: Pick<Ground, "now">,
  { store, runner_id }: ReadinessPlaces,
): ReadinessCheck {
  return {
    keepMs: STORE_KEEP_MS,
    deadlineMs: STORE_DEADLINE_MS,
    async look() {
      await store.jobs.renew(runner_id, instantAfter(now(), LEASE_MS));
      return { status: "ok", detail: "a write was committed" };
    },
  };
}

function diskCheck({ stateDir, freeBytes = systemFreeBytes }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: DISK_KEEP_MS,
    deadlineMs: DISK_DEADLINE_MS,
    async look() {
      const free = await freeBytes(stateDir);
      if (free === Number.POSITIVE_INFINITY) {
        return { status: "ok", detail: "this system does not tell" };
      }
      const detail = `${Math.floor(free / BYTES_PER_MB)} MB free`;
      if (free >= FREE_BYTES_MIN) return { status: "ok", detail };
      const wanted = `${detail}, expected ${Math.ceil(FREE_BYTES_MIN / BYTES_PER_MB)} MB`;
      return { status: "failed", detail: wanted };
    },
  };
}

function hostCheck({ vmadm }: ReadinessPlaces): ReadinessCheck {
  return {
    keepMs: HOST_KEEP_MS,
    deadlineMs: HOST_DEADLINE_MS,
    async look(signal) {
      const machines = await vmadm.list({ signal });
      return { status: "ok", detail: `vmadm answers: ${machines.length} machines` };
    },
  };
}

/** An old index is still served, as it was promised; one that never came cannot be. */
function indexCheck(
  { config, now }: Pick<Ground, "config" | "now">,
  { store }: ReadinessPlaces,
): ReadinessCheck {
  return {
    keepMs: INDEX_KEEP_MS,
    deadlineMs: INDEX_DEADLINE_MS,
    async look() {
      if (config.index.value === null && !config.dev.value) {
        return { status: "ok", detail: "no upstream is configured" };
      }
      const compared = (await store.index.lastSync())?.compared_at;
      if (compared === undefined) {
        return { status: "failed", detail: "never compared with its upstream" };
      }
      const ageSeconds = Math.max(Math.round(msBetween(compared, now()) / MS_PER_SECOND), 0);
      const interval = config.index_interval.value;
      const detail = `compared with its upstream ${ageSeconds} s ago`;
      if (interval === 0 || ageSeconds <= interval * SYNCS_MISSED_MAX) {
        return { status: "ok", detail };
      }
      return { status: "warn", detail: `${detail}, expected every ${interval} s` };
    },
  };
}

// How an agent is watched: /metrics and /readyz.

/** The routes by which an agent is watched: /metrics and /readyz. */
export function watchRoutes(
  ground: Pick<Ground, "config" | "now">,
  meters: Meters,
  places: ReadinessPlaces,
): Hono[] {
  return [
    metricsRoutes(openFigures(ground, places.store, meters)),
    readinessRoutes(openAgentReadiness(ground, places)),
  ];
}

/** What /metrics reads. */
export function openFigures(
  { config, now }: Pick<Ground, "config" | "now">,
  store: Store,
  meters: Meters,
): () => Promise<readonly Family[]> {
  const startedAt = now();
  // Read with the first figures: it is a file.
  let build: Promise<Readonly<Record<string, string>>> | undefined;
  const readBuild = async () => ({
    version: VERSION,
    commit: (await readBuildInfo()).commit ?? "unknown",
    deno: Deno.version.deno,
    target: Deno.build.target,
  });
  return async () => {
    build ??= readBuild();
    const slots = config.slots.value;
    return await agentFigures({ meters, store, slots, build: await build, startedAt, now });
  };
}
