// The tables of a store that many agents share. They are those of sqlite/schema.ts with three differences. A job has a
// host. A counter is the sum of rows that are only inserted, because agents that update the same row wait for each
// other. An event gets its number after its commit, so a reader that has read up to a number has missed none.
//
// Instants and JSON are texts, compared byte by byte, exactly as the agent writes them.

import { EXECUTIONS, isFinal, PHASES } from "../../domain/job/state.ts";
import { COUNTED, HOLDS_TARGET, JOB_RULES, LOG_CHECKS, REMOVABLE } from "../sql.ts";
import { EVENT_TABLES, oneOf, ruleFunction, TEXT } from "./event_tables.ts";

/** The columns of a job that the rules use, with their types. */
const RULED = {
  execution: "TEXT",
  phase: "TEXT",
  undoable: "BOOLEAN",
  claimable_at: "TEXT",
  turn: "BIGINT",
  target: "TEXT",
  params_sha256: "TEXT",
  callback_url: "TEXT",
  callback_host: "TEXT",
  started_at: "TEXT",
  finished_at: "TEXT",
  elapsed_ms: "BIGINT",
  phases_ms: "BIGINT",
  elapsed_at: "TEXT",
  failures: "BIGINT",
  retry_at: "TEXT",
  runner_id: "TEXT",
  lease: "BIGINT",
  starts: "BIGINT",
  kept: "BIGINT",
  idempotency_key: "TEXT",
  request_sha256: "TEXT",
} as const;
const RULES_OF_JOBS = [
  oneOf("execution", EXECUTIONS),
  oneOf("phase", PHASES),
  "least(elapsed_ms, phases_ms, failures, lease, starts, kept) >= 0",
  ...JOB_RULES,
  "(request_sha256 IS NULL) = (idempotency_key IS NULL)",
  "phase <> 'oncancel' OR undoable",
  "execution <> 'canceled' OR phase = 'oncancel' OR claimable_at IS NULL",
];

