// The table of events, and the triggers that insert an event in the transaction of the change that it reports. An event
// gets its number after its commit, so a reader that has read up to a number has missed no earlier event.

import { JOB_CHANGES } from "../../domain/event.ts";
import { EXECUTIONS, PHASES } from "../../domain/job/state.ts";
import { OF_AGENT } from "../sql.ts";

/** The type of a text that is compared byte by byte. */
export const TEXT = `TEXT COLLATE "C"`;

/** A condition that a column has one of these words, which must not contain quotes. */
export function oneOf(column: string, words: readonly string[]): string {
  return `${column} IN (${words.map((word) => `'${word}'`).join(", ")})`;
}

/**
 * A function that checks the rules of a row, for the table's CHECK constraint. Rules written into the constraint itself
 * would be parsed again for each statement, which takes as long as inserting some rows.
 * @param columns the columns that the rules use, with their types
 */
export function ruleFunction(
  name: string,
  columns: Readonly<Record<string, string>>,
  rules: readonly string[],
): string {
  const taken = Object.entries(columns).map(([column, type]) => `${column} ${type}`);
  return `CREATE FUNCTION ${name}(${taken.join(", ")}) RETURNS boolean
  LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
  BEGIN
    RETURN ${rules.map((rule) => `(${rule})`).join("\n      AND ")};
  END $$;`;
}

