// The store of many agents in one PostgreSQL database: workflows, jobs with what belongs to them, events, and claims on
// machines. The index, its images, the media and their measures stay in a file of each host.

import { isAway, messageOf, undefinedWhileAway } from "../../domain/error.ts";
import type { OwnEvent } from "../../domain/event.ts";
import { msBetween } from "../../domain/instant.ts";
import type { Job } from "../../domain/job/job.ts";
import { type TakenJobs, takesAll } from "../../domain/taking.ts";
import { ANY_HOST } from "../../domain/job/workflow.ts";
import type { EventStore } from "../event_store.ts";
import type { Incarnation, JobUuid, RunnerId } from "../../domain/id.ts";
import type { JobNotice } from "../host_store.ts";
import type { JobStore } from "../job_store.ts";
import type { BeginOutcome, Hold, RunnerLife } from "../run_store.ts";
import type { MediaStore } from "../media_store.ts";
import type { InfoStore, LocalStore, Store } from "../store.ts";
import { SharedDatabase } from "./connection.ts";
import { openHosts } from "./hosts.ts";
import { openMachineReports } from "./machine_reports.ts";
import { isUnanswered } from "./errors.ts";
import type { ServerOptions } from "./server.ts";
import { numberEvents, openEvents } from "./job/events.ts";
import {
  infoTexts,
  insertInfo,
  recordAttempt,
  selectAttempts,
  selectInfo,
  selectLog,
} from "./job/log.ts";
import { openCallbacks } from "./job/callbacks.ts";
import { abandonJob, cancelJob, releaseJob, resumeJob } from "./job/changes.ts";
import { claimedRow, claimJobs, readyJobs, selectNextDue } from "./job/claims.ts";
import {
  foldCounts,
  selectFinished,
  selectOldestReady,
  selectStats,
  writeCheck,
} from "./job/counts.ts";
import { openJobCreation } from "./job/creation.ts";
import { earlierJob } from "./job/checked_inserts.ts";
import { beginLife, renewLease, rescueJobs } from "./job/leases.ts";
import { failUnwritten } from "./job/host_lost.ts";
import { countJobs, hasParam, listJobs, listKeys, selectJobsOfTarget } from "./job/lists.ts";
import { prune, pruneInfo, pruneKeys } from "./job/retention.ts";
import { openRunWrites } from "./job/run_writes.ts";
import { selectExecution, selectJob, selectUnfinished } from "./job/rows.ts";
import { countSummaries, listSummaries, selectSummary } from "./job/summaries.ts";
import { jobBytes, jobText, jobTexts } from "./job/texts.ts";
import { openMachineHistories } from "./job/machines.ts";
import type { PlaceHosts } from "./job/host_queue.ts";
import { openMachineClaims, selectClaimsOf } from "./job/machine_claims.ts";
import { jobNoticesOf } from "./notices.ts";
import { openOutage, type OutageOptions } from "./outage.ts";
import type { Lives } from "./statements.ts";
import { openWorkflows } from "./job/workflows.ts";

/** The database, the jobs that this host runs, and how it gets through an outage. */
interface SharedStoreOptions extends ServerOptions, Omit<OutageOptions, "rows"> {
  /** The uuid of this host. */
  readonly host: string;
  /** The jobs that the host runs; all unless given. */
  readonly taken?: TakenJobs;
}

/**
 * Opens the shared store.
 * @param local the file of this host, which stays open
 * @throws {AgentError} `overloaded` when the server refuses the user; `other_schema`
 */
