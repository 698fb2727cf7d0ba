// Checks of the database that agents share: reached and proven, fit for this program, its clock, what a commit is
// worth, and what makes it slow.

import type { SharedCondition } from "../../store/postgres/condition.ts";
import { AgentError, messageOf } from "../../domain/error.ts";
import { type HealthCheck, type HealthFinding, ok, skipped } from "./check.ts";

/** Seconds that the clocks of host and database may differ: attempts and the info carry the host's. */
const CLOCK_SECONDS_MAX = 5;
/** Seconds after which a transaction is called held open: what it may still see is not cleared away. */
const OPEN_SECONDS_MAX = 120;
/** Dead rows of a table that are nothing to speak of. */
const DEAD_ROWS_FINE = 20_000;
/** Tables that are named. */
const TABLES_MAX = 3;

/** What a check concludes from the condition of the database. */
type Conclude = (condition: SharedCondition) => HealthFinding;

/**
 * The checks of a shared database.
 * @param read its condition; undefined for a store of this host alone
 */
export function sharedStoreChecks(
  read: (() => Promise<SharedCondition>) | undefined,
): readonly HealthCheck[] {
  // Asked once: the same answer for all.
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

const clock: Conclude = ({ aheadMs, wayMs }) => {
  const seconds = Math.round(Math.abs(aheadMs) / 100) / 10;
  const detail = `the host is ${seconds} s ${aheadMs < 0 ? "behind" : "ahead of"} the database`;
  if (Math.abs(aheadMs) - wayMs / 2 <= CLOCK_SECONDS_MAX * 1000) return ok(detail);
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