/** SQL for the server's time, in the format of an instant. */
export const SERVER_NOW =
  `to_char(clock_timestamp() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const OF_JOB = "job_id IS NOT NULL AND line IS NULL AND body IS NULL";
/** The advisory lock on which the numbering of events takes turns. */
const NUMBERING_LOCK = 8_780_001;

/** SQL for the time at which a job changed, from its row. */
const MOVED_AT =
  `coalesce(became.elapsed_at, became.claimable_at, became.finished_at, ${SERVER_NOW})`;

/** The columns of an event that the rules use, with their types. */
const RULED = {
  kind: "TEXT",
  job_id: "BIGINT",
  change: "TEXT",
  state: "TEXT",
  phase: "TEXT",
  next_phase: "TEXT",
  line: "BIGINT",
  body: "TEXT",
} as const;
const RULES_OF_EVENTS = [
  `CASE kind
      WHEN 'job' THEN ${OF_JOB} AND change IS NOT NULL
      WHEN 'machine' THEN ${OF_JOB} AND change IS NULL
      WHEN 'log' THEN job_id IS NOT NULL AND change IS NULL AND line IS NOT NULL AND body IS NULL
      WHEN 'removed_job' THEN
        job_id IS NOT NULL AND change IS NULL AND line IS NULL AND body IS NOT NULL
      WHEN 'media' THEN ${OF_AGENT}
      WHEN 'index' THEN ${OF_AGENT}
      WHEN 'host' THEN ${OF_AGENT}
      WHEN 'own_machine' THEN ${OF_AGENT}
      ELSE false
    END`,
  oneOf("change", JOB_CHANGES),
  oneOf("state", EXECUTIONS),
  oneOf("phase", PHASES),
  oneOf("next_phase", PHASES),
  "octet_length(body) <= 2048",
];

/** The table of events, with the function that numbers them and the triggers that insert them. */
export const EVENT_TABLES = `
  ${ruleFunction("event_is_ruled", RULED, RULES_OF_EVENTS)}
  CREATE TABLE events (
    -- Order of insertion.
    draft BIGINT GENERATED ALWAYS AS IDENTITY,
    -- Order of reading, set by number_events() after the commit.
    seq BIGINT,
    kind ${TEXT} NOT NULL,
    at ${TEXT} NOT NULL,
    job_id BIGINT,
    change ${TEXT},
    state ${TEXT},
    phase ${TEXT},
    ended BIGINT,
    next_phase ${TEXT},
    line BIGINT,
    body ${TEXT},
    CONSTRAINT events_ruled CHECK (event_is_ruled(${Object.keys(RULED).join(", ")}))
  );
  -- The table has no primary key, so logical replication needs another identity to update its rows.
  ALTER TABLE events REPLICA IDENTITY FULL;
  -- Partial, because a full index would get two entries of each event: one without its number, one with it.
  CREATE UNIQUE INDEX events_seq ON events (seq) WHERE seq IS NOT NULL;
  CREATE UNIQUE INDEX events_unnumbered ON events (draft) WHERE seq IS NULL;
  CREATE INDEX events_job ON events (job_id, seq) WHERE job_id IS NOT NULL;
  CREATE INDEX events_removed ON events (body) WHERE kind = 'removed_job';
  CREATE TABLE event_numbers (one BOOLEAN PRIMARY KEY CHECK (one), last BIGINT NOT NULL);
  INSERT INTO event_numbers VALUES (true, 0);

  -- Numbers the committed events, in one agent at a time. An event that commits while this runs gets a higher number
  -- than any that can be read by then.
  CREATE FUNCTION number_events(most BIGINT, kept BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
  DECLARE
    given BIGINT;
    newest BIGINT;
  BEGIN
    PERFORM pg_advisory_xact_lock(${NUMBERING_LOCK});
    SELECT last INTO newest FROM event_numbers;
    WITH new AS (
      SELECT draft, row_number() OVER (ORDER BY draft) AS place FROM (
        SELECT draft FROM events WHERE seq IS NULL ORDER BY draft LIMIT most) AS drafts)
    UPDATE events SET seq = newest + new.place FROM new
     WHERE events.draft = new.draft AND events.seq IS NULL;
    GET DIAGNOSTICS given = ROW_COUNT;
    IF given > 0 THEN
      UPDATE event_numbers SET last = newest + given;
      DELETE FROM events WHERE seq <= newest + given - kept;
    END IF;
    RETURN given;
  END $$;

  -- One statement inserts the events of all jobs of a statement: a trigger per row took longer than the row itself.
  CREATE FUNCTION jobs_came() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, change, state)
      SELECT 'job', created_at, id, 'created', execution FROM came ORDER BY id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER jobs_came AFTER INSERT ON jobs REFERENCING NEW TABLE AS came
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_came();
  CREATE FUNCTION jobs_went() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, body)
      SELECT 'removed_job', ${SERVER_NOW}, id, json_build_object('job_uuid', uuid)::text
        FROM went ORDER BY id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER jobs_went AFTER DELETE ON jobs REFERENCING OLD TABLE AS went
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_went();

  -- Every update of jobs changes their state, except those that only change what keeps a job, note a failed attempt,
  -- name the next attempt of a finished job, or assign a turn. A job that one update claims and ends reports its start
  -- too.
  CREATE FUNCTION jobs_moved() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase)
      SELECT 'job',
             CASE WHEN begins AND was.started_at IS NULL THEN became.started_at ELSE ${MOVED_AT} END,
             became.id,
             CASE
               WHEN begins THEN 'started'
               WHEN became.execution <> was.execution AND became.execution <> 'running'
                 THEN became.execution
               WHEN was.runner_id IS NULL THEN 'started'
               WHEN became.runner_id IS NOT NULL THEN 'task'
               WHEN became.claimable_at IS NOT NULL THEN 'queued'
               ELSE 'undone'
             END,
             CASE WHEN begins THEN 'running' ELSE became.execution END, was.phase,
             (SELECT count(*) FROM task_results
               WHERE job_id = became.id AND task_results.phase = was.phase),
             CASE WHEN begins THEN was.phase ELSE became.phase END
        FROM became JOIN was USING (id) CROSS JOIN LATERAL unnest(
               CASE WHEN became.lease > was.lease AND became.runner_id IS NULL
                 THEN '{true, false}' ELSE '{false}' END::boolean[]) AS begins
       WHERE became.kept = was.kept AND became.failures <= was.failures
         AND (was.runner_id IS NOT NULL OR became.runner_id IS NOT NULL
           OR became.execution <> was.execution OR became.phase <> was.phase)
       ORDER BY became.id, begins DESC;
    INSERT INTO events (kind, at, job_id, state)
      SELECT 'machine', ${MOVED_AT}, became.id, became.execution
        FROM became JOIN was USING (id)
       WHERE became.machine_uuid IS NOT NULL AND became.execution <> was.execution
       ORDER BY became.id;
    RETURN NULL;
  END $$;
  CREATE TRIGGER jobs_moved AFTER UPDATE ON jobs
    REFERENCING OLD TABLE AS was NEW TABLE AS became
    FOR EACH STATEMENT EXECUTE FUNCTION jobs_moved();

  CREATE FUNCTION job_attempted() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase) VALUES (
      'job', NEW.elapsed_at, NEW.id, 'attempt', NEW.execution, NEW.phase,
      (SELECT count(*) FROM task_results WHERE job_id = NEW.id AND phase = NEW.phase), NEW.phase);
    RETURN NULL;
  END $$;
  CREATE TRIGGER job_attempted AFTER UPDATE OF failures ON jobs
    FOR EACH ROW WHEN (NEW.failures > OLD.failures) EXECUTE FUNCTION job_attempted();

  -- Only finished jobs: while a runner holds a job, its props change together with its execution, which has its own
  -- event.
  CREATE FUNCTION job_updated() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, change, state)
      VALUES ('job', ${SERVER_NOW}, NEW.id, 'updated', NEW.execution);
    RETURN NULL;
  END $$;
  CREATE TRIGGER job_updated AFTER UPDATE OF props ON jobs FOR EACH ROW
    WHEN (OLD.finished_at IS NOT NULL AND OLD.runner_id IS NULL AND NEW.runner_id IS NULL)
    EXECUTE FUNCTION job_updated();

  CREATE FUNCTION log_written() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, line) VALUES ('log', NEW.created_at, NEW.job_id, NEW.seq);
    RETURN NULL;
  END $$;
  CREATE TRIGGER log_written AFTER INSERT ON job_log FOR EACH ROW EXECUTE FUNCTION log_written();

  CREATE FUNCTION claim_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF OLD.next_try_at IS NULL AND NEW.next_try_at IS NOT NULL THEN
      INSERT INTO events (kind, at, body) VALUES ('own_machine', ${SERVER_NOW}, format(
        '{"change":"leftover_made","machine_uuid":"%s","job_uuid":"%s"}', NEW.uuid, NEW.job_uuid));
    ELSIF OLD.next_try_at IS NOT NULL AND NEW.next_try_at IS NULL THEN
      INSERT INTO events (kind, at, body) VALUES ('own_machine', ${SERVER_NOW}, format(
        '{"change":"leftover_removed","machine_uuid":"%s","job_uuid":"%s"}', NEW.uuid, OLD.job_uuid));
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER claim_changed AFTER UPDATE ON machine_claims
    FOR EACH ROW EXECUTE FUNCTION claim_changed();
`;
