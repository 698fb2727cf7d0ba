// How an agent is watched: /metrics and /readyz.

import type { Hono } from "hono";
import { openAgentReadiness, type ReadinessPlaces } from "./readiness.ts";
import type { Ground } from "./runner.ts";
import { readinessRoutes } from "../http/routes/health.ts";
import { metricsRoutes } from "../http/routes/metrics.ts";
import { agentFigures } from "./figures.ts";
import type { Family } from "../metrics/exposition.ts";
import type { Meters } from "../metrics/meters.ts";
import type { Store } from "../store/store.ts";
import { readBuildInfo, VERSION } from "../program/version.ts";

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
