// The tables of the store. Whatever the schema can refuse, it refuses: words outside a closed list by CHECKs,
// a second unfinished job of a target by a unique partial index, a second result of a task by a primary key.

import { EVENT_TABLES, LOCAL_EVENTS } from "./event_tables.ts";
import { LOCAL_TABLES } from "./local/local_tables.ts";
import { PLACE_TABLES } from "./place_tables.ts";
import { EXECUTIONS, isFinal, PHASES } from "../../domain/job/state.ts";
import {
  COUNTED,
  counts,
  FINISHED,
  HOLDS_TARGET,
  IS_UNFINISHED,
  isOneOf,
  REMOVABLE,
  removable,
  SPAN,
} from "./words.ts";

/** Workflows, jobs, and what belongs to jobs. */
const JOB_TABLES = `
  CREATE TABLE workflows (
    -- Never used again, so that a list that is read in parts misses no newer workflow.
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
    -- Never used again, so that what was read of a row stays true.
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
    -- Grows with every job: the order of creation, also within one millisecond. Never used again,
    -- so that a list that is read in parts never meets a newer job behind an older one.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    workflow_uuid TEXT NOT NULL,
    definition_id INTEGER NOT NULL REFERENCES definitions (id),
    execution TEXT NOT NULL CHECK ${isOneOf("execution", EXECUTIONS)},
    phase TEXT NOT NULL CHECK ${isOneOf("phase", PHASES)},
    -- Whether the definition has an oncancel chain.
    undoable INTEGER NOT NULL CHECK (undoable IN (0, 1)),
    exec_after TEXT NOT NULL,
    -- From when on a runner may claim the job; null when it is not to be claimed.
    claimable_at TEXT,
    -- Place among the ready jobs: null until claimable_at has come. See turns.ts.
    turn INTEGER,
    target TEXT,
    -- SHA-256 of the canonical params; only jobs with a target are compared.
    params_sha256 TEXT CHECK ((params_sha256 IS NULL) = (target IS NULL)),
    -- Pattern of the targets that no other job may have while this one is unfinished.
    locks TEXT,
    callback_url TEXT,
    callback_host TEXT CHECK ((callback_host IS NULL) = (callback_url IS NULL)),
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    -- Time spent running the present phase, and the phases before it.
    elapsed_ms INTEGER NOT NULL CHECK (elapsed_ms >= 0),
    phases_ms INTEGER NOT NULL CHECK (phases_ms >= 0),
    -- Until when elapsed_ms counts, while a runner holds the job.
    elapsed_at TEXT,
    -- Attempts of the present task that have failed, and from when on the next one may begin.
    failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    retry_at TEXT,
    -- Why the job failed, in one line.
    error TEXT,
    runner_id TEXT,
    -- Number of the claim under which a runner holds the job; a write of an earlier one is refused.
    lease INTEGER NOT NULL CHECK (lease >= 0),
    starts INTEGER NOT NULL CHECK (starts >= 0),
    -- The machine that the job makes or acts on, when it is a job of a machine.
    machine_uuid TEXT,
    -- Rows elsewhere without which the job may not go: its idempotency key and its callback.
    kept INTEGER NOT NULL DEFAULT 0 CHECK (kept >= 0),
    -- Last, since they may be large: what stands before them is found without reading them.
    params TEXT NOT NULL,
    props TEXT NOT NULL,
    -- The params as they were asked for, once tasks have changed them; null while they have not.
    requested_params TEXT,
    CHECK (turn IS NULL OR claimable_at IS NOT NULL),
    CHECK ((elapsed_at IS NULL) = (runner_id IS NULL)),
    CHECK (failures > 0 OR retry_at IS NULL),
    CHECK (execution <> 'queued' OR (claimable_at IS NOT NULL AND runner_id IS NULL)),
    CHECK (execution <> 'running' OR (claimable_at IS NULL AND runner_id IS NOT NULL)),
    CHECK (execution <> 'running' OR started_at IS NOT NULL),
    CHECK (execution <> 'succeeded' OR phase = 'chain'),
    CHECK (phase <> 'oncancel' OR undoable = 1),
    CHECK (execution = 'queued' OR execution = 'running' OR execution = 'canceled'
      OR (claimable_at IS NULL AND runner_id IS NULL)),
    CHECK (execution <> 'canceled' OR phase = 'oncancel'
      OR (claimable_at IS NULL AND runner_id IS NULL)),
    CHECK ((finished_at IS NULL) = ${IS_UNFINISHED})
  ) STRICT;
  CREATE INDEX jobs_definition ON jobs (definition_id);
  -- The uuid too: who reads past the jobs whose claims are being written reads no rows.
  CREATE INDEX jobs_ready ON jobs (turn, id, uuid) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_ready_of_workflow ON jobs (workflow_uuid, turn) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_delayed ON jobs (claimable_at, id)
    WHERE claimable_at IS NOT NULL AND turn IS NULL;
  CREATE INDEX jobs_owned ON jobs (runner_id) WHERE runner_id IS NOT NULL;
  CREATE INDEX jobs_execution ON jobs (execution, id);
  CREATE INDEX jobs_created ON jobs (created_at);
  -- Lists in the order of ends.
  CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
  -- The finished jobs that may be removed, and no others: however many are kept, none is looked at.
  CREATE INDEX jobs_removable ON jobs (finished_at) WHERE ${REMOVABLE};
  CREATE INDEX jobs_target ON jobs (target, id) WHERE target IS NOT NULL;
  CREATE INDEX jobs_locks ON jobs (id)
    WHERE locks IS NOT NULL AND ${HOLDS_TARGET};
  -- Of two equal requests one gets a job, also when they arrive together.
  CREATE UNIQUE INDEX jobs_unfinished_target ON jobs (target, params_sha256)
    WHERE target IS NOT NULL AND ${HOLDS_TARGET};
  -- A second unfinished job of a machine would undo what the first one does.
  CREATE UNIQUE INDEX jobs_unfinished_machine ON jobs (machine_uuid)
    WHERE machine_uuid IS NOT NULL AND ${HOLDS_TARGET};

  CREATE TABLE task_results (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    phase TEXT NOT NULL CHECK ${isOneOf("phase", PHASES)},
    position INTEGER NOT NULL CHECK (position >= 0),
    -- Names the call that ended the wait of this task, where a repetition must be known.
    resumed_by TEXT,
    entry TEXT NOT NULL,
    PRIMARY KEY (job_id, phase, position)
  ) STRICT, WITHOUT ROWID;

  -- The lines of the logs of jobs: entries of their info, and attempts of their tasks that failed.
  -- They may outlive their job for a while: they are removed after it, some at a time.
  CREATE TABLE job_log (
    -- The order of the lines of all jobs. Never used again, so that who has read up to a line
    -- misses none after it.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL,
    -- Place of an entry in the info of its job; null for an attempt.
    position INTEGER CHECK (position >= 0),
    -- The chain of an attempt, and the place of its task there; null for an entry.
    phase TEXT CHECK ${isOneOf("phase", PHASES)},
    task INTEGER CHECK (task >= 0),
    -- Number of the attempt, or of the one that wrote the entry.
    attempt INTEGER CHECK (attempt > 0),
    -- Names the call that appended an entry, where a repetition must be known.
    call_id TEXT,
    entry TEXT NOT NULL,
    created_at TEXT NOT NULL,
    CHECK ((position IS NULL) = (phase IS NOT NULL)),
    CHECK ((phase IS NULL) = (task IS NULL)),
    CHECK (phase IS NULL OR attempt IS NOT NULL)
  ) STRICT;
  CREATE INDEX job_log_job ON job_log (job_id, seq);
  CREATE UNIQUE INDEX job_log_info ON job_log (job_id, position) WHERE position IS NOT NULL;
  CREATE UNIQUE INDEX job_log_calls ON job_log (job_id, call_id) WHERE call_id IS NOT NULL;
  CREATE UNIQUE INDEX job_log_attempts ON job_log (job_id, phase, task, attempt)
    WHERE phase IS NOT NULL;
  CREATE TABLE removed_jobs (job_id INTEGER PRIMARY KEY) STRICT;

  -- Until when the jobs of a runner are its own although nothing is heard of it.
  CREATE TABLE runners (
    runner_id TEXT PRIMARY KEY,
    -- Which life of the runner has the lease: an earlier one claims and renews nothing any more.
    incarnation TEXT NOT NULL,
    leased_until TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- The host of this store, which is the only one. Its uuid is the id of its runner.
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

  -- The machines that jobs have begun to make.
  CREATE TABLE machine_claims (
    uuid TEXT PRIMARY KEY,
    -- The host of the machine, which alone can remove what is left of it.
    host TEXT NOT NULL,
    -- No reference: a claim outlives its job while something of the machine may be left.
    job_uuid TEXT NOT NULL,
    workflow_uuid TEXT NOT NULL,
    -- How the job ended, once its row is removed; until then the row says it.
    execution TEXT CHECK (execution IN ${FINISHED}),
    claimed_at TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_try_at TEXT,
    error TEXT,
    CHECK ((tries = 0) = (error IS NULL))
  ) STRICT;
  CREATE INDEX machine_claims_job ON machine_claims (job_uuid);

  -- What a check of the store writes, to see that it can.
  CREATE TABLE write_checks (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    checked_at TEXT NOT NULL
  ) STRICT;
`;