export async function openPostgresStore(
  local: LocalStore,
  { host, taken, ...options }: SharedStoreOptions,
): Promise<Store> {
  const db = new SharedDatabase({ ...options, host });
  try {
    // Every transaction checks the schema version.
    await db.read(() => Promise.resolve());
  } catch (error) {
    if (!isUnanswered(error)) {
      await db.close();
      throw error;
    }
    options.log.warn("database away", { error: messageOf(error) });
  }
  const lives: Lives = new Map();
  const shared = sharedStore(db, local, { own: host, taken, lives });
  const { store, journal } = await openOutage(shared, {
    ...options,
    rows: local.journal,
    silentMs: () => db.reach.silentMs,
    begin: (...call) => beginIn(db, lives, ...call),
    fail: (hold, error) => db.write((tx) => failUnwritten(tx, hold, error)),
    claimsOf: (jobs) => db.read((tx) => selectClaimsOf(tx, jobs)),
  });
  const forwarding = forwardEvents(
    local.events,
    { append: shared.events.append, follow: (called) => db.follow(called) },
    (error) => options.log.error("events not forwarded", { error: messageOf(error) }),
  );
  // A failed delivery is repeated with the next notice or poll.
  const unfollow = db.follow(() => void journal.delivered().catch(() => {}));
  return {
    ...store,
    close: async () => {
      unfollow();
      await forwarding.stop();
      await db.close();
      await journal.ended();
    },
  };
}

/** The parts of the store that are in the database, and those in the file of the host. */
function sharedStore(db: SharedDatabase, local: Store, hosts: OwnPlace): Store {
  const { own: host, lives } = hosts;
  return {
    workflows: openWorkflows(db),
    jobs: jobStore(db, hosts),
    info: infoStore(db),
    log: {
      lines: (uuid, page) => db.read((tx) => selectLog(tx, uuid, page)),
      attempts: (uuid) => db.read((tx) => selectAttempts(tx, uuid)),
    },
    callbacks: openCallbacks(db, [host, ANY_HOST]),
    events: openEvents(db),
    index: local.index,
    images: local.images,
    media: mediaStore(local.media, db),
    // The uuid of a host is also the id of its runner.
    machineClaims: openMachineClaims(db, host as RunnerId, lives),
    machineHistories: openMachineHistories(db),
    machineReports: openMachineReports(db, host),
    hosts: openHosts(db, host),
    measures: {
      read: async () => ({
        ...await local.measures.read(),
        oldest_ready_at: await undefinedWhileAway(
          db.read((tx) => selectOldestReady(tx, [host, ANY_HOST])),
        ),
      }),
      check: async () => {
        await local.measures.check();
        await db.write((tx) => writeCheck(tx, host), true);
      },
    },
    kind: "postgres",
    shared: true,
    close: () => db.close(),
  };
}

/** This host, and the jobs that it runs. */
interface OwnPlace extends Pick<PlaceHosts, "own" | "taken"> {
  readonly lives: Lives;
}

/** Begins a life of the runner. This agent's writes are made in its name from then on. */
async function beginIn(
  db: SharedDatabase,
  lives: Lives,
  life: RunnerLife,
  ...call: [earlier: readonly Incarnation[], leaseMs: number, kept?: readonly JobUuid[]]
): Promise<BeginOutcome> {
  const outcome = await db.write((tx) => beginLife(tx, life, ...call));
  if (outcome.kind === "begun") lives.set(life.runner_id, life.incarnation);
  return outcome;
}

/** Whether the host claims free jobs: with a policy it leaves them to hosts that may run each of them. */
function takesFree({ taken }: OwnPlace): boolean {
  return taken === undefined || takesAll(taken.taking);
}

function queuesOf(hosts: OwnPlace): readonly string[] {
  return takesFree(hosts) ? [hosts.own, ANY_HOST] : [hosts.own];
}

/** Passes on notices about jobs, from other agents and from this one. */
function openNotices(db: SharedDatabase, queues: readonly string[]) {
  const followers = new Set<(notice: JobNotice) => void>();
  const noticed = (notice: JobNotice) => followers.forEach((call) => call(notice));
  db.follow((all) => all.flatMap((one) => jobNoticesOf(one, queues)).forEach(noticed));
  const follow: JobStore["follow"] = (called) => {
    followers.add(called);
    return () => followers.delete(called);
  };
  return { noticed, follow };
}