const JOB_TABLES = `
  CREATE TABLE workflows (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid ${TEXT} NOT NULL UNIQUE,
    name ${TEXT} NOT NULL,
    body ${TEXT} NOT NULL,
    builtin BOOLEAN NOT NULL,
    created_at ${TEXT} NOT NULL
  );
  CREATE INDEX workflows_name ON workflows (name);

  CREATE TABLE definitions (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workflow_uuid ${TEXT} NOT NULL,
    name ${TEXT} NOT NULL,
    -- SHA-256 of the name and of all columns below: equal definitions share a row.
    sha256 ${TEXT} NOT NULL,
    chain ${TEXT} NOT NULL,
    onerror ${TEXT} NOT NULL,
    oncancel ${TEXT} NOT NULL,
    timeout BIGINT NOT NULL CHECK (timeout > 0),
    UNIQUE (workflow_uuid, sha256)
  );
  CREATE INDEX definitions_name ON definitions (name);

  ${ruleFunction("job_is_ruled", RULED, RULES_OF_JOBS)}
  CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid ${TEXT} NOT NULL UNIQUE,
    -- The uuid of the only host that may run the job, or the word for any host.
    queue ${TEXT} NOT NULL,
    -- The host that runs the job or has run it; null for a free job that no host has claimed.
    host ${TEXT},
    workflow_uuid ${TEXT} NOT NULL,
    definition_id BIGINT NOT NULL REFERENCES definitions (id),
    execution ${TEXT} NOT NULL,
    phase ${TEXT} NOT NULL,
    undoable BOOLEAN NOT NULL,
    exec_after ${TEXT} NOT NULL,
    claimable_at ${TEXT},
    turn BIGINT,
    target ${TEXT},
    params_sha256 ${TEXT},
    locks ${TEXT},
    callback_url ${TEXT},
    callback_host ${TEXT},
    created_at ${TEXT} NOT NULL,
    started_at ${TEXT},
    finished_at ${TEXT},
    elapsed_ms BIGINT NOT NULL,
    phases_ms BIGINT NOT NULL,
    elapsed_at ${TEXT},
    failures BIGINT NOT NULL DEFAULT 0,
    retry_at ${TEXT},
    error ${TEXT},
    runner_id ${TEXT},
    lease BIGINT NOT NULL,
    starts BIGINT NOT NULL,
    machine_uuid ${TEXT},
    -- How many things keep retention from removing the job: its idempotency key, its callback.
    kept BIGINT NOT NULL DEFAULT 0,
    -- Of the request that created the job, for a day. A separate table would cost half as much as the job itself.
    idempotency_key ${TEXT},
    request_sha256 ${TEXT},
    params ${TEXT} NOT NULL,
    props ${TEXT} NOT NULL,
    requested_params ${TEXT},
    CONSTRAINT jobs_ruled CHECK (job_is_ruled(${Object.keys(RULED).join(", ")}))
  );
  CREATE UNIQUE INDEX jobs_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
  -- Conditional on request_sha256, so that the planner does not use this index to look up a single key.
  CREATE INDEX jobs_keyed ON jobs (created_at) WHERE request_sha256 IS NOT NULL;
  CREATE INDEX jobs_definition ON jobs (definition_id, id);
  CREATE INDEX jobs_ready ON jobs (queue, turn, id) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_ready_of_workflow ON jobs (queue, workflow_uuid, turn) WHERE turn IS NOT NULL;
  CREATE INDEX jobs_delayed ON jobs (queue, claimable_at, id)
    WHERE claimable_at IS NOT NULL AND turn IS NULL;
  CREATE INDEX jobs_delayed_of_workflow ON jobs (queue, workflow_uuid, claimable_at)
    WHERE claimable_at IS NOT NULL AND turn IS NULL;
  CREATE INDEX jobs_host ON jobs (host, id);
  CREATE INDEX jobs_owned ON jobs (runner_id) WHERE runner_id IS NOT NULL;
  CREATE INDEX jobs_execution ON jobs (execution, id);
  CREATE INDEX jobs_created ON jobs (created_at, id);
  CREATE INDEX jobs_finished ON jobs (finished_at, id) WHERE finished_at IS NOT NULL;
  CREATE INDEX jobs_removable ON jobs (finished_at, id) WHERE ${REMOVABLE};
  CREATE INDEX jobs_target ON jobs (target, id) WHERE target IS NOT NULL;
  CREATE INDEX jobs_locks ON jobs (id) WHERE locks IS NOT NULL AND ${HOLDS_TARGET};
  CREATE UNIQUE INDEX jobs_unfinished_target ON jobs (target, params_sha256)
    WHERE target IS NOT NULL AND ${HOLDS_TARGET};
  CREATE UNIQUE INDEX jobs_unfinished_machine ON jobs (machine_uuid)
    WHERE machine_uuid IS NOT NULL AND ${HOLDS_TARGET};

  CREATE TABLE task_results (
    job_id BIGINT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    phase ${TEXT} NOT NULL CHECK (${oneOf("phase", PHASES)}),
    position BIGINT NOT NULL CHECK (position >= 0),
    resumed_by ${TEXT},
    entry ${TEXT} NOT NULL,
    PRIMARY KEY (job_id, phase, position)
  );

  CREATE TABLE job_log (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id BIGINT NOT NULL,
    position BIGINT CHECK (position >= 0),
    phase ${TEXT} CHECK (${oneOf("phase", PHASES)}),
    task BIGINT CHECK (task >= 0),
    attempt BIGINT CHECK (attempt > 0),
    call_id ${TEXT},
    entry ${TEXT} NOT NULL,
    created_at ${TEXT} NOT NULL,
    ${LOG_CHECKS}
  );
  CREATE INDEX job_log_job ON job_log (job_id, seq);
  CREATE UNIQUE INDEX job_log_info ON job_log (job_id, position) WHERE position IS NOT NULL;
  CREATE UNIQUE INDEX job_log_calls ON job_log (job_id, call_id) WHERE call_id IS NOT NULL;
  CREATE UNIQUE INDEX job_log_attempts ON job_log (job_id, phase, task, attempt)
    WHERE phase IS NOT NULL;
  CREATE TABLE removed_jobs (job_id BIGINT PRIMARY KEY);

  CREATE TABLE runners (
    runner_id ${TEXT} PRIMARY KEY,
    incarnation ${TEXT} NOT NULL,
    leased_until ${TEXT} NOT NULL
  );

  -- The agents, each with the host that it manages. A host's uuid is the id of its runner.
  CREATE TABLE hosts (
    uuid ${TEXT} PRIMARY KEY,
    -- The life that has registered; while it is heard, no earlier life can register.
    incarnation ${TEXT} NOT NULL,
    name ${TEXT} NOT NULL,
    version ${TEXT} NOT NULL,
    capabilities ${TEXT} NOT NULL,
    slots BIGINT NOT NULL CHECK (slots > 0),
    brands ${TEXT} NOT NULL,
    address ${TEXT},
    public_key ${TEXT},
    -- What its policy allows it to run.
    allow_workflow ${TEXT} NOT NULL,
    allow_caller ${TEXT} NOT NULL,
    generation BIGINT NOT NULL CHECK (generation > 0),
    seen_at ${TEXT} NOT NULL,
    lease_ms BIGINT NOT NULL CHECK (lease_ms > 0),
    cordoned BOOLEAN NOT NULL DEFAULT false,
    forgotten BOOLEAN NOT NULL DEFAULT false,
    -- Whether an event has reported it as away.
    away BOOLEAN NOT NULL DEFAULT false
  );

  -- The machines that hosts last reported. The time of the report is a row of its own per host, so that unchanged
  -- machines are not written again.
  CREATE TABLE machine_reports (host ${TEXT} PRIMARY KEY, reported_at ${TEXT} NOT NULL);
  CREATE TABLE reported_machines (
    host ${TEXT} NOT NULL,
    uuid ${TEXT} NOT NULL,
    -- Columns that lists are filtered by.
    state ${TEXT},
    brand ${TEXT},
    alias ${TEXT},
    machine ${TEXT} NOT NULL,
    PRIMARY KEY (host, uuid)
  );
  CREATE INDEX reported_machines_uuid ON reported_machines (uuid);

  -- When the database was last reached again after no agent had reached it for a while.
  CREATE TABLE outages (one BOOLEAN PRIMARY KEY CHECK (one), back_at ${TEXT} NOT NULL);

  CREATE TABLE callbacks (
    job_id BIGINT PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    host ${TEXT} NOT NULL,
    -- Which host calls back: that of the job, or any.
    owner ${TEXT} NOT NULL,
    due_at ${TEXT} NOT NULL,
    attempts BIGINT NOT NULL CHECK (attempts >= 0)
  );
  CREATE INDEX callbacks_due ON callbacks (owner, due_at);

  CREATE TABLE machine_claims (
    uuid ${TEXT} NOT NULL,
    host ${TEXT} NOT NULL,
    -- The uuid of the host whose agent made the claim.
    owner ${TEXT} NOT NULL,
    job_uuid ${TEXT} NOT NULL,
    workflow_uuid ${TEXT} NOT NULL,
    execution ${TEXT} CHECK (${oneOf("execution", EXECUTIONS.filter(isFinal))}),
    claimed_at ${TEXT} NOT NULL,
    tries BIGINT NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_try_at ${TEXT},
    error ${TEXT},
    PRIMARY KEY (uuid, owner),
    CHECK ((tries = 0) = (error IS NULL))
  );
  CREATE INDEX machine_claims_job ON machine_claims (job_uuid);

  CREATE TABLE write_checks (host ${TEXT} PRIMARY KEY, checked_at ${TEXT} NOT NULL);

  CREATE FUNCTION kept_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      UPDATE jobs SET kept = kept + 1 WHERE id = NEW.job_id;
    ELSE
      UPDATE jobs SET kept = kept - 1 WHERE id = OLD.job_id;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER callbacks_changed AFTER INSERT OR DELETE ON callbacks
    FOR EACH ROW EXECUTE FUNCTION kept_changed();
`;

