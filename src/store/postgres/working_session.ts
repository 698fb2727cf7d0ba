// A session that runs transactions. Connected directly to the server, it prepares statements that are repeated, because
// planning a statement costs the server more than running it, and pipelines what needs no answer first. Behind a pooler
// in transaction mode, prepared statements and settings must not outlive their transaction.

import { sqlStateOf } from "./errors.ts";
import {
  type BoundValue,
  openSession,
  type ServerOptions,
  type ServerSession,
  type SessionResult,
} from "./server.ts";
import { CHANNEL, WATCHERS_CHANNEL, WATCHERS_LOCK } from "./listening.ts";
import type { Payloads } from "./notices.ts";

/** How often a statement runs before it is prepared. */
const SEEN_BEFORE = 3;
/** Prepared statements of a session, and statements that it counts. */
const PLANS_MAX = 200;
const COUNTED_MAX = 1_000;
/** The lock timeout is the deadline divided by this, so that the writes queued behind still get their turn. */
const LOCK_SHARE = 5;
/**
 * SQLSTATEs after which a session cannot use its prepared statements: the tables were changed, or a pooler stands
 * between after all.
 * @see the table of error codes in PostgreSQL's manual
 */
const STALE_PLAN = new Set(["0A000", "26000", "42P05"]);
/**
 * A plan may have been made while a table was empty, and must use an index nevertheless. Without jit, a statement that
 * no index serves is not compiled because of the cost that enable_seqscan=off adds.
 */
const PLANNING = { enable_seqscan: "off", jit: "off" } as const;
/**
 * Writes find rows by key whatever their number, so they use the generic plan instead of a custom plan for each number
 * of keys. Reads may need another plan for other values.
 */
const WRITING = { plan_cache_mode: "force_generic_plan" } as const;
/**
 * Milliseconds before the first plans are discarded, and the maximum: the time doubles with each discard, because a
 * plan goes stale with the factor by which a table has grown.
 */
const PLANS_MS = { first: 1_000, longest: 60_000 };

/** A session that runs one transaction after another. */
export interface WorkingSession extends ServerSession {
  /** The backend that serves this session alone; undefined behind a pooler. */
  readonly ownPid: number | undefined;
  /** Begins a transaction. @returns the result of its first statement, which takes no values */
  begin(mode: string, first: string): Promise<SessionResult>;
  /** Commits, and sends these notices with the commit. */
  commit(payloads: Payloads): Promise<void>;
}

/**
 * Opens a session that runs transactions, as openSession() does.
 * @param use what most of them do
 * @throws {AgentError} as openSession() does; the session is then closed
 */
export async function openWorkingSession(
  server: ServerOptions,
  leftMs: number,
  use: "reading" | "writing",
): Promise<WorkingSession> {
  const session = await openSession(server, leftMs);
  try {
    const timer = setTimeout(() => session.destroy(), leftMs);
    // A pooler reports a process id of its own, which is not that of the backend: then no setting is made.
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

/** Limits after which a server that no longer hears from the agent ends its statements and releases its locks. */
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
    begin: async (mode, first) => {
      const results = await session.script(`BEGIN ${mode}; ${limits}; ${first}`);
      return results.at(-1) ?? { rows: [], rowCount: 0 };
    },
    commit: (payloads) => endWith(session, payloads),
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
      if (STALE_PLAN.has(sqlStateOf(error) ?? "")) session.destroy();
      throw error;
    }
  };
  return withCalls(session, {
    ownPid: session.pid ?? undefined,
    query,
    begin: async (mode, first) => {
      const sent = [dropPlans(), session.script(`BEGIN ${mode}`), query(first)] as const;
      return (await Promise.all(sent))[2];
    },
    commit: (payloads) => endWith(session, payloads),
  });
}

/** The advisory lock on which commits take turns. */
const COMMIT_LOCK = 8_780_006;

/**
 * Sends the notices and commits. Commits take turns, so that while one waits for a standby, the sessions of other agents
 * wait for their turn instead of piling up behind the standby. listening.ts says when watchers are notified.
 */
async function endWith(session: ServerSession, { hosts, watchers }: Payloads): Promise<void> {
  // Notices consist of letters and uuids that agents have made.
  const notify = (channel: string, payload: string) =>
    `pg_notify('${channel}', '${payload.replaceAll("'", "''")}')`;
  const calls = [
    `pg_advisory_xact_lock(${COMMIT_LOCK})`,
    ...hosts.map((payload) => notify(CHANNEL, payload)),
    ...watchers.map((payload) =>
      `CASE WHEN NOT pg_try_advisory_xact_lock(${WATCHERS_LOCK})
         THEN ${notify(WATCHERS_CHANNEL, payload)} END`
    ),
  ];
  await session.script(`SELECT ${calls.join(", ")}; COMMIT`);
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
