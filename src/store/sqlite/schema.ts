// The tables of the store. Whatever the schema can refuse, it refuses: words outside a closed list by CHECKs,
// a second unfinished job of a target by a unique partial index, a second result of a task by a primary key.

import { EVENTS_KEPT } from "../event_store.ts";
import { COUNTER_TABLES } from "./counters.ts";
import { LOCAL_TABLES } from "./local_tables.ts";
import { JOB_CHANGES } from "../../domain/event.ts";
import { EXECUTIONS, PHASES } from "../../domain/job/state.ts";
import {
  FINISHED,
  HOLDS_TARGET,
  isOneOf,
  JOB_RULES,
  LOG_CHECKS,
  OF_AGENT,
  REMOVABLE,
} from "../sql.ts";

/** Workflows, jobs, and what belongs to jobs. */
const JOB_TABLES = `
  CREATE TABLE workflows (
    -- An id is never reused, so that a list that is read in parts misses no newer workflow.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- The workflow as sent, with uuids; JSON text.
    body TEXT NOT NULL,
    builtin INTEGER NOT NULL CHECK (builtin IN (0, 1)),
    created_at TEXT NOT NULL
  ) STRICT;
  CREATE INDEX workflows_name ON workflows (name);

  -- What jobs keep of their workflow; jobs of an unchanged workflow share a row.
  CREATE TABLE definitions (
    -- An id is never reused, so that values cached by id stay true.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow_uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Length of the three chains together, which differs between most definitions of a workflow.
    chars INTEGER NOT NULL,
    chain TEXT NOT NULL,
    onerror TEXT NOT NULL,
    oncancel TEXT NOT NULL,
    timeout INTEGER NOT NULL CHECK (timeout > 0)
  ) STRICT;
  CREATE INDEX definitions_workflow ON definitions (workflow_uuid, chars, id);
  CREATE INDEX definitions_name ON definitions (name);

  CREATE TABLE jobs (
    -- Increases with every job, in order of creation even within one millisecond. An id is never reused, so that a list
    -- that is read in parts never shows a newer job behind an older one.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    workflow_uuid TEXT NOT NULL,
    definition_id INTEGER NOT NULL REFERENCES definitions (id),
    execution TEXT NOT NULL CHECK ${isOneOf("execution", EXECUTIONS)},
    phase TEXT NOT NULL CHECK ${isOneOf("phase", PHASES)},
    -- Whether the definition has an oncancel chain.
    undoable INTEGER NOT NULL CHECK (undoable IN (0, 1)),
    exec_after TEXT NOT NULL,
    -- When a runner may claim the job; null while no runner may.
    claimable_at TEXT,
    -- Place among the ready jobs; null before claimable_at has come. See turns.ts.
    turn INTEGER,
    target TEXT,
    -- SHA-256 of the canonical params; only jobs with a target are compared.
    params_sha256 TEXT,
    -- Pattern of the targets that no other job may have while this one is unfinished.
    locks TEXT,
    callback_url TEXT,
    callback_host TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    -- Time spent in the current phase, and in the phases before it.
    elapsed_ms INTEGER NOT NULL CHECK (elapsed_ms >= 0),
    phases_ms INTEGER NOT NULL CHECK (phases_ms >= 0),
    -- When elapsed_ms was last updated, while a runner holds the job.
    elapsed_at TEXT,
    -- Failed attempts of the current task, and when the next one may begin.
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    retry_at TEXT,
    -- Why the job failed, in one line.
    error TEXT,
    runner_id TEXT,
    -- Number of the claim under which a runner holds the job; a write under an earlier claim is refused.
    lease INTEGER NOT NULL CHECK (lease >= 0),
    starts INTEGER NOT NULL CHECK (starts >= 0),
    -- The machine that the job creates or acts on, if any.
    machine_uuid TEXT,
    -- How many other rows keep the job from being removed: its idempotency key and its callback.
    kept INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0),
    -- Large columns come last, so that SQLite finds those before them without reading them.
    params TEXT NOT NULL,
    props TEXT NOT NULL,
    -- The params of the request, once tasks have changed them; null before.
    requested_params TEXT,
    ${JOB_RULES.map((rule) => `CHECK (${rule})`).join(",\n    ")},
    CHECK (phase <> 'oncancel' OR undoable = 1),
    CHECK (execution <> 'canceled' OR phase = 'oncancel'
      OR (claimable_at IS NULL AND runner_id IS NULL))
  ) STRICT;
  CREATE INDEX jobs_definition ON jobs (definition_id);
  -- Contains the uuid, so that skipping jobs whose claims are being written reads no table rows.
  CREATE INDEX jobs_ready ON jobs (turn, id, uuid) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_ready_of_workflow ON jobs (workflow_uuid, turn) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_delayed ON jobs (claimable_at, id)
    WHERE claimable_at IS NOT NULL AND turn IS NULL;
  CREATE INDEX jobs_owned ON jobs (runner_id) WHERE runner_id IS NOT NULL;
  CREATE INDEX jobs_execution ON jobs (execution, id);
  CREATE INDEX jobs_created ON jobs (created_at);
  -- Lists in the order of ends.
  CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
  -- Only the finished jobs that may be removed, so that retention examines none that are kept.
  CREATE INDEX jobs_removable ON jobs (finished_at) WHERE ${REMOVABLE};
  CREATE INDEX jobs_target ON jobs (target, id) WHERE target IS NOT NULL;
  CREATE INDEX jobs_locks ON jobs (id)
    WHERE locks IS NOT NULL AND ${HOLDS_TARGET};
  -- Only one of two equal requests gets a job, even if they arrive together.
  CREATE UNIQUE INDEX jobs_unfinished_target ON jobs (target, params_sha256)
    WHERE target IS NOT NULL AND ${HOLDS_TARGET};
  -- Two unfinished jobs of one machine would undo each other's work.
  CREATE UNIQUE INDEX jobs_unfinished_machine ON jobs (machine_uuid)
    WHERE machine_uuid IS NOT NULL AND ${HOLDS_TARGET};

  CREATE TABLE task_results (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    phase TEXT NOT NULL CHECK ${isOneOf("phase", PHASES)},
    position INTEGER NOT NULL CHECK (position >= 0),
    -- Id of the call that ended the wait of this task, by which a repetition is recognized.
    resumed_by TEXT,
    entry TEXT NOT NULL,
    PRIMARY KEY (job_id, phase, position)
  ) STRICT, WITHOUT ROWID;

  -- The lines of the logs of jobs: info entries, and failed attempts of tasks. They may outlive their job for a while,
  -- because they are removed after it in batches.
  CREATE TABLE job_log (
    -- Order of the lines of all jobs. A number is never reused, so that a reader that has read up to a line misses none
    -- after it.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL,
    -- Position of an entry in the info of its job; null for an attempt.
    position INTEGER CHECK (position >= 0),
    -- The phase of an attempt, and the position of its task in it; null for an entry.
    phase TEXT CHECK ${isOneOf("phase", PHASES)},
    task INTEGER CHECK (task >= 0),
    -- Number of the attempt, or of the one that wrote the entry.
    attempt INTEGER CHECK (attempt > 0),
    -- Id of the call that appended an entry, by which a repetition is recognized.
    call_id TEXT,
    entry TEXT NOT NULL,
    created_at TEXT NOT NULL,
    ${LOG_CHECKS}
  ) STRICT;
  CREATE INDEX job_log_job ON job_log (job_id, seq);
  CREATE UNIQUE INDEX job_log_info ON job_log (job_id, position) WHERE position IS NOT NULL;
  CREATE UNIQUE INDEX job_log_calls ON job_log (job_id, call_id) WHERE call_id IS NOT NULL;
  CREATE UNIQUE INDEX job_log_attempts ON job_log (job_id, phase, task, attempt)
    WHERE phase IS NOT NULL;
  CREATE TABLE removed_jobs (job_id INTEGER PRIMARY KEY) STRICT;

  -- How long the jobs of a runner stay its own without a heartbeat.
  CREATE TABLE runners (
    runner_id TEXT PRIMARY KEY,
    -- The life of the runner that has the lease; an earlier life can no longer claim or renew.
    incarnation TEXT NOT NULL,
    leased_until TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- The only host of this store. Its uuid is the id of its runner.
  CREATE TABLE hosts (
    uuid TEXT PRIMARY KEY,
    incarnation TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    slots INTEGER NOT NULL CHECK (slots > 0),
    brands TEXT NOT NULL,
    address TEXT,
    generation INTEGER NOT NULL CHECK (generation > 0),
    lease_ms INTEGER NOT NULL CHECK (lease_ms > 0),
    cordoned INTEGER NOT NULL DEFAULT 0 CHECK (cordoned IN (0, 1))
  ) STRICT;

  CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    -- SHA-256 of the canonical request that used the key first.
    request_sha256 TEXT NOT NULL,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    created_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_keys_job ON idempotency_keys (job_id);
  CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);
  -- A job with a key is written with kept = 1.
  CREATE TRIGGER idempotency_keys_delete AFTER DELETE ON idempotency_keys BEGIN
    UPDATE jobs SET kept = kept - 1 WHERE id = old.job_id;
  END;

  -- Finished jobs whose callback_url has not been called yet.
  CREATE TABLE callbacks (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    due_at TEXT NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0)
  ) STRICT;
  CREATE INDEX callbacks_due ON callbacks (due_at);
  CREATE TRIGGER callbacks_insert AFTER INSERT ON callbacks BEGIN
    UPDATE jobs SET kept = kept + 1 WHERE id = new.job_id;
  END;
  CREATE TRIGGER callbacks_delete AFTER DELETE ON callbacks BEGIN
    UPDATE jobs SET kept = kept - 1 WHERE id = old.job_id;
  END;

  -- The machines that jobs have begun to create.
  CREATE TABLE machine_claims (
    uuid TEXT PRIMARY KEY,
    -- The host of the machine, the only one that can remove leftovers of it.
    host TEXT NOT NULL,
    -- Not a foreign key, because a claim outlives its job while leftovers of the machine may exist.
    job_uuid TEXT NOT NULL,
    workflow_uuid TEXT NOT NULL,
    -- How the job ended, set when its row is removed.
    execution TEXT CHECK (execution IN ${FINISHED}),
    claimed_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_try_at TEXT,
    error TEXT,
    CHECK ((tries = 0) = (error IS NULL))
  ) STRICT;
  CREATE INDEX machine_claims_job ON machine_claims (job_uuid);

  -- The row that a check of the store writes.
  CREATE TABLE write_checks (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    checked_at TEXT NOT NULL
  ) STRICT;
`;