/** Characters of an instant up to its minute. */
export const MINUTE_CHARS = 16;

/** The columns of a job that the counters depend on. */
const COUNTED_BY = "created_at, finished_at, execution";

/**
 * Counters of jobs. Each change inserts rows, which agents sum up and fold from time to time: agents that update the
 * same row would wait for each other.
 */
const COUNT_TABLES = `
  CREATE TABLE job_counts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The minute in which the jobs were created; empty for all that are older than any window.
    minute ${TEXT} NOT NULL,
    ${COUNTED.map((column) => `${column} BIGINT NOT NULL DEFAULT 0`).join(",\n    ")}
  );
  CREATE INDEX job_counts_minute ON job_counts (minute);
  CREATE TABLE finished_counts (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hour ${TEXT} NOT NULL,
    execution ${TEXT} NOT NULL CHECK (${oneOf("execution", EXECUTIONS.filter(isFinal))}),
    jobs BIGINT NOT NULL
  );
  CREATE INDEX finished_counts_hour ON finished_counts (hour);
  ${countTrigger("INSERT", ["NEW TABLE AS came"], `SELECT 1 AS one, ${COUNTED_BY} FROM came`)}
  ${countTrigger("DELETE", ["OLD TABLE AS went"], `SELECT -1 AS one, ${COUNTED_BY} FROM went`)}
  ${
  countTrigger(
    "UPDATE",
    ["OLD TABLE AS was", "NEW TABLE AS became"],
    `SELECT -1 AS one, ${COUNTED_BY} FROM was UNION ALL SELECT 1, ${COUNTED_BY} FROM became`,
  )
}
`;

