// The store of many agents in one PostgreSQL database: workflows, jobs and what belongs to them, events, and claims of
// machines. The index, its images, the media and their measures stay in a file of each host.

import { AgentError } from "../../domain/error.ts";
import type { JobStore } from "../job_store.ts";
import type { InfoStore, Store } from "../store.ts";
import { Connection, type ServerOptions } from "./connection.ts";
import { openEvents } from "./events.ts";
import { recordAttempt } from "./job/attempts.ts";
import { openCallbacks } from "./job/callbacks.ts";
import { abandonJob, cancelJob, releaseJob, resumeJob } from "./job/changes.ts";
import { claimJobs, holdJobs, readyJobs, selectNextDue } from "./job/claims.ts";
import { foldCounts } from "./job/counts.ts";
import { earlierJob, openJobCreation } from "./job/creation.ts";
import { infoTexts, insertInfo, selectInfo } from "./job/info.ts";
import { beginLife, renewLease, rescueJobs } from "./job/leases.ts";
import { countJobs, hasParam, listJobs, listKeys, selectJobsOfTarget } from "./job/lists.ts";
import { selectAttempts, selectLog } from "./job/log.ts";
import { prune, pruneInfo, pruneKeys } from "./job/retention.ts";
import { selectExecution, selectJob } from "./job/rows.ts";
import { selectFinished, selectOldestReady, selectStats } from "./job/stats.ts";
import { countSummaries, listSummaries, selectSummary } from "./job/summaries.ts";
import { jobBytes, jobText, jobTexts } from "./job/texts.ts";
import { openMachineClaims } from "./machine_claims.ts";
import { checkVersion } from "./migrations.ts";
import { ANY_HOST } from "./schema.ts";
import { openWorkflows } from "./workflows.ts";

/** Options of a shared store. */
export interface SharedStoreOptions extends ServerOptions {
  /** The uuid of this host: it runs its own jobs, and those of any host. */
  readonly host: string;
}

/**
 * Opens the shared store.
 * @param local the file of this host, which is closed with the store
 * @throws {AgentError} `overloaded` when the server does not answer; `conflict` for another schema
 */
export async function openPostgresStore(
  local: Store,
  { host, ...server }: SharedStoreOptions,
): Promise<Store> {
  const db = new Connection(server);
  try {
    await checkVersion(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  return {
    workflows: openWorkflows(db),
    jobs: jobStore(db, host),
    info: infoStore(db),
    log: {
      lines: (uuid, page) => db.read((session) => selectLog(session, uuid, page)),
      attempts: (uuid) => db.read((session) => selectAttempts(session, uuid)),
    },
    callbacks: openCallbacks(db, host),
    events: openEvents(db),
    index: local.index,
    images: local.images,
    media: local.media,
    machineClaims: openMachineClaims(db),
    measures: {
      read: async () => ({
        ...await local.measures.read(),
        oldest_ready_at: await db.read((session) => selectOldestReady(session, [host, ANY_HOST])),
      }),
      check: async () => {
        await local.measures.check();
        await db.write((session) =>
          session.run(
            `INSERT INTO write_checks (host, checked_at) VALUES ($1, $2)
             ON CONFLICT (host) DO UPDATE SET checked_at = $2`,
            host,
            session.now,
          )
        );
      },
    },
    shared: true,
    close: async () => {
      await db.close();
      await local.close();
    },
  };
}

function jobStore(db: Connection, host: string): JobStore {
  const hosts = [host, ANY_HOST];
  return {
    ...openJobCreation(db, host),
    earlier: (idempotency) => db.read((session) => earlierJob(session, idempotency)),
    get: (uuid) => db.read((session) => selectJob(session, uuid)),
    text: (uuid, showing) => db.read((session) => jobText(session, uuid, showing)),
    bytes: (uuid) => db.read((session) => jobBytes(session, uuid)),
    execution: (uuid) => db.read((session) => selectExecution(session, uuid)),
    list: (filter, page = {}) => db.read((session) => listJobs(session, filter, page)),
    texts: (filter, page, showing) =>
      db.read((session) => jobTexts(session, filter, page, showing)),
    keys: (filter, page = {}) => db.read((session) => listKeys(session, filter, page)),
    summaries: (filter, page) => db.read((session) => listSummaries(session, filter, page)),
    summaryCounts: (filter) => db.read((session) => countSummaries(session, filter)),
    summary: (uuid) => db.read((session) => selectSummary(session, uuid)),
    ofTarget: (target, limit) =>
      db.read((session) => selectJobsOfTarget(session, target, limit)),
    count: (filter) => db.read((session) => countJobs(session, filter)),
    hasParam: (name) => db.read((session) => hasParam(session, name)),
    claim: async (life, limit) => {
      const due = await db.read((session) => selectNextDue(session, hosts));
      if (limit === 0 || due.kind !== "ready") return { jobs: [], due };
      return await db.write((session) => claimJobs(session, hosts, life, limit));
    },
    ready: (life, limit, passedOver) =>
      db.read((session) => readyJobs(session, hosts, life, limit, passedOver)),
    hold: (life, jobs) => db.write((session) => holdJobs(session, hosts, life, jobs)),
    // Every write is committed with the next transaction.
    hurry: () => {},
    begin: (life, earlier, leaseMs) =>
      db.write((session) => beginLife(session, life, earlier, leaseMs)),
    renew: (life, held, leaseMs) => db.write((session) => renewLease(session, life, held, leaseMs)),
    recordAttempt: (record) => db.write((session) => recordAttempt(session, record)),
    release: (hold, elapsedMs) => db.write((session) => releaseJob(session, hold, elapsedMs)),
    abandon: (hold) => db.write((session) => abandonJob(session, hold)),
    rescue: (runner) => db.write((session) => rescueJobs(session, hosts, runner)),
    cancel: (uuid, showing) => db.write((session) => cancelJob(session, uuid, showing)),
    resume: (uuid, resume, showing, call) =>
      db.write((session) => resumeJob(session, uuid, resume, showing, call ?? null)),
    stats: () => db.read(selectStats),
    finished: (since) => db.read((session) => selectFinished(session, since)),
    prune: async (retention) => {
      await db.write(foldCounts);
      return await db.write((session) => prune(session, retention));
    },
    pruneKeys: (limit) => db.write((session) => pruneKeys(session, limit)),
    pruneInfo: (entries) => db.write((session) => pruneInfo(session, entries)),
  };
}

function infoStore(db: Connection): InfoStore {
  return {
    append: (uuid, entry, now, entriesMax = Number.MAX_SAFE_INTEGER, attempt, call) => {
      const by = { attempt: attempt ?? null, call: call ?? null };
      return db.write((session) => insertInfo(session, uuid, entry, now, entriesMax, by));
    },
    list: (uuid, after = 0, limit) =>
      db.read((session) => selectInfo(session, uuid, after, limit)),
    texts: (uuid, after, limit) => db.read((session) => infoTexts(session, uuid, after, limit)),
  };
}
