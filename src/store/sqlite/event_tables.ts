// The table of events, and the triggers that insert an event in the transaction of the change it reports, so
// that no change of a job lacks its event. events.ts reads them.

import { JOB_CHANGES } from "../../domain/event.ts";
import { EXECUTIONS, PHASES } from "../../domain/job/state.ts";
import { EVENTS_KEPT } from "../event_store.ts";
import { isOneOf } from "./words.ts";

/** Old events are removed in batches of this size. */
const REMOVED_AT_ONCE = 500;
/** Largest payload of an event that is not about a row, bytes. */
const BODY_BYTES_MAX = 2048;

const PRESENT = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/** Columns of an event that is not about a job. */
const OF_AGENT = "job_id IS NULL AND change IS NULL AND line IS NULL AND body IS NOT NULL";

/** The table, and events of jobs. Each is a narrow row. */
export const EVENT_TABLES = `
  CREATE TABLE events (
    -- The newest row is never removed, so that no number is used again.
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    -- No reference: events of a removed job are passed over.
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
    -- What each kind has; there is no other kind. Compared one after the other, the most frequent one first: for
    -- a list of words SQLite would build an index with every row.
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
  -- Who comes back for some jobs reads their events alone.
  CREATE INDEX events_job ON events (job_id, kind) WHERE job_id IS NOT NULL;
  -- The removed job of a uuid: its row is gone.
  CREATE INDEX events_removed ON events (body) WHERE kind = 'removed_job';
  CREATE TRIGGER events_bounded AFTER INSERT ON events WHEN new.seq % ${REMOVED_AT_ONCE} = 0 BEGIN
    DELETE FROM events WHERE seq <= new.seq - ${EVENTS_KEPT + REMOVED_AT_ONCE};
  END;

  CREATE TRIGGER events_job_created AFTER INSERT ON jobs BEGIN
    INSERT INTO events (kind, at, job_id, change, state)
      VALUES ('job', new.created_at, new.id, 'created', new.execution);
  END;
  -- Every statement that moves a job through its states names its execution.
  CREATE TRIGGER events_job_moved AFTER UPDATE OF execution ON jobs BEGIN
    INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase)
      VALUES (
        'job',
        coalesce(new.elapsed_at, new.claimable_at, new.finished_at, ${PRESENT}),
        new.id,
        CASE
          WHEN new.execution <> old.execution AND new.execution <> 'running' THEN new.execution
          WHEN old.runner_id IS NULL THEN 'started'
          WHEN new.runner_id IS NOT NULL THEN 'task'
          WHEN new.claimable_at IS NOT NULL THEN 'queued'
          ELSE 'undone'
        END,
        new.execution,
        old.phase,
        (SELECT count(*) FROM task_results WHERE job_id = new.id AND phase = old.phase),
        new.phase
      );
  END;
  CREATE TRIGGER events_machine AFTER UPDATE OF execution ON jobs
  WHEN new.machine_uuid IS NOT NULL AND new.execution <> old.execution BEGIN
    INSERT INTO events (kind, at, job_id, state)
      VALUES (
        'machine',
        coalesce(new.elapsed_at, new.claimable_at, new.finished_at, ${PRESENT}),
        new.id,
        new.execution
      );
  END;
  CREATE TRIGGER events_job_attempt AFTER UPDATE OF failures ON jobs
  WHEN new.failures > old.failures BEGIN
    INSERT INTO events (kind, at, job_id, change, state, phase, ended, next_phase)
      VALUES (
        'job', new.elapsed_at, new.id, 'attempt', new.execution, new.phase,
        (SELECT count(*) FROM task_results WHERE job_id = new.id AND phase = new.phase), new.phase
      );
  END;
  -- What a runner holds is changed together with its execution.
  CREATE TRIGGER events_job_updated AFTER UPDATE OF props ON jobs
  WHEN old.finished_at IS NOT NULL AND old.runner_id IS NULL AND new.runner_id IS NULL BEGIN
    INSERT INTO events (kind, at, job_id, change, state)
      VALUES ('job', ${PRESENT}, new.id, 'updated', new.execution);
  END;
  CREATE TRIGGER events_job_removed AFTER DELETE ON jobs BEGIN
    INSERT INTO events (kind, at, job_id, body)
      VALUES ('removed_job', ${PRESENT}, old.id, json_object('job_uuid', old.uuid));
  END;
  CREATE TRIGGER events_log AFTER INSERT ON job_log BEGIN
    INSERT INTO events (kind, at, job_id, line) VALUES ('log', new.created_at, new.job_id, new.seq);
  END;

  -- The first look after the end of its job finds that a claim still stands; release() says how it goes.
  CREATE TRIGGER events_leftover_made AFTER UPDATE OF next_try_at ON machine_claims
  WHEN old.next_try_at IS NULL AND new.next_try_at IS NOT NULL BEGIN
    INSERT INTO events (kind, at, body) VALUES (
      'own_machine',
      ${PRESENT},
      json_object('change', 'leftover_made', 'machine_uuid', new.uuid, 'job_uuid', new.job_uuid)
    );
  END;
  -- Another job makes a machine of this uuid: nothing had it.
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
export const LOCAL_EVENTS = `
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