const MINUTE = `'${SPAN.minute}' || substr(old.created_at, 1, 16)`;
const SECOND = `'${SPAN.second}' || substr(old.created_at, 1, 19)`;
const SPANS = `'${SPAN.all}', ${MINUTE}, ${SECOND}`;

const COLUMNS = COUNTED.join(", ");
/** Sets every column by what the row counted before and what it counts now. */
const moved = COUNTED.map((column) =>
  `${column} = ${column} + ${counts(column, "new.")} - ${counts(column, "old.")}`
).join(", ");
const ONE = COUNTED.map((column) => counts(column, "new.")).join(", ");
const MORE = COUNTED.map((column) => `${column} = ${column} + excluded.${column}`).join(", ");
const LESS = COUNTED.map((column) => `${column} = ${column} - ${counts(column, "old.")}`).join(
  ", ",
);

/**
 * Counters of jobs, which triggers keep exact, so that no count takes longer with a long history. A minute, a
 * second or an hour without jobs has no row. job/counts.ts reads them.
 */
const COUNT_TABLES = `
  -- Jobs by the time of their creation. GET /stats reads this instead of counting jobs; it needs the seconds,
  -- since the minute in which a window begins may hold a hundred thousand jobs.
  CREATE TABLE job_counts (
    -- Its letter, then the beginning of created_at.
    span TEXT PRIMARY KEY,
    ${COUNTED.map((column) => `${column} INTEGER NOT NULL CHECK (${column} >= 0)`).join(",\n    ")}
  ) STRICT, WITHOUT ROWID;
  INSERT INTO job_counts (span, ${COLUMNS}) VALUES ('${SPAN.all}', ${
  COUNTED.map(() => 0).join(", ")
});
  CREATE TRIGGER job_counts_insert AFTER INSERT ON jobs BEGIN
    INSERT INTO job_counts (span, ${COLUMNS}) VALUES
      ('${SPAN.all}', ${ONE}),
      (${MINUTE.replace("old.", "new.")}, ${ONE}),
      (${SECOND.replace("old.", "new.")}, ${ONE})
      ON CONFLICT DO UPDATE SET ${MORE};
  END;
  CREATE TRIGGER job_counts_update AFTER UPDATE OF execution ON jobs
  WHEN old.execution <> new.execution
    AND NOT (${counts("queued", "old.")} AND ${counts("queued", "new.")}) BEGIN
    UPDATE job_counts SET ${moved} WHERE span IN (${SPANS});
  END;
  CREATE TRIGGER job_counts_delete AFTER DELETE ON jobs BEGIN
    UPDATE job_counts SET ${LESS} WHERE span IN (${SPANS});
    DELETE FROM job_counts WHERE span IN (${MINUTE}, ${SECOND}) AND ${COUNTED.join(" + ")} = 0;
  END;

  -- Jobs that ended, by hour of their end and by how: GET /agent/v1/stats/hourly reads this instead of
  -- counting jobs.
  CREATE TABLE finished_counts (
    hour TEXT NOT NULL,
    execution TEXT NOT NULL CHECK ${isOneOf("execution", EXECUTIONS.filter(isFinal))},
    jobs INTEGER NOT NULL CHECK (jobs >= 0),
    PRIMARY KEY (hour, execution)
  ) STRICT, WITHOUT ROWID;
  CREATE TRIGGER finished_counts_insert AFTER INSERT ON jobs
  WHEN new.finished_at IS NOT NULL BEGIN
    INSERT INTO finished_counts (hour, execution, jobs)
      VALUES (substr(new.finished_at, 1, 13), new.execution, 1)
      ON CONFLICT DO UPDATE SET jobs = jobs + 1;
  END;
  CREATE TRIGGER finished_counts_update AFTER UPDATE OF execution, finished_at ON jobs
  WHEN (old.finished_at IS NOT NULL OR new.finished_at IS NOT NULL)
    AND (old.finished_at IS NOT new.finished_at OR old.execution <> new.execution) BEGIN
    UPDATE finished_counts SET jobs = jobs - 1
      WHERE hour = substr(old.finished_at, 1, 13) AND execution = old.execution;
    DELETE FROM finished_counts
      WHERE hour = substr(old.finished_at, 1, 13) AND execution = old.execution AND jobs = 0;
    INSERT INTO finished_counts (hour, execution, jobs)
      SELECT substr(new.finished_at, 1, 13), new.execution, 1 WHERE new.finished_at IS NOT NULL
      ON CONFLICT DO UPDATE SET jobs = jobs + 1;
  END;
  CREATE TRIGGER finished_counts_delete AFTER DELETE ON jobs
  WHEN old.finished_at IS NOT NULL BEGIN
    UPDATE finished_counts SET jobs = jobs - 1
      WHERE hour = substr(old.finished_at, 1, 13) AND execution = old.execution;
    DELETE FROM finished_counts
      WHERE hour = substr(old.finished_at, 1, 13) AND execution = old.execution AND jobs = 0;
  END;

  -- How many jobs retention may remove, so that it need not count them. A job that is kept for its
  -- idempotency key or its callback is not among them, and no newer one goes in its place.
  CREATE TABLE removable_count (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    jobs INTEGER NOT NULL CHECK (jobs >= 0)
  ) STRICT;
  INSERT INTO removable_count (id, jobs) VALUES (1, 0);
  CREATE TRIGGER removable_insert AFTER INSERT ON jobs WHEN ${removable("new.")} BEGIN
    UPDATE removable_count SET jobs = jobs + 1;
  END;
  CREATE TRIGGER removable_update
  AFTER UPDATE OF finished_at, kept, runner_id, claimable_at ON jobs
  WHEN (${removable("old.")}) <> (${removable("new.")}) BEGIN
    UPDATE removable_count SET jobs = jobs + iif(${removable("new.")}, 1, -1);
  END;
  CREATE TRIGGER removable_delete AFTER DELETE ON jobs WHEN ${removable("old.")} BEGIN
    UPDATE removable_count SET jobs = jobs - 1;
  END;
`;

/** Creates the tables in an empty file. */
export const SCHEMA =
  `${JOB_TABLES}${COUNT_TABLES}${PLACE_TABLES}${LOCAL_TABLES}${EVENT_TABLES}${LOCAL_EVENTS}`;
