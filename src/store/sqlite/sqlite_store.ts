// The store in one SQLite file. Reads run immediately on the connection that writes: since no transaction awaits, they
// see only committed rows. They are answered once those rows are durable, so that nothing that a caller has seen can be
// lost.

import { AgentError, messageOf, systemCode, systemReason } from "../../domain/error.ts";
import type { ImageStore } from "../image_store.ts";
import type { JobStore } from "../job_store.ts";
import type { NextDue } from "../run_store.ts";
import type { CallbackStore, IndexStore, InfoStore, LocalStore, WorkflowStore } from "../store.ts";
import {
  deleteCallback,
  postponeCallback,
  selectNextCallback,
  takeCallbacks,
} from "./job/callbacks.ts";
import { Connection, IN_MEMORY } from "./connection.ts";
import { insertEvent, selectEventBounds, selectEvents } from "./job/events.ts";
import type { ConnectionWatch } from "./group_commit.ts";
import { instantAfter, type Now, systemNow } from "../../domain/instant.ts";
import {
  changePins,
  countImages,
  deleteDocument,
  insertSync,
  packDocuments,
  searchImages,
  selectDocument,
  selectDocuments,
  selectLastSync,
  selectPins,
  unpackDocument,
  upsertDocument,
} from "./local/index_documents.ts";
import { WaitingClaims } from "./job/waiting_claims.ts";
import {
  infoTexts,
  insertInfo,
  recordAttempt,
  selectAttempts,
  selectInfo,
  selectLog,
} from "./job/log.ts";
import { selectFinished, selectMeasures, selectStats, writeCheck } from "./job/counts.ts";
import { abandonJob, cancelJob, releaseJob, resumeJob } from "./job/changes.ts";
import { earlierJob, openJobCreation } from "./job/creation.ts";
import { countJobs, hasParam, listJobs, listKeys, selectJobsOfTarget } from "./job/lists.ts";
import { countSummaries, listSummaries, selectSummary } from "./job/summaries.ts";
import { jobBytes, jobText, jobTexts } from "./job/texts.ts";
import { claimJobs, readyJobs, selectNextDue } from "./job/claims.ts";
import { selectExecution, selectJob } from "./job/jobs.ts";
import { fillRows, putRows, readRows, removeRows } from "./local/artifacts.ts";
import { isCordoned } from "./host_rows.ts";
import { hostStore } from "./hosts.ts";
import type { SchemaSteps } from "../sql.ts";
import { requireOwnLog } from "./database_file.ts";
import { keepOlder } from "./older_copy.ts";
import { openMachineHistories } from "./job/machines.ts";
import { openMachineClaims } from "./job/machine_claims.ts";
import { openJournalRows } from "./local/journal.ts";
import { openMediaStore } from "./local/media_files.ts";
import { beginLife, renewLease, rescueJobs } from "./job/leases.ts";
import { prune, pruneInfo, pruneKeys } from "./job/retention.ts";
import {
  countWorkflows,
  deleteWorkflow,
  insertWorkflow,
  putBuiltinWorkflow,
  selectWorkflow,
  selectWorkflows,
  updateWorkflow,
  workflowText,
  workflowTexts,
} from "./job/workflows.ts";

/** Options for opening a store. */
export interface SqliteOptions extends ConnectionWatch {
  /** The clock for leases and due times; the system's unless given. */
  readonly now?: Now;
}

/**
 * Opens the store, creating file and schema if needed.
 * @param path a file, or `:memory:`
 * @param schema the steps of another program than this one
 * @throws {AgentError} `other_schema` when a newer program or an unreleased one wrote the file; `conflict` when it was
 *   removed without its log
 */
