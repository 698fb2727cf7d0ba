// The first schema: workflows, jobs with their results and info, counts, and the image index.

/** Keeps job_counts exact; dropped with the table `jobs`, and made again with it. */
export const COUNT_TRIGGERS = `CREATE TRIGGER job_counts_insert AFTER INSERT ON jobs BEGIN
    INSERT INTO job_counts (minute, execution, jobs)
      VALUES (substr(new.created_at, 1, 16), new.execution, 1), ('', new.execution, 1)
      ON CONFLICT DO UPDATE SET jobs = jobs + 1;
  END;
  CREATE TRIGGER job_counts_update AFTER UPDATE OF execution ON jobs
  WHEN old.execution <> new.execution BEGIN
    UPDATE job_counts SET jobs = jobs - 1
      WHERE execution = old.execution AND minute IN (substr(old.created_at, 1, 16), '');
    INSERT INTO job_counts (minute, execution, jobs)
      VALUES (substr(new.created_at, 1, 16), new.execution, 1), ('', new.execution, 1)
      ON CONFLICT DO UPDATE SET jobs = jobs + 1;
  END;
  CREATE TRIGGER job_counts_delete AFTER DELETE ON jobs BEGIN
    UPDATE job_counts SET jobs = jobs - 1
      WHERE execution = old.execution AND minute IN (substr(old.created_at, 1, 16), '');
  END;`;

/** From an empty file to schema 1. */
export const SCHEMA_1 = `
  CREATE TABLE workflows (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    -- The workflow as sent, with uuids; JSON text.
    body TEXT NOT NULL,
    builtin INTEGER NOT NULL CHECK (builtin IN (0, 1)),
    created_at TEXT NOT NULL
  ) STRICT;
  CREATE INDEX workflows_name ON workflows (name);

  CREATE TABLE jobs (
    -- Grows with every job: the order of creation, also within one millisecond.
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    workflow_uuid TEXT NOT NULL,
    name TEXT NOT NULL,
    execution TEXT NOT NULL CHECK (
      execution IN ('queued', 'running', 'waiting', 'succeeded', 'failed', 'canceled', 'retried')
    ),
    phase TEXT NOT NULL CHECK (phase IN ('chain', 'onerror', 'oncancel')),
    chain TEXT NOT NULL,
    onerror TEXT NOT NULL,
    oncancel TEXT NOT NULL,
    timeout INTEGER NOT NULL CHECK (timeout > 0),
    exec_after TEXT NOT NULL,
    -- From when on a runner may claim the job; null when it is not to be claimed.
    claimable_at TEXT,
    target TEXT,
    params TEXT NOT NULL,
    -- SHA-256 of the canonical params; only jobs with a target are compared.
    params_sha256 TEXT CHECK ((params_sha256 IS NULL) = (target IS NULL)),
    props TEXT NOT NULL,
    created_at TEXT NOT NULL,
    started_at TEXT,
    finished_at TEXT,
    elapsed_ms INTEGER NOT NULL CHECK (elapsed_ms >= 0),
    runner_id TEXT,
    starts INTEGER NOT NULL CHECK (starts >= 0),
    CHECK (execution <> 'queued' OR (claimable_at IS NOT NULL AND runner_id IS NULL)),
    CHECK (execution <> 'running' OR (claimable_at IS NULL AND runner_id IS NOT NULL)),
    CHECK (execution NOT IN ('waiting', 'succeeded', 'failed', 'retried')
      OR (claimable_at IS NULL AND runner_id IS NULL)),
    CHECK (execution <> 'canceled' OR phase = 'oncancel'
      OR (claimable_at IS NULL AND runner_id IS NULL)),
    CHECK ((finished_at IS NULL) = (execution IN ('queued', 'running', 'waiting')))
  ) STRICT;
  CREATE INDEX jobs_due ON jobs (claimable_at, id) WHERE claimable_at IS NOT NULL;
  CREATE INDEX jobs_owned ON jobs (runner_id) WHERE runner_id IS NOT NULL;
  CREATE INDEX jobs_execution ON jobs (execution, id);
  CREATE INDEX jobs_created ON jobs (created_at);
  CREATE INDEX jobs_target ON jobs (target, id) WHERE target IS NOT NULL;
  -- Promise P10: of two equal requests one gets a job, also when they arrive together.
  CREATE UNIQUE INDEX jobs_unfinished_target ON jobs (target, params_sha256)
    WHERE target IS NOT NULL AND execution IN ('queued', 'running', 'waiting');

  CREATE TABLE task_results (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    phase TEXT NOT NULL CHECK (phase IN ('chain', 'onerror', 'oncancel')),
    position INTEGER NOT NULL CHECK (position >= 0),
    entry TEXT NOT NULL,
    PRIMARY KEY (job_id, phase, position)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE job_info (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL CHECK (position >= 0),
    entry TEXT NOT NULL,
    created_at TEXT NOT NULL,
    PRIMARY KEY (job_id, position)
  ) STRICT, WITHOUT ROWID;

  -- Jobs by minute of creation and execution, kept exact by the triggers below; the minute '' is
  -- the sum of all. GET /stats reads this instead of counting jobs.
  CREATE TABLE job_counts (
    minute TEXT NOT NULL,
    execution TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (minute, execution)
  ) STRICT, WITHOUT ROWID;
  ${COUNT_TRIGGERS}

  CREATE TABLE index_documents (
    path TEXT PRIMARY KEY,
    body BLOB NOT NULL,
    sha256 TEXT NOT NULL CHECK (length(sha256) = 64),
    etag TEXT,
    last_modified TEXT,
    fetched_at TEXT NOT NULL
  ) STRICT;
  CREATE TABLE index_syncs (
    id INTEGER PRIMARY KEY,
    -- What the sync did; JSON text.
    report TEXT NOT NULL
  ) STRICT;
`;
