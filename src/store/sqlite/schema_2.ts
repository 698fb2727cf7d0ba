// The second schema. The job's copy of its workflow moves into a row that equal jobs share; jobs
// that are ready get a turn; leases, locks, callbacks and idempotency keys come in.

import { COUNT_TRIGGERS } from "./schema_1.ts";

/** The condition of the schema's partial indexes, word for word, and of the statements that use them. */
export const HOLDS_TARGET = `(execution IN ('queued', 'running', 'waiting')
    OR (execution = 'canceled' AND (runner_id IS NOT NULL OR claimable_at IS NOT NULL)))`;

/** From schema 1 to schema 2. */
export const SCHEMA_2 = `
  CREATE TABLE workflows_2 (
    -- Never used again, so that a list that is read in parts misses no newer workflow.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- The workflow as sent, with uuids; JSON text.
    body TEXT NOT NULL,
    builtin INTEGER NOT NULL CHECK (builtin IN (0, 1)),
    created_at TEXT NOT NULL
  ) STRICT;
  INSERT INTO workflows_2 SELECT id, uuid, name, body, builtin, created_at FROM workflows;
  DROP TABLE workflows;
  ALTER TABLE workflows_2 RENAME TO workflows;
  CREATE INDEX workflows_name ON workflows (name);

  CREATE TABLE definitions (
    -- Never used again, so that what was read of a row stays true.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workflow_uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Length of the three chains together: tells most definitions of a workflow apart.
    chars INTEGER NOT NULL,
    chain TEXT NOT NULL,
    onerror TEXT NOT NULL,
    oncancel TEXT NOT NULL,
    timeout INTEGER NOT NULL CHECK (timeout > 0)
  ) STRICT;
  CREATE INDEX definitions_workflow ON definitions (workflow_uuid, chars, id);
  CREATE INDEX definitions_name ON definitions (name);
  INSERT INTO definitions (workflow_uuid, name, chars, chain, onerror, oncancel, timeout)
    SELECT DISTINCT workflow_uuid, name, length(chain) + length(onerror) + length(oncancel),
           chain, onerror, oncancel, timeout FROM jobs;

  CREATE TABLE jobs_2 (
    -- Grows with every job: the order of creation, also within one millisecond. Never used again,
    -- so that a list that is read in parts never meets a newer job behind an older one.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE,
    workflow_uuid TEXT NOT NULL,
    definition_id INTEGER NOT NULL REFERENCES definitions (id),
    execution TEXT NOT NULL CHECK (
      execution IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'canceled', 'retried')
    ),
    phase TEXT NOT NULL CHECK (phase IN ('chain', 'onerror', 'oncancel')),
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
    runner_id TEXT,
    -- Number of the claim under which a runner holds the job; a write of an earlier one is refused.
    lease INTEGER NOT NULL CHECK (lease >= 0),
    starts INTEGER NOT NULL CHECK (starts >= 0),
    -- Last, since they may be large: what stands before them is found without reading them.
    params TEXT NOT NULL,
    props TEXT NOT NULL,
    CHECK (turn IS NULL OR claimable_at IS NOT NULL),
    CHECK (execution <> 'queued' OR (claimable_at IS NOT NULL AND runner_id IS NULL)),
    CHECK (execution <> 'running' OR (claimable_at IS NULL AND runner_id IS NOT NULL)),
    CHECK (execution NOT IN ('waiting', 'succeeded', 'failed', 'retried')
      OR (claimable_at IS NULL AND runner_id IS NULL)),
    CHECK (execution <> 'canceled' OR phase = 'oncancel'
      OR (claimable_at IS NULL AND runner_id IS NULL)),
    CHECK ((finished_at IS NULL) = (execution IN ('queued', 'running', 'waiting')))
  ) STRICT;
  INSERT INTO jobs_2
    SELECT id, uuid, workflow_uuid,
           (SELECT d.id FROM definitions d
             WHERE d.workflow_uuid = jobs.workflow_uuid AND d.name = jobs.name
               AND d.chain = jobs.chain AND d.onerror = jobs.onerror
               AND d.oncancel = jobs.oncancel AND d.timeout = jobs.timeout),
           execution, phase, oncancel <> '[]', exec_after, claimable_at, NULL, target,
           params_sha256, NULL, NULL, NULL, created_at, started_at, finished_at, elapsed_ms, 0,
           runner_id, 0, starts, params, props
      FROM jobs;
  DROP TABLE jobs;
  ALTER TABLE jobs_2 RENAME TO jobs;

  CREATE INDEX jobs_definition ON jobs (definition_id);
  CREATE INDEX jobs_ready ON jobs (turn, id) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_ready_of_workflow ON jobs (workflow_uuid, turn) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_delayed ON jobs (claimable_at, id)
    WHERE claimable_at IS NOT NULL AND turn IS NULL;
  CREATE INDEX jobs_owned ON jobs (runner_id) WHERE runner_id IS NOT NULL;
  CREATE INDEX jobs_execution ON jobs (execution, id);
  CREATE INDEX jobs_created ON jobs (created_at);
  CREATE INDEX jobs_finished ON jobs (finished_at) WHERE finished_at IS NOT NULL;
  CREATE INDEX jobs_target ON jobs (target, id) WHERE target IS NOT NULL;
  CREATE INDEX jobs_locks ON jobs (id)
    WHERE locks IS NOT NULL AND ${HOLDS_TARGET};
  -- Of two equal requests one gets a job, also when they arrive together.
  CREATE UNIQUE INDEX jobs_unfinished_target ON jobs (target, params_sha256)
    WHERE target IS NOT NULL AND ${HOLDS_TARGET};
  ${COUNT_TRIGGERS}

  -- Info may outlive its job for a while: it is removed after it, some rows at a time.
  CREATE TABLE job_info_2 (
    job_id INTEGER NOT NULL,
    position INTEGER NOT NULL CHECK (position >= 0),
    entry TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (job_id, position)
  ) STRICT, WITHOUT ROWID;
  INSERT INTO job_info_2 SELECT job_id, position, entry, created_at FROM job_info;
  DROP TABLE job_info;
  ALTER TABLE job_info_2 RENAME TO job_info;
  CREATE TABLE removed_jobs (job_id INTEGER PRIMARY KEY) STRICT;

  -- Until when the jobs of a runner are its own although nothing is heard of it.
  CREATE TABLE runners (
    runner_id TEXT PRIMARY KEY,
    leased_until TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE idempotency_keys (
    key TEXT PRIMARY KEY,
    -- SHA-256 of the canonical request that used the key first.
    request_sha256 TEXT NOT NULL,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    created_at TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX idempotency_keys_job ON idempotency_keys (job_id);
  CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

  -- Finished jobs whose callback_url has yet to be told.
  CREATE TABLE callbacks (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    host TEXT NOT NULL,
    due_at TEXT NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0)
  ) STRICT;
  CREATE INDEX callbacks_due ON callbacks (due_at);
`;