/** Old events are removed in batches of this size. */
const REMOVED_AT_ONCE = 500;
/** Largest payload of an event that is not about a row, bytes. */
const BODY_BYTES_MAX = 2048;

const PRESENT = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/**
 * The table of events, each a narrow row. Triggers insert them in the transaction of the change that they report. Only the
 * frequent events, about changes of jobs, are written by job/traces.ts. events.ts reads them.
 */
const EVENT_TABLES = `
  CREATE TABLE events (
    -- The newest row is never removed, so no number is reused.
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    -- Not a foreign key: events of a removed job are skipped.
    job_id INTEGER,
    -- Of kind job: what happened, the chain before it with its number of ended tasks, and the chain after it.
    change TEXT CHECK ${isOneOf("change", JOB_CHANGES)},
    state TEXT CHECK ${isOneOf("state", EXECUTIONS)},
    phase TEXT CHECK ${isOneOf("phase", PHASES)},
    ended INTEGER,
    next_phase TEXT CHECK ${isOneOf("next_phase", PHASES)},
    -- Of kind log: the line.
    line INTEGER,
    -- JSON, for the kinds that are about no other row.
    body TEXT CHECK (octet_length(body) <= ${BODY_BYTES_MAX}),
    -- The columns of each kind; there are no other kinds. They are compared one after another, the most frequent first,
    -- because SQLite would build an index per row for a list of words.
    CHECK (CASE kind
      WHEN 'job' THEN
        job_id IS NOT NULL AND change IS NOT NULL AND line IS NULL AND body IS NULL
      WHEN 'log' THEN
        job_id IS NOT NULL AND change IS NULL AND line IS NOT NULL AND body IS NULL
      WHEN 'machine' THEN
        job_id IS NOT NULL AND change IS NULL AND line IS NULL AND body IS NULL
      WHEN 'removed_job' THEN
        job_id IS NOT NULL AND change IS NULL AND line IS NULL AND body IS NOT NULL
      WHEN 'media' THEN ${OF_AGENT}
      WHEN 'index' THEN ${OF_AGENT}
      WHEN 'host' THEN ${OF_AGENT}
      WHEN 'own_machine' THEN ${OF_AGENT}
      ELSE 0
    END)
  ) STRICT;
  -- A reader of some jobs reads only their events.
  CREATE INDEX events_job ON events (job_id, kind) WHERE job_id IS NOT NULL;
  -- Finds a removed job by uuid, since its row no longer exists.
  CREATE INDEX events_removed ON events (body) WHERE kind = 'removed_job';
  CREATE TRIGGER events_bounded AFTER INSERT ON events WHEN new.seq % ${REMOVED_AT_ONCE} = 0 BEGIN
    DELETE FROM events WHERE seq <= new.seq - ${EVENTS_KEPT + REMOVED_AT_ONCE};
  END;

  CREATE TRIGGER events_job_removed AFTER DELETE ON jobs BEGIN
    INSERT INTO events (kind, at, job_id, body)
      VALUES ('removed_job', ${PRESENT}, old.id, json_object('job_uuid', old.uuid));
  END;
  CREATE TRIGGER events_log AFTER INSERT ON job_log BEGIN
    INSERT INTO events (kind, at, job_id, line) VALUES ('log', new.created_at, new.job_id, new.seq);
  END;

  -- The first check after the end of the job has found that the claim still stands; release() reports the end.
  CREATE TRIGGER events_leftover_made AFTER UPDATE OF next_try_at ON machine_claims
  WHEN old.next_try_at IS NULL AND new.next_try_at IS NOT NULL BEGIN
    INSERT INTO events (kind, at, body) VALUES (
      'own_machine',
      ${PRESENT},
      json_object('change', 'leftover_made', 'machine_uuid', new.uuid, 'job_uuid', new.job_uuid)
    );
  END;
  -- Another job creates a machine with this uuid, so nothing was left of the old one.
  CREATE TRIGGER events_leftover_taken AFTER UPDATE OF job_uuid ON machine_claims
  WHEN old.next_try_at IS NOT NULL AND new.next_try_at IS NULL BEGIN
    INSERT INTO events (kind, at, body) VALUES (
      'own_machine',
      ${PRESENT},
      json_object('change', 'leftover_removed', 'machine_uuid', new.uuid, 'job_uuid', old.job_uuid)
    );
  END;
`;

