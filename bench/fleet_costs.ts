// What parts of a shared store cost: a database in which the exact statistics, or the notifications, do nothing, and
// agents without work.

import { join } from "@std/path";
import { openMemoryBudget } from "../src/domain/memory_budget.ts";
import { type HostUuid, type Incarnation, randomUuid, type RunnerId } from "../src/domain/id.ts";
import { systemNow } from "../src/domain/instant.ts";
import { silentLog } from "../src/metrics/log.ts";
import { Runner } from "../src/runner/runner.ts";
import { openPostgresStore } from "../src/store/postgres/postgres_store.ts";
import { openSqliteStore } from "../src/store/sqlite/sqlite_store.ts";
import type { Store } from "../src/store/store.ts";
import { Watcher } from "./contestant.ts";
import { ownCpuMs } from "./process_use.ts";
import { type Service, serviceCpuMs, startPostgres } from "./peer_services.ts";

/** A session of psql, which answers one line to each question. */
interface Psql {
  ask(sql: string): Promise<string>;
  close(): Promise<void>;
}

/** Opens a session. */
export function openPsql(address: string): Psql {
  const args = ["--quiet", "--no-psqlrc", "--tuples-only", "--no-align", "--dbname", address];
  const psql = new Deno.Command("psql", { args, stdin: "piped", stdout: "piped" }).spawn();
  const writer = psql.stdin.getWriter();
  const reader = psql.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  return {
    async ask(sql) {
      await writer.write(new TextEncoder().encode(`${sql};\n`));
      while (!rest.includes("\n")) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`Cannot ask the database: psql ended at ${sql}`);
        rest += value;
      }
      const end = rest.indexOf("\n");
      const answer = rest.slice(0, end);
      rest = rest.slice(end + 1);
      return answer;
    },
    async close() {
      await writer.close();
      await psql.status;
      await reader.cancel();
    },
  };
}

const UNFINISHED = `SELECT json_build_object(
  'queued', count(*) FILTER (WHERE execution <> 'failed'),
  'failed', count(*) FILTER (WHERE execution = 'failed'))
  FROM jobs WHERE execution IN ('queued', 'running', 'failed')`.replaceAll("\n", " ");

/** Counts the jobs of a database without its agents: not all of these count them. */
export function watchDatabase(address: string): Watcher {
  const psql = openPsql(address);
  return new Watcher(async () => [JSON.parse(await psql.ask(UNFINISHED))], () => void psql.close());
}

/** Has no statement count jobs any more. */
export async function stopStatistics(psql: Psql): Promise<void> {
  for (const event of ["insert", "update", "delete"]) {
    await psql.ask(`ALTER TABLE jobs DISABLE TRIGGER jobs_counted_${event}; SELECT 1`);
  }
}

/** Has sessions that open from now on call a function of the name that notifies nobody. */
export async function stopNotices(psql: Psql): Promise<void> {
  await psql.ask(
    `CREATE SCHEMA quiet;
     CREATE FUNCTION quiet.pg_notify(text, text) RETURNS void LANGUAGE sql AS '';
     DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = quiet, pg_catalog, public',
       current_database()); END $$;
     SELECT 1`,
  );
}

/** Agents of which the figure is told, and stores with a runner that stand for them. */
const AGENTS = 200;
const STORES = 40;
/** Enough for these. */
const SESSIONS = 300;
const LEASE_MS = 30_000;
/** By then a session throws its kept plans away once a minute, as an old one does. */
const SETTLING_MS = 65_000;
const IDLE_MS = LEASE_MS;

/** Percent of a processor that the server takes for so many agents without work, and all of these together. */
interface IdleUse {
  readonly agents: number;
  readonly stores: number;
  readonly server: number;
  readonly clients: number;
}

/**
 * Runs stores without work beside each other in this process, on a server of their own: one that has worked is still
 * cleaning up.
 * @param migrated makes a database with tables; returns its address
 */
export async function measureIdle(
  folder: string,
  migrated: (folder: string, service: Service) => Promise<string>,
): Promise<IdleUse> {
  const own = join(folder, "idle");
  await Deno.mkdir(own, { mode: 0o755 });
  const service = await startPostgres(own, SESSIONS);
  try {
    return await measureStores(service, await migrated(own, service));
  } finally {
    await service.stop();
  }
}

async function measureStores(service: Service, address: string): Promise<IdleUse> {
  const stores: Store[] = [];
  const runners: Runner[] = [];
  try {
    for (let at = 0; at < STORES; at++) {
      const store = await openIdle(address, `idle${at}`);
      stores.push(store.store);
      runners.push(store.runner);
      await store.runner.start();
    }
    await pass(SETTLING_MS);
    const [server, own] = [serviceCpuMs(service), ownCpuMs(Deno.pid)];
    await pass(IDLE_MS);
    const percent = (ms: number) => ms / IDLE_MS * 100 * AGENTS / STORES;
    return {
      agents: AGENTS,
      stores: STORES,
      server: percent(serviceCpuMs(service) - server),
      clients: percent(ownCpuMs(Deno.pid) - own),
    };
  } finally {
    for (const runner of runners) await runner.stop(0);
    for (const store of stores) await store.close();
  }
}

/** The clock itself is what is measured here. */
function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function openIdle(address: string, name: string): Promise<{ store: Store; runner: Runner }> {
  const url = new URL(address);
  const { password } = url;
  url.password = "";
  const runner_id = randomUuid<RunnerId>();
  const incarnation = randomUuid<Incarnation>();
  const store = await openPostgresStore(await openSqliteStore(":memory:"), {
    url: url.href,
    password,
    deadlineMs: LEASE_MS,
    host: runner_id,
    journalBytesMax: 1,
    log: silentLog,
  });
  await store.hosts.register({
    // The uuid of a host is the id of its runner.
    uuid: runner_id as string as HostUuid,
    incarnation,
    earlier: [],
    facts: {
      name,
      version: "bench",
      capabilities: [],
      slots: 1,
      brands: [],
      address: null,
      public_key: null,
      allow_workflow: [],
      allow_caller: [],
    },
    lease_ms: LEASE_MS,
  });
  const runner = new Runner({
    store,
    life: { runner_id, incarnation },
    earlier: [],
    slots: 1,
    leaseMs: LEASE_MS,
    ownerOf: () => Promise.reject(new Error("Nothing is to be run")),
    guests: { run: () => Promise.reject(new Error("Nothing is to be run")) },
    performFor: () => {
      throw new Error("Nothing is to be run");
    },
    budget: openMemoryBudget(),
    now: systemNow,
    monotonicMs: () => performance.now(),
    newUuid: randomUuid,
    retryCountsFirst: false,
    log: silentLog,
  });
  return { store, runner };
}
