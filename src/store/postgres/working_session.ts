// A session that runs transactions. Straight to the server it keeps the plans of the statements that come again, and
// sends what needs no answer first without waiting: to plan a statement costs the server more than to run it. Behind
// a pooler in transaction mode, no prepared statement and no setting may outlive its transaction.

import type { BoundValue, ServerOptions, ServerSession } from "./server.ts";
import { openSession, type SessionResult, stateOf } from "./server.ts";
import { CHANNEL } from "./notices.ts";

/** How often a statement comes before its plan is kept. */
const SEEN_BEFORE = 3;
/** Plans that a session keeps, and statements that it counts. */
const PLANS_MAX = 200;
const COUNTED_MAX = 1_000;
/** The part of the deadline after which a write stops waiting for a lock, so that those behind it have theirs. */
const LOCK_SHARE = 5;
/**
 * States of errors after which a session cannot use its plans: the tables were changed, or it is no session of its
 * own after all.
 * @see the table of error codes in PostgreSQL's manual
 */
const STALE = new Set(["0A000", "26000", "42P05"]);
/**
 * A kept plan was made when a table may have been empty: it must go by an index all the same. A statement that no index
 * serves must not be compiled for that.
 */
const PLANNING = { enable_seqscan: "off", jit: "off" } as const;
/**
 * What is written goes by keys, however many of them: the server is not to make a plan for each number. What is listed
 * may need another plan for other values.
 */
const WRITING = { plan_cache_mode: "force_generic_plan" } as const;
/**
 * Milliseconds for which the first plans are kept, and the longest: each time for twice as long, since what matters is
 * how many times larger a table has become.
 */
const PLANS_MS = { first: 1_000, longest: 60_000 };

/** A session that runs one transaction after the other. */
export interface WorkingSession extends ServerSession {
  /** The process of the server that serves it alone; undefined behind a pooler. */
  readonly ownPid: number | undefined;
  /** Begins a transaction. @returns what a first statement, without values, finds in it */
  begin(mode: string, look: string): Promise<SessionResult>;
  /** Commits, and notifies every agent unless it is to be quiet. */
  commit(notices: readonly string[], quiet: boolean): Promise<void>;
}

/** Opens a session that runs transactions; as openSession(). @param use what most of them do */
export async function openWorkingSession(
  server: ServerOptions,
  leftMs: number,
  use: "reading" | "writing",
): Promise<WorkingSession> {
  const session = await openSession(server, leftMs);
  try {
    const timer = setTimeout(() => session.destroy(), leftMs);
    // A pooler gives a number of its own.
    const planning = { ...PLANNING, ...(use === "writing" ? WRITING : {}) };
    const settings = Object.entries({ ...limitsOf(server), ...planning });
    const found = await session.query(
      `SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS own (name, value)
        WHERE pg_backend_pid() = $3`,
      [settings.map(([name]) => name), settings.map(([, value]) => `${value}`), session.pid],
    ).finally(() => clearTimeout(timer));
    return found.rows.length === 0 ? pooled(session, server) : direct(session);
  } catch (error) {
    session.destroy();
    throw error;
  }
}

/** A server that hears no more of its agent ends what it does for it, and lets go of what it locked. */
function limitsOf({ deadlineMs }: ServerOptions) {
  return {
    statement_timeout: deadlineMs,
    idle_in_transaction_session_timeout: deadlineMs,
    lock_timeout: Math.ceil(deadlineMs / LOCK_SHARE),
  };
}

function pooled(session: ServerSession, server: ServerOptions): WorkingSession {
  const limits = Object.entries(limitsOf(server)).map(([name, ms]) => `SET LOCAL ${name} = ${ms}`)
    .join("; ");
  return withCalls(session, {
    ownPid: undefined,
    query: session.query,
    begin: async (mode, look) => {
      const results = await session.script(`BEGIN ${mode}; ${limits}; ${look}`);
      return results.at(-1) ?? { rows: [], rowCount: 0 };
    },
    commit: (notices, quiet) => endWith(session, notices, quiet),
  });
}

function direct(session: ServerSession): WorkingSession {
  session.pipeline();
  let plansMs = PLANS_MS.first;
  let plannedAtMs = performance.now();
  const dropPlans = async () => {
    if (performance.now() < plannedAtMs + plansMs) return;
    plansMs = Math.min(plansMs * 2, PLANS_MS.longest);
    plannedAtMs = performance.now();
    await session.script("DISCARD PLANS");
  };
  const seen = new Map<string, number>();
  const names = new Map<string, string>();
  const nameOf = (sql: string): string | undefined => {
    const name = names.get(sql);
    if (name !== undefined || names.size >= PLANS_MAX) return name;
    if (seen.size >= COUNTED_MAX) seen.clear();
    const times = (seen.get(sql) ?? 0) + 1;
    seen.set(sql, times);
    if (times > SEEN_BEFORE) names.set(sql, `kept${names.size}`);
    return names.get(sql);
  };
  const query = async (sql: string, values: readonly BoundValue[] = []) => {
    try {
      return await session.query(sql, values, nameOf(sql));
    } catch (error) {
      if (STALE.has(stateOf(error) ?? "")) session.destroy();
      throw error;
    }
  };
  return withCalls(session, {
    ownPid: session.pid ?? undefined,
    query,
    begin: async (mode, look) => {
      const sent = [dropPlans(), session.script(`BEGIN ${mode}`), query(look)] as const;
      return (await Promise.all(sent))[2];
    },
    commit: (notices, quiet) => endWith(session, notices, quiet),
  });
}

/** Where commits without a notice take turns, among the advisory locks of the database. */
const COMMITTING = 8_780_006;

/**
 * Statements that end a transaction. The server ends one commit with a notice at a time: while one waits for a standby,
 * no session of another piles up. A lock has the same effect where nobody needs to hear.
 */
async function endWith(
  session: ServerSession,
  notices: readonly string[],
  quiet: boolean,
): Promise<void> {
  // Words are letters of agents and uuids of rows.
  const notify = notices.map((notice) =>
    `pg_notify('${CHANNEL}', '${notice.replaceAll("'", "''")}')`
  );
  const silent = quiet ? `pg_advisory_xact_lock(${COMMITTING})` : `pg_notify('${CHANNEL}', '')`;
  await session.script(`SELECT ${notify.length > 0 ? notify.join(", ") : silent}; COMMIT`);
}

function withCalls(
  session: ServerSession,
  calls: Pick<WorkingSession, "ownPid" | "query" | "begin" | "commit">,
): WorkingSession {
  return {
    ...calls,
    pid: session.pid,
    script: session.script,
    pipeline: session.pipeline,
    destroy: session.destroy,
    get broken() {
      return session.broken;
    },
  };
}
