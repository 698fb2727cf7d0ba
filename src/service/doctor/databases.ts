// Checks of the databases. That of this host: whether it is sound, how old the index is, whether the clock went back.
// The one that agents share: whether it is reached and trusted, fits this program, has the right time, keeps what it
// commits, and what slows it down.

import { AgentError, messageOf } from "../../domain/error.ts";
import type { Now } from "../../domain/instant.ts";
import type { SharedCondition } from "../../store/postgres/condition.ts";
import { inspectDatabase, readLatest } from "../../store/sqlite/database_file.ts";
import { sizeText } from "../../domain/host.ts";
import { type HealthCheck, type HealthFinding, ok, skipped } from "./check.ts";
import { statOf } from "./folders.ts";

/** Seconds that a clock may be behind the records: two processes do not write in order. */
const CLOCK_SECONDS_BEHIND_MAX = 5;
/** No host ran this program before; an earlier clock was never set. */
const EARLIEST = "2025-01-01T00:00:00.000Z";
/** Missed intervals after which the index counts as old. */
const INTERVALS_MAX = 2;

/** The database as a file. */
export function storeCheck(path: string): HealthCheck {
  return {
    name: "store",
    about: "the database is sound: every page, index and reference",
    async examine() {
      if (await statOf(path) === undefined) {
        if (await statOf(`${path}-wal`) !== undefined) return removedInUse(path);
        return skipped(`${path} is created at the first start`);
      }
      const { schema, jobs, bytes, problems } = await inspectDatabase(path);
      if (problems.length === 0) return ok(`schema ${schema}, ${jobs} jobs, ${sizeText(bytes)}`);
      const fix = "stop the agent, then zonewright db restore FILE";
      return { outcome: "fail", detail: `damaged: ${problems.join("; ")}`, fix };
    },
  };
}

function removedInUse(path: string): HealthFinding {
  return {
    outcome: "fail",
    detail: `${path} was removed while an agent used it: its log is there`,
    fix: "put it back in its place, or stop the agent, then zonewright db restore FILE",
  };
}

/** Compares the host's clock with the latest records. */
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

/** How old the mirrored index is. @param intervalSeconds 0 when it is only synced by hand */
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
      const fix = "zonewright image status";
      const sync = await statOf(path) === undefined ? null : readLatest(path).sync;
      if (sync === null) return { outcome: "warn", detail: `${upstream} was never synced`, fix };
      const age = (Date.parse(now()) - Date.parse(sync.finished_at)) / 1000;
      const [problem] = sync.problems;
      const why = problem === undefined ? "" : `: ${problem.message}`;
      const detail = `last sync ${Math.round(age / 60)} min ago, ${sync.outcome}${why}`;
      const old = intervalSeconds > 0 && age > INTERVALS_MAX * intervalSeconds;
      return old || sync.outcome !== "complete" ? { outcome: "warn", detail, fix } : ok(detail);
    },
  };
}

/** Seconds that the clocks of host and database may differ: attempts and info entries carry the host's time. */
const CLOCK_SECONDS_MAX = 5;
/** Seconds after which an open transaction is reported: dead rows that it may still see cannot be removed. */
const OPEN_SECONDS_MAX = 120;
/** Dead rows of one table that do no harm. */
const DEAD_ROWS_FINE = 20_000;
/** Most tables that a finding names. */
const TABLES_MAX = 3;

/** Judges the condition of the database. */
type Conclude = (condition: SharedCondition) => HealthFinding;

/**
 * The checks of a shared database.
 * @param read its condition; undefined for a store of this host alone
 */
export function sharedStoreChecks(
  read: (() => Promise<SharedCondition>) | undefined,
): readonly HealthCheck[] {
  // Read once for all checks.
  let reading: Promise<SharedCondition> | undefined;
  const check = (name: string, about: string, conclude: Conclude): HealthCheck => ({
    name,
    about,
    async examine() {
      if (read === undefined) return skipped("the store is a file of this host");
      try {
        return conclude(await (reading ??= read()));
      } catch (error) {
        if (name !== REACHED) return skipped(`see ${REACHED}`);
        return { outcome: "fail", detail: messageOf(error), fix: fixOf(error) };
      }
    },
  });
  return [
    check(REACHED, "the shared database proves its name and has tables that fit", reached),
    check("database-clock", "the clocks of host and database agree", clock),
    check("database-commit", "what is answered is on disk, also on a standby", commit),
    check("database-transactions", "no transaction is held open for minutes", transactions),
    check("database-bloat", "dead rows are cleared away", bloat),
  ];
}

