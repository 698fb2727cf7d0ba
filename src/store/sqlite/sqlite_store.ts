// The store on one SQLite file. Reads answer at once from the same connection: since writes never
// await inside their transaction, a read sees committed rows only (promise P2).

import { AgentError, messageOf } from "../../domain/error.ts";
import { canonicalJson, type JsonObject } from "../../domain/json.ts";
import type { IndexStore, InfoStore, JobStore, Store, WorkflowStore } from "../store.ts";
import { Connection } from "./connection.ts";
import {
  deleteDocument,
  insertSync,
  selectDocument,
  selectDocuments,
  selectLastSync,
  upsertDocument,
} from "./index_documents.ts";
import { cancelJob, giveBackJob, recordTask, rescueJobs, resumeJob } from "./job_changes.ts";
import { insertInfo, selectInfo } from "./job_info.ts";
import { selectStats } from "./job_stats.ts";
import {
  claimJobs,
  countJobs,
  insertJob,
  selectJob,
  selectJobs,
  selectJobsOfTarget,
  selectNextDue,
} from "./jobs.ts";
import {
  deleteWorkflow,
  insertWorkflow,
  putBuiltinWorkflow,
  selectWorkflow,
  selectWorkflows,
  updateWorkflow,
} from "./workflows.ts";

/**
 * Opens the store, making file and schema when they are missing.
 * @param path a file, or `:memory:`
 * @throws {AgentError} `internal` when a newer program wrote the file
 */
export function openSqliteStore(path: string): Promise<Store> {
  return answer(() => {
    const db = connect(path);
    return {
      workflows: workflowStore(db),
      jobs: jobStore(db),
      info: infoStore(db),
      index: indexStore(db),
      close: () => db.close(),
    };
  });
}

function connect(path: string): Connection {
  try {
    return new Connection(path);
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const message = `Cannot open the store ${JSON.stringify(path)}: ${messageOf(error)}`;
    throw new AgentError("internal", message, { cause: error });
  }
}

function workflowStore(db: Connection): WorkflowStore {
  return {
    create: (workflow, now) => db.write(() => insertWorkflow(db, workflow, now)),
    putBuiltin: (workflow, now) => db.write(() => putBuiltinWorkflow(db, workflow, now)),
    replace: (workflow) => db.write(() => updateWorkflow(db, workflow)),
    remove: (uuid) => db.write(() => deleteWorkflow(db, uuid)),
    get: (uuid) => answer(() => selectWorkflow(db, uuid)),
    list: ({ name }) => answer(() => selectWorkflows(db, name)),
  };
}

function jobStore(db: Connection): JobStore {
  return {
    create: async (job) => {
      const digest = job.target === null ? null : await paramsDigest(job.params);
      return db.write(() => insertJob(db, job, digest));
    },
    get: (uuid) => answer(() => selectJob(db, uuid)),
    list: (filter) => answer(() => selectJobs(db, filter)),
    ofTarget: (target, limit) => answer(() => selectJobsOfTarget(db, target, limit)),
    count: (filter) => answer(() => countJobs(db, filter)),
    claim: (runner, limit, now) => db.write(() => claimJobs(db, runner, limit, now)),
    nextDue: () => answer(() => selectNextDue(db)),
    recordTask: async (record) => {
      const successor = record.next.kind === "retried" ? record.next.successor : null;
      const digest = successor === null || successor.target === null
        ? null
        : await paramsDigest(successor.params);
      return db.write(() => recordTask(db, record, digest));
    },
    release: (uuid, runner, now) => db.write(() => giveBackJob(db, uuid, runner, now, 1)),
    abandon: (uuid, runner, now) => db.write(() => giveBackJob(db, uuid, runner, now, 0)),
    rescue: (runner, now) => db.write(() => rescueJobs(db, runner, now)),
    cancel: (uuid, now) => db.write(() => cancelJob(db, uuid, now)),
    resume: (uuid, resume, now) => db.write(() => resumeJob(db, uuid, resume, now)),
    stats: (now) => answer(() => selectStats(db, now)),
  };
}

function infoStore(db: Connection): InfoStore {
  return {
    append: (uuid, entry, now) => db.write(() => insertInfo(db, uuid, entry, now)),
    list: (uuid, after = 0) => answer(() => selectInfo(db, uuid, after)),
  };
}

function indexStore(db: Connection): IndexStore {
  return {
    get: (path) => answer(() => selectDocument(db, path)),
    list: () => answer(() => selectDocuments(db)),
    swap: (put, remove, sync) =>
      db.write(() => {
        for (const path of remove) deleteDocument(db, path);
        for (const document of put) upsertDocument(db, document);
        insertSync(db, sync);
      }),
    lastSync: () => answer(() => selectLastSync(db)),
  };
}

/** What is computed at once, as a promise; what it throws becomes a rejection. */
function answer<T>(read: () => T): Promise<T> {
  return new Promise((resolve) => resolve(read()));
}

async function paramsDigest(params: JsonObject): Promise<string> {
  const bytes = new TextEncoder().encode(canonicalJson(params));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