export async function openSqliteStore(
  path: string,
  { now = systemNow, ...watch }: SqliteOptions = {},
  schema?: SchemaSteps,
): Promise<LocalStore> {
  if (path !== IN_MEMORY) {
    await named(path, () => requireOwnLog(path));
    await named(path, () => keepOlder(path, watch.migrating, schema));
  }
  const db = await named(path, () => new Connection(path, watch, schema));
  const index = indexStore(db);
  const begun = new WaitingClaims(db, now, watch.timers);
  try {
    await fillRows(db, index);
  } catch (error) {
    await db.close();
    throw error;
  }
  return {
    workflows: workflowStore(db, now),
    jobs: jobStore(db, begun, now),
    info: infoStore(db),
    log: {
      lines: (uuid, page) => db.durably(() => selectLog(db, uuid, page)),
      attempts: (uuid) => db.durably(() => selectAttempts(db, uuid)),
    },
    callbacks: callbackStore(db, now),
    events: {
      append: (event) => db.write("event_append", () => insertEvent(db, event, now())),
      bounds: () => db.durably(() => selectEventBounds(db)),
      after: (seq, limit, filter = {}) => db.durably(() => selectEvents(db, seq, limit, filter)),
      follow: (committed) => db.follow(committed),
    },
    index,
    images: imageStore(db),
    media: openMediaStore(db),
    machineClaims: openMachineClaims(db, now),
    hosts: hostStore(db, begun, now),
    machineHistories: openMachineHistories(db),
    machineReports: null,
    journal: openJournalRows(db),
    measures: {
      read: () => db.durably(() => selectMeasures(db, now())),
      check: () => db.write("store_check", () => writeCheck(db, now())),
    },
    kind: "sqlite",
    shared: false,
    close: () => {
      begun.close();
      return db.close();
    },
  };
}

/** Names the file in an error of SQLite. */
async function named<T>(path: string, open: () => T | Promise<T>): Promise<T> {
  try {
    return await open();
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const refused = /unable to open/.test(messageOf(error)) ? await refusedBeside(path) : undefined;
    const why = refused === undefined ? messageOf(error) : systemReason(refused);
    const message = `Cannot open the store ${JSON.stringify(path)}: ${why}`;
    throw new AgentError(systemCode(refused) ?? "internal", message, { cause: error });
  }
}

/** The error of the system for a file beside this one: SQLite does not say why it could not make one. */
async function refusedBeside(path: string): Promise<unknown> {
  const probe = `${path}.probe`;
  try {
    (await Deno.open(probe, { write: true, create: true, mode: 0o600 })).close();
    await Deno.remove(probe);
    return undefined;
  } catch (error) {
    return error;
  }
}

function workflowStore(db: Connection, now: Now): WorkflowStore {
  return {
    create: (workflow, rules) =>
      db.write("workflow_create", () => insertWorkflow(db, workflow, now(), rules)),
    putBuiltin: (...workflows) =>
      db.write("workflow_builtin", () => {
        for (const workflow of workflows) putBuiltinWorkflow(db, workflow, now());
      }),
    replace: (workflow, rules = {}) =>
      db.write("workflow_replace", () => updateWorkflow(db, workflow, rules)),
    remove: (uuid) => db.write("workflow_remove", () => deleteWorkflow(db, uuid)),
    get: (uuid) => db.durably(() => selectWorkflow(db, uuid)),
    list: (filter, page = {}) => db.durably(() => selectWorkflows(db, filter, page)),
    text: (uuid, as) => db.durably(() => workflowText(db, uuid, as)),
    texts: (filter, page) => db.durably(() => workflowTexts(db, filter, page)),
    count: (filter) => db.durably(() => countWorkflows(db, filter)),
  };
}