/** The notice for this host's own runner about a new job. */
function noticeOfNew(job: Job | undefined, host: string): JobNotice {
  if (job === undefined) return { kind: "queued" };
  const { created_at: now, exec_after } = job;
  if (exec_after > now) return { kind: "delayed", ms: msBetween(now, exec_after) };
  // The uuid of a host is also the id of its runner.
  return { kind: "queued", made: claimedRow(job, host as RunnerId, now) };
}

function jobStore(db: SharedDatabase, hosts: OwnPlace): JobStore {
  const { own: host, lives } = hosts;
  const inLife = <T extends Hold>(hold: T) => ({ ...hold, life: lives.get(hold.runner_id) });
  const queues = [host, ANY_HOST];
  const { hold, end } = openRunWrites(db, host);
  const { noticed, follow } = openNotices(db, queues);
  return {
    ...openJobCreation(db, hosts, lives, end, (job) => noticed(noticeOfNew(job, host))),
    earlier: (idempotency) => db.read((tx) => earlierJob(tx, idempotency)),
    get: (uuid) => db.read((tx) => selectJob(tx, uuid)),
    text: (uuid, showing) => db.read((tx) => jobText(tx, uuid, showing)),
    bytes: (uuid) => db.read((tx) => jobBytes(tx, uuid)),
    execution: (uuid) => db.read((tx) => selectExecution(tx, uuid)),
    list: (filter, page = {}) => db.read((tx) => listJobs(tx, filter, page)),
    texts: (filter, page, showing) => db.read((tx) => jobTexts(tx, filter, page, showing)),
    keys: (filter, page = {}) => db.read((tx) => listKeys(tx, filter, page)),
    summaries: (filter, page) => db.read((tx) => listSummaries(tx, filter, page)),
    summaryCounts: (filter) => db.read((tx) => countSummaries(tx, filter)),
    summary: (uuid) => db.read((tx) => selectSummary(tx, uuid)),
    ofTarget: (target, limit) => db.read((tx) => selectJobsOfTarget(tx, target, limit)),
    count: (filter) => db.read((tx) => countJobs(tx, filter)),
    hasParam: (name) => db.read((tx) => hasParam(tx, name)),
    claim: async (life, limit, which = "all") => {
      const from = queuesOf(hosts).filter((queue) => which === "all" || queue === ANY_HOST);
      const due = await db.read((tx) => selectNextDue(tx, from, life));
      if (limit === 0 || due.kind !== "ready") return { jobs: [], due };
      return await db.write((tx) => claimJobs(tx, from, life, limit));
    },
    ready: (life, limit, passedOver) =>
      db.read((tx) => readyJobs(tx, host, life, limit, passedOver, takesFree(hosts))),
    hold,
    follow,
    watch: () => db.watch(),
    hurry: () => db.hurry(),
    begin: (...call) => beginIn(db, lives, ...call),
    renew: (life, held, leaseMs) => db.write((tx) => renewLease(tx, life, held, leaseMs), true),
    recordAttempt: (record) => db.write((tx) => recordAttempt(tx, inLife(record))),
    release: (hold, elapsedMs) => db.write((tx) => releaseJob(tx, inLife(hold), elapsedMs)),
    abandon: (hold) => db.write((tx) => abandonJob(tx, inLife(hold))),
    rescue: (runner) => db.write((tx) => rescueJobs(tx, queues, runner), true),
    cancel: (uuid, showing) =>
      db.write(async (tx, earlier) => {
        const outcome = await cancelJob(tx, host, uuid, showing);
        return outcome.kind === "made" && earlier?.kind === "changed" ? earlier : outcome;
      }),
    // The transaction may run again after its commit got no answer, so it needs the id of the call.
    resume: (uuid, resume, showing, call = crypto.randomUUID()) =>
      db.write((tx) => resumeJob(tx, uuid, resume, showing, call)),
    stats: () => db.read(selectStats),
    finished: (since) => db.read((tx) => selectFinished(tx, since)),
    prune: async (retention) => {
      await foldCounts(db);
      await numberEvents(db);
      return await db.write((tx) => prune(tx, retention));
    },
    pruneKeys: (limit) => db.write((tx) => pruneKeys(tx, limit)),
    pruneInfo: (entries) => db.write((tx) => pruneInfo(tx, entries)),
  };
}

