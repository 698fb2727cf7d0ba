// Checks of the database of this host: whether it is sound, how old the index is, whether the clock went back.

import type { Now } from "../../domain/instant.ts";
import { inspectDatabase, readLatest } from "../../store/sqlite/database_file.ts";
import { type HealthCheck, ok, skipped } from "./check.ts";
import { statOf } from "./place.ts";

/** Seconds that a clock may be behind what was recorded: two processes do not write in order. */
const CLOCK_SECONDS_BEHIND_MAX = 5;
/** No host of ours ran before; a clock that says so was never set. */
const EARLIEST = "2025-01-01T00:00:00.000Z";
/** Intervals of the index without a sync after which it is called old. */
const INTERVALS_MAX = 2;

/** The database as a file. */
export function storeCheck(path: string): HealthCheck {
  return {
    name: "store",
    about: "the database is sound: every page, index and reference",
    async examine() {
      if (await statOf(path) === undefined) return skipped(`${path} is created at the first start`);
      const { schema, jobs, bytes, problems } = await inspectDatabase(path);
      if (problems.length === 0) return ok(`schema ${schema}, ${jobs} jobs, ${bytes} bytes`);
      const fix = "stop the agent, then zonewright db restore FILE";
      return { outcome: "fail", detail: `damaged: ${problems.join("; ")}`, fix };
    },
  };
}

/** The host's clock beside what was recorded under it. */
export function clockCheck(path: string, now: Now): HealthCheck {
  return {
    name: "clock",
    about: "the clock is set, and not behind what the database has seen",
    async examine() {
      const at = now();
      const fix = "set the clock, and keep it set by NTP";
      if (at < EARLIEST) {
        return { outcome: "fail", detail: `it is ${at}: the clock was never set`, fix };
      }
      if (await statOf(path) === undefined) return ok(at);
      const { recorded_at } = readLatest(path);
      const behind = recorded_at === null ? 0 : (Date.parse(recorded_at) - Date.parse(at)) / 1000;
      if (behind <= CLOCK_SECONDS_BEHIND_MAX) return ok(at);
      const detail = `it is ${at}, ${
        Math.round(behind)
      } s before the latest record (${recorded_at})`;
      return { outcome: "warn", detail, fix };
    },
  };
}

/** How old the mirrored index is. @param intervalSeconds 0 for syncs by hand alone */
export function indexCheck(
  path: string,
  { upstream, intervalSeconds, now }: {
    upstream: string | null;
    intervalSeconds: number;
    now: Now;
  },
): HealthCheck {
  return {
    name: "index",
    about: "the image index was synced in time, without problems",
    async examine() {
      if (upstream === null) return skipped("no index is configured");
      const fix = "zonewright image sync --wait, zonewright image status";
      const sync = await statOf(path) === undefined ? null : readLatest(path).sync;
      if (sync === null) return { outcome: "warn", detail: `${upstream} was never synced`, fix };
      const age = (Date.parse(now()) - Date.parse(sync.finished_at)) / 1000;
      const detail = `synced ${Math.round(age / 60)} min ago: ${sync.outcome}`;
      const old = intervalSeconds > 0 && age > INTERVALS_MAX * intervalSeconds;
      return old || sync.outcome !== "complete" ? { outcome: "warn", detail, fix } : ok(detail);
    },
  };
}