function jobStore(db: Connection, begun: WaitingClaims, now: Now): JobStore {
  /** A write that depends on what runners hold. */
  const write = <T>(name: string, run: () => T): Promise<T> => {
    begun.write();
    return db.write(name, run);
  };
  return {
    ...openJobCreation(db, begun, now),
    earlier: (idempotency) => db.durably(() => earlierJob(db, idempotency)),
    get: (uuid) => db.durably(() => selectJob(db, uuid)),
    text: (uuid, showing) => db.durably(() => jobText(db, uuid, showing)),
    bytes: (uuid) => db.durably(() => jobBytes(db, uuid)),
    execution: (uuid) => db.durably(() => selectExecution(db, uuid)),
    list: (filter, page = {}) => listJobs(db, filter, page),
    texts: (filter, page, showing) => jobTexts(db, filter, page, showing),
    keys: (filter, page = {}) => listKeys(db, filter, page),
    summaries: (filter, page) => listSummaries(db, filter, page),
    summaryCounts: (filter) => countSummaries(db, filter),
    summary: (uuid) => db.durably(() => selectSummary(db, uuid)),
    ofTarget: (target, limit) => db.durably(() => selectJobsOfTarget(db, target, limit)),
    count: (filter) => countJobs(db, filter),
    hasParam: (name) => hasParam(db, name),
    claim: async (life, limit) => {
      // This is only a hint, so it need not wait until the rows are durable.
      const due: NextDue = isCordoned(db) ? { kind: "none" } : selectNextDue(db, now());
      if (limit === 0 || due.kind !== "ready") return { jobs: [], due };
      return await write("job_claim", () => claimJobs(db, life, limit, now()));
    },
    // This claims nothing, so it need not wait until the rows are durable.
    ready: (life, limit, passedOver) => answer(() => readyJobs(db, life, limit, passedOver, now())),
    hold: (life, jobs) => begun.hold(life, jobs),
    // A job may start before its row is durable, because its claim is written later.
    follow: (noticed) => db.followJobs(noticed),
    watch: () => () => {},
    hurry: () => {
      begun.write();
      db.hurry();
    },
    begin: (life, earlier, leaseMs) =>
      write("job_begin", () => beginLife(db, life, earlier, leaseMs, now())),
    renew: (life, held, leaseMs) =>
      write("job_renew", () => renewLease(db, life, held, leaseMs, now())),
    recordAttempt: (record) => write("job_attempt", () => recordAttempt(db, record, now())),
    release: (hold, elapsedMs) =>
      write("job_release", () => releaseJob(db, hold, elapsedMs, now())),
    abandon: (hold) => write("job_abandon", () => abandonJob(db, hold, now())),
    rescue: (runner) => db.write("job_rescue", () => rescueJobs(db, runner, now())),
    cancel: (uuid, showing) => write("job_cancel", () => cancelJob(db, uuid, now(), showing)),
    resume: (uuid, resume, showing, call) =>
      write("job_resume", () => resumeJob(db, uuid, resume, now(), showing, call ?? null)),
    stats: () => db.durably(() => selectStats(db, now())),
    finished: (since) => db.durably(() => selectFinished(db, since)),
    pruneInfo: (entries) => db.write("info_prune", () => pruneInfo(db, entries)),
    pruneKeys: (limit) => db.write("key_prune", () => pruneKeys(db, now(), limit)),
    prune: (retention) => db.write("job_prune", () => prune(db, retention, now())),
  };
}

function infoStore(db: Connection): InfoStore {
  return {
    append: (uuid, entry, now, entriesMax, attempt, call) => {
      const by = { attempt: attempt ?? null, call: call ?? null };
      return db.write("info_append", () => insertInfo(db, uuid, entry, now, entriesMax, by));
    },
    list: (uuid, after = 0, limit = -1) => db.durably(() => selectInfo(db, uuid, after, limit)),
    texts: (uuid, after, limit) => db.durably(() => infoTexts(db, uuid, after, limit)),
  };
}

function callbackStore(db: Connection, now: Now): CallbackStore {
  return {
    take: (againMs, limit, passedOver = []) =>
      db.write("callback_take", () => takeCallbacks(db, now(), againMs, limit, passedOver)),
    nextDue: (passedOver = []) => answer(() => selectNextCallback(db, now(), passedOver)),
    done: (uuid) => db.write("callback_done", () => deleteCallback(db, uuid)),
    postpone: (uuid, waitMs) => {
      const due = instantAfter(now(), waitMs);
      return db.write("callback_postpone", () => postponeCallback(db, uuid, due));
    },
  };
}

function indexStore(db: Connection): IndexStore {
  return {
    get: async (path) => {
      const row = await db.durably(() => selectDocument(db, path));
      return row === undefined ? undefined : await unpackDocument(row);
    },
    list: () => db.durably(() => selectDocuments(db)),
    swap: async (put, remove, sync, pins) => {
      const rows = await readRows(put);
      const packed = await packDocuments(put);
      return await db.write("index_swap", () => {
        for (const path of remove) {
          deleteDocument(db, path);
          removeRows(db, path);
        }
        for (const document of packed) upsertDocument(db, document);
        putRows(db, rows);
        if (pins !== undefined) changePins(db, pins);
        insertSync(db, sync);
      });
    },
    lastSync: () => db.durably(() => selectLastSync(db)),
    pins: (distro, release) => db.durably(() => selectPins(db, distro, release)),
  };
}

function imageStore(db: Connection): ImageStore {
  return {
    search: (filter, page) => db.durably(() => searchImages(db, filter, page)),
    count: (filter) => db.durably(() => countImages(db, filter)),
  };
}

/** Runs a function immediately, and returns its result or error as a promise. */
function answer<T>(read: () => T): Promise<T> {
  return new Promise((resolve) => resolve(read()));
}