/** Stores the event of a file that was added or removed. @param row the row of the trigger */
function mediaEvent(change: "added" | "removed", row: "new" | "old"): string {
  return `INSERT INTO events (kind, at, body) VALUES (
      'media',
      ${PRESENT},
      json_object(
        'change', '${change}', 'name', substr(${row}.name, 1, 255), 'sha256', ${row}.sha256, 'size', ${row}.size,
        'done', NULL, 'error', NULL
      )
    );`;
}

/** Events of this host's files and of its index. */
const LOCAL_EVENTS = `
  CREATE TRIGGER events_media_added AFTER INSERT ON media_files BEGIN
    ${mediaEvent("added", "new")}
  END;
  CREATE TRIGGER events_media_removed AFTER DELETE ON media_files BEGIN
    ${mediaEvent("removed", "old")}
  END;
  CREATE TRIGGER events_index AFTER INSERT ON index_syncs BEGIN
    INSERT INTO events (kind, at, body) VALUES (
      'index',
      ${PRESENT},
      json_object(
        'change', iif(new.report ->> '$.outcome' = 'failed', 'sync_failed', 'sync_finished'),
        'outcome', new.report ->> '$.outcome',
        'added', new.report ->> '$.added',
        'changed', new.report ->> '$.changed',
        'removed', new.report ->> '$.removed',
        'problems', json_array_length(new.report, '$.problems')
      )
    );
  END;
`;

/** Creates the tables in an empty file. */
export const SCHEMA = `${JOB_TABLES}${COUNTER_TABLES}${LOCAL_TABLES}${EVENT_TABLES}${LOCAL_EVENTS}`;
