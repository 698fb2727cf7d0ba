// The table of events, and the triggers that insert an event in the transaction of the change it reports. An event
// gets its number after the commit, so that a reader who has read up to a number misses none.

import { JOB_CHANGES } from "../../domain/event.ts";
import { EXECUTIONS, PHASES } from "../../domain/job/state.ts";

/** A text that is compared byte by byte. */
export const TEXT = `TEXT COLLATE "C"`;

/** Whether a column has one of some words, which must not contain quotes. */
export function oneOf(column: string, words: readonly string[]): string {
  return `${column} IN (${words.map((word) => `'${word}'`).join(", ")})`;
}

/** SQL for the server's time as an instant. */
export const SERVER_NOW =
  `to_char(clock_timestamp() AT TIME ZONE 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const OF_AGENT = "job_id IS NULL AND change IS NULL AND line IS NULL AND body IS NOT NULL";
const OF_JOB = "job_id IS NOT NULL AND line IS NULL AND body IS NULL";
/** Where the events are numbered, among the advisory locks of the database. */
const NUMBERING = 8_780_001;

/** The table, its numbers and its triggers. */
export const EVENT_TABLES = `
  CREATE TABLE events (
    -- The order in which they were written.
    draft BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The order in which they are read: given after the commit, by number_events().
    seq BIGINT UNIQUE,
    kind ${TEXT} NOT NULL,
    at ${TEXT} NOT NULL,
    job_id BIGINT,
    change ${TEXT} CHECK (${oneOf("change", JOB_CHANGES)}),
    state ${TEXT} CHECK (${oneOf("state", EXECUTIONS)}),
    phase ${TEXT} CHECK (${oneOf("phase", PHASES)}),
    ended BIGINT,
    next_phase ${TEXT} CHECK (${oneOf("next_phase", PHASES)}),
    line BIGINT,
    body ${TEXT} CHECK (octet_length(body) <= 2048),
    CHECK (CASE kind
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
    END)
  );
  CREATE INDEX events_unnumbered ON events (draft) WHERE seq IS NULL;
  CREATE INDEX events_job ON events (job_id, seq) WHERE job_id IS NOT NULL;
  CREATE INDEX events_removed ON events (body) WHERE kind = 'removed_job';
  CREATE TABLE event_numbers (one BOOLEAN PRIMARY KEY CHECK (one), last BIGINT NOT NULL);
  INSERT INTO event_numbers VALUES (true, 0);

  -- Gives numbers to the events that are committed. One agent at a time: an event that commits while this runs
  -- gets a higher number than all that can be read.
  CREATE FUNCTION number_events(most BIGINT, kept BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
  DECLARE
    given BIGINT;
    newest BIGINT;
  BEGIN
    PERFORM pg_advisory_xact_lock(${NUMBERING});
    SELECT last INTO newest FROM event_numbers;
    WITH new AS (
      SELECT draft, row_number() OVER (ORDER BY draft) AS place FROM (
        SELECT draft FROM events WHERE seq IS NULL ORDER BY draft LIMIT most) AS drafts)
    UPDATE events SET seq = newest + new.place FROM new WHERE events.draft = new.draft;
    GET DIAGNOSTICS given = ROW_COUNT;
    IF given > 0 THEN
      UPDATE event_numbers SET last = newest + given;
      DELETE FROM events WHERE seq <= newest + given - kept;
    END IF;
    RETURN given;
  END $$;

  CREATE FUNCTION results_of(job BIGINT, chain TEXT) RETURNS BIGINT LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM task_results WHERE job_id = job AND phase = chain
  $$;
  CREATE FUNCTION job_came_or_went() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO events (kind, at, job_id, change, state)
        VALUES ('job', NEW.created_at, NEW.id, 'created', NEW.execution);
    ELSE
      INSERT INTO events (kind, at, job_id, body) VALUES (
        'removed_job', ${SERVER_NOW}, OLD.id, json_build_object('job_uuid', OLD.uuid)::text);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER job_came_or_went AFTER INSERT OR DELETE ON jobs
    FOR EACH ROW EXECUTE FUNCTION job_came_or_went();

  -- Every statement that moves a job through its states names its execution.
  CREATE FUNCTION job_moved() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE
    moved_at TEXT := coalesce(NEW.elapsed_at, NEW.claimable_at, NEW.finished_at, ${SERVER_NOW});
  BEGIN
    INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase) VALUES (
      'job', moved_at, NEW.id,
      CASE
        WHEN NEW.execution <> OLD.execution AND NEW.execution <> 'running' THEN NEW.execution
        WHEN OLD.runner_id IS NULL THEN 'started'
        WHEN NEW.runner_id IS NOT NULL THEN 'task'
        WHEN NEW.claimable_at IS NOT NULL THEN 'queued'
        ELSE 'undone'
      END,
      NEW.execution, OLD.phase, results_of(NEW.id, OLD.phase), NEW.phase);
    IF NEW.machine_uuid IS NOT NULL AND NEW.execution <> OLD.execution THEN
      INSERT INTO events (kind, at, job_id, state)
        VALUES ('machine', moved_at, NEW.id, NEW.execution);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER job_moved AFTER UPDATE OF execution ON jobs
    FOR EACH ROW EXECUTE FUNCTION job_moved();

  CREATE FUNCTION job_attempted() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase) VALUES (
      'job', NEW.elapsed_at, NEW.id, 'attempt', NEW.execution, NEW.phase,
      results_of(NEW.id, NEW.phase), NEW.phase);
    RETURN NULL;
  END $$;
  CREATE TRIGGER job_attempted AFTER UPDATE OF failures ON jobs
    FOR EACH ROW WHEN (NEW.failures > OLD.failures) EXECUTE FUNCTION job_attempted();

  -- What a runner holds is changed together with its execution.
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