/** The media of this host, whose users are jobs in the database. */
function mediaStore(local: MediaStore, db: SharedDatabase): MediaStore {
  const settle = async () => {
    const using = await local.usingJobs();
    if (using.length === 0) return;
    const unfinished = await undefinedWhileAway(db.read((tx) => selectUnfinished(tx, using)));
    // While the database is away, all of these jobs count as unfinished.
    if (unfinished === undefined) return;
    const ended = using.filter((uuid) => !unfinished.has(uuid));
    if (ended.length > 0) await local.ended(ended);
  };
  const settled =
    <Args extends unknown[], T>(call: (...args: Args) => Promise<T>) => async (...args: Args) => {
      await settle();
      return await call(...args);
    };
  return {
    ...local,
    users: settled(local.users),
    unused: settled(local.unused),
    remove: settled(local.remove),
  };
}

/**
 * Copies the events of this host's own file, about its media and its index, into the database.
 * @param failed called for the first of several failures in a row, except while the database is away
 * @returns a function that ends it
 */
export function forwardEvents(
  local: Pick<EventStore, "bounds" | "after" | "follow">,
  shared: Pick<EventStore, "append" | "follow">,
  failed: (error: unknown) => void,
): { stop(): Promise<void> } {
  let seq: number | undefined;
  let running: Promise<void> | undefined;
  /** Whether some events may not be copied yet. */
  let behind = true;
  let isFailing = false;
  const writeNext = async () => {
    seq ??= (await local.bounds()).last;
    const page = await local.after(seq, EVENTS_AT_ONCE, { kind: ["media", "index"] });
    for (const event of page.events) {
      if (event.kind === "media" || event.kind === "index") await shared.append(ownEvent(event));
      seq = event.seq;
    }
    seq = page.last;
    if (page.more) behind = true;
  };
  const forward = async () => {
    try {
      // More events may be written while one is being copied.
      while (behind) {
        behind = false;
        await writeNext();
      }
      isFailing = false;
    } catch (error) {
      // The events stay in the local file, and the next notice or poll copies them.
      behind = true;
      if (!isFailing && !isAway(error)) failed(error);
      isFailing ||= !isAway(error);
    } finally {
      running = undefined;
    }
  };
  const look = () => {
    behind = true;
    running ??= forward();
  };
  look();
  // Tries again after the next commit if anything is left.
  const ends = [local.follow(look), shared.follow(() => behind && look())];
  return {
    async stop() {
      for (const end of ends) end();
      await running;
    },
  };
}

/** Events that one page of the local file contains. */
const EVENTS_AT_ONCE = 100;

function ownEvent({ kind, payload }: Extract<OwnEvent, { kind: "media" | "index" }>): OwnEvent {
  // The payload always belongs to the kind.
  return { kind, payload } as OwnEvent;
}

function infoStore(db: SharedDatabase): InfoStore {
  return {
    append: (uuid, entry, now, entriesMax, attempt, call) => {
      const by = { attempt: attempt ?? null, call: call ?? crypto.randomUUID() };
      return db.write((tx) => insertInfo(tx, uuid, entry, now, entriesMax, by));
    },
    list: (uuid, after = 0, limit) => db.read((tx) => selectInfo(tx, uuid, after, limit)),
    texts: (uuid, after, limit) => db.read((tx) => infoTexts(tx, uuid, after, limit)),
  };
}