const REACHED = "database";

function fixOf(error: unknown): string {
  if (messageOf(error).endsWith("upgrade this one")) return "zonewright upgrade FILE";
  return error instanceof AgentError && error.code === "overloaded"
    ? "start the server, or correct store, the user or the password; docs/scale.md has the rest"
    : "zonewright db migrate makes and updates the tables; docs/scale.md has the rest";
}

const reached: Conclude = ({ version, proven, near }) => {
  const detail = `schema ${version}, ${proven ? "TLS with a verified name" : "on this machine"}`;
  if (proven || near) return ok(detail);
  return {
    outcome: "warn",
    detail:
      `schema ${version}, by a relay on this machine to a server that has not proven its name`,
    fix: "let the relay verify the name of the server, or set store to the server itself",
  };
};

const clock: Conclude = ({ aheadMs, roundTripMs }) => {
  const seconds = Math.round(Math.abs(aheadMs) / 100) / 10;
  const detail = `the host is ${seconds} s ${aheadMs < 0 ? "behind" : "ahead of"} the database`;
  if (Math.abs(aheadMs) - roundTripMs / 2 <= CLOCK_SECONDS_MAX * 1000) return ok(detail);
  return { outcome: "warn", detail, fix: "keep both clocks set by NTP" };
};

const commit: Conclude = (found) => {
  const { commit, fsync, synchronousStandbys, standbys } = found;
  const detail = `synchronous_commit ${commit}, fsync ${fsync}, ` +
    (synchronousStandbys === "" ? "no synchronous standby" : `standbys ${synchronousStandbys}`);
  if (fsync === "off" || commit === "off") {
    return {
      outcome: fsync === "off" ? "fail" : "warn",
      detail: `${detail}: a crash of the server loses what was answered`,
      fix: "set fsync and synchronous_commit to on for the database and the role of the agents",
    };
  }
  const receivers = `${standbys} ${standbys === 1 ? "receiver" : "receivers"}`;
  if (synchronousStandbys === "" && standbys === 0) return ok(detail);
  if (synchronousStandbys !== "" && commit !== "local") return ok(`${detail}, ${receivers}`);
  return {
    outcome: "warn",
    detail: `${detail}, ${receivers}: a standby that takes over loses what it has not received`,
    fix: "set synchronous_standby_names, and synchronous_commit to on",
  };
};

const transactions: Conclude = ({ oldest, hidden }) => {
  const unseen = hidden === 0
    ? ""
    : `; ${hidden} sessions of other roles are hidden without the right pg_read_all_stats`;
  if (oldest === null || oldest.seconds <= OPEN_SECONDS_MAX) return ok(`none${unseen}`);
  const { seconds, pid, role, state } = oldest;
  const whose = pid === 0 ? `prepared by ${role}` : `session ${pid} of ${role}, ${state}`;
  return {
    outcome: "warn",
    detail: `one has been open for ${Math.round(seconds)} s: ${whose}${unseen}`,
    fix: pid === 0 ? "ROLLBACK PREPARED it" : `end it: SELECT pg_terminate_backend(${pid})`,
  };
};

const bloat: Conclude = ({ tables }) => {
  const bloated = tables.filter(({ live, dead }) => dead > Math.max(DEAD_ROWS_FINE, live));
  const dead = tables.reduce((sum, table) => sum + table.dead, 0);
  if (bloated.length === 0) return ok(`${dead} dead rows`);
  const named = bloated.slice(0, TABLES_MAX)
    .map(({ name, live, dead }) => `${name} (${dead} of ${live + dead})`).join(", ");
  return {
    outcome: "warn",
    detail: `dead rows: ${named}`,
    fix: "end transactions that are held open, let autovacuum run, VACUUM as the owner",
  };
};