/** A trigger that counts the jobs of a statement, in one row for each minute and hour. */
function countTrigger(event: string, tables: readonly string[], changed: string): string {
  const name = `jobs_counted_${event.toLowerCase()}`;
  const sumOf = (column: string) => {
    const counted = column === "queued" ? ["queued", "running"] : [column];
    return `sum(CASE WHEN ${oneOf("execution", counted)} THEN one ELSE 0 END) AS ${column}`;
  };
  return `
  CREATE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO job_counts (minute, ${COUNTED.join(", ")})
      SELECT * FROM (
        SELECT left(created_at, ${MINUTE_CHARS}) AS minute, ${COUNTED.map(sumOf).join(", ")}
          FROM (${changed}) AS changed GROUP BY 1) AS summed
       WHERE ${COUNTED.map((column) => `${column} <> 0`).join(" OR ")};
    INSERT INTO finished_counts (hour, execution, jobs)
      SELECT left(finished_at, 13), execution, sum(one) FROM (${changed}) AS changed
       WHERE finished_at IS NOT NULL GROUP BY 1, 2 HAVING sum(one) <> 0;
    RETURN NULL;
  END $$;
  CREATE TRIGGER ${name} AFTER ${event} ON jobs REFERENCING ${tables.join(" ")}
    FOR EACH STATEMENT EXECUTE FUNCTION ${name}();`;
}

const VERSION_TABLE = `
  CREATE TABLE schema_version (one BOOLEAN PRIMARY KEY CHECK (one), version BIGINT NOT NULL);
  INSERT INTO schema_version VALUES (true, 0);
`;

/** Creates the tables in an empty database; the migration writes their version. */
export const SCHEMA = `${VERSION_TABLE}${JOB_TABLES}${COUNT_TABLES}${EVENT_TABLES}`;
