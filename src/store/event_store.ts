// Events in the store: the interface that GET /agent/v1/events reads, and their rows.

import type { EventKind, OwnEvent, StoredEvent } from "../domain/event.ts";
import type { JobUuid, MachineUuid } from "../domain/id.ts";
import type { Instant } from "../domain/instant.ts";
import type { Job } from "../domain/job/job.ts";
import type { Execution, Phase } from "../domain/job/state.ts";
import type { JobSummary, SummaryTask } from "../domain/job/summary.ts";
import type { JobLogLine } from "../domain/job/log_line.ts";
import { taskName } from "../domain/job/workflow.ts";

/** The number of newest events that are kept, however fast events arrive. */
export const EVENTS_KEPT = 100_000;
/** Longest log line sent with its event, bytes; the log itself may hold longer ones. */
export const EVENT_LINE_BYTES_MAX = 64 * 1024;

/** The range of the kept events; 0 and 0 before the first event. */
export interface EventBounds {
  /** `seq` of the oldest. */
  readonly first: number;
  /** `seq` of the newest. */
  readonly last: number;
}

/** Selects events; an event must match every given key. */
export interface EventFilter {
  readonly job?: readonly JobUuid[] | undefined;
  readonly machine?: readonly MachineUuid[] | undefined;
  readonly kind?: readonly EventKind[] | undefined;
}

/** Some events, in their order. */
export interface EventPage {
  /** Without events whose subject was removed since, and events that do not match. */
  readonly events: readonly StoredEvent[];
  /** The page covers events up to this `seq`; it is the requested `seq` if the page is empty. */
  readonly last: number;
  readonly more: boolean;
  /** False when events between the requested `seq` and this page were removed. */
  readonly joins: boolean;
}

/**
 * The log of events, in one order. An event about a job is inserted in the transaction of the change that it reports.
 * Each write also removes a few of the oldest events.
 */
export interface EventStore {
  /** Adds an event that no change of a row implies. */
  append(event: OwnEvent): Promise<void>;
  bounds(): Promise<EventBounds>;
  /**
   * A page of the events after `seq`. Events of given jobs are found by an index; for given kinds or machines a bounded
   * number of rows is examined, however many events are kept.
   * @param limit number of events to return
   */
  after(seq: number, limit: number, filter?: EventFilter): Promise<EventPage>;
  /** Calls back after every commit, whatever it wrote. @returns a function that ends it */
  follow(committed: () => void): () => void;
}

/** Bytes of log lines in one page. */
export const EVENT_PAGE_BYTES = 256 * 1024;
/** Rows that are examined for one page of given kinds or machines. */
export const EVENTS_LOOKED_AT = 4096;
/** Kinds whose rows name their job. */
export const KINDS_OF_JOBS: readonly EventKind[] = ["job", "log", "machine"];

/** An event as `EVENT_COLUMNS` selects it. The job data in it is read together with the event, not stored with it. */
export interface EventRow {
  readonly seq: number;
  readonly kind: StoredEvent["kind"];
  readonly at: Instant;
  readonly job_id: number | null;
  readonly change: Extract<StoredEvent, { kind: "job" }>["change"] | null;
  readonly state: Execution | null;
  readonly phase: Phase | null;
  readonly ended: number | null;
  readonly next_phase: Phase | null;
  readonly line: number | null;
  readonly body: string | null;
}

/** The columns of an event, for SELECT on `events`. */
export const EVENT_COLUMNS =
  "seq, kind, at, job_id, change, state, phase, ended, next_phase, line, body";

/** The kinds of rows that are sent as one kind of event. */
export function storedKinds(kind: EventKind): readonly StoredEvent["kind"][] {
  switch (kind) {
    case "job":
      return ["job", "removed_job"];
    case "machine":
      return ["machine", "own_machine"];
    default:
      return [kind];
  }
}

/** The log lines of a page by `seq`; null for a line that is too large to be sent. */
export interface PageLines {
  readonly bySeq: ReadonlyMap<number, JobLogLine | null>;
  /** How many events fit the page. */
  readonly fit: number;
}

/** A log line as an event contains it; the entry is null if it is too large. */
export interface EventLineRow {
  readonly seq: number;
  readonly phase: Phase | null;
  readonly attempt: number | null;
  readonly entry: string | null;
  readonly created_at: Instant;
}

/** The job data that events show. */
export interface EventJob {
  readonly summary: JobSummary;
  readonly definition: Pick<Job, Phase>;
  readonly machine_uuid: MachineUuid | null;
}

/** Matching rows, and the `seq` up to which they are complete. */
export interface FoundEvents {
  readonly rows: readonly EventRow[];
  readonly upTo: number;
}

/**
 * Makes a page of the events found after `seq`.
 * @param fit the rows that fit the page
 */
export function eventPage(
  seq: number,
  { first, last }: EventBounds,
  found: FoundEvents,
  fit: readonly EventRow[],
  jobs: ReadonlyMap<number, EventJob>,
  lines: PageLines["bySeq"],
): EventPage {
  const cut = fit.length < found.rows.length;
  const upTo = cut ? fit.at(-1)?.seq ?? seq : Math.max(found.upTo, seq);
  return {
    events: fit.flatMap((row) => eventFromRow(row, jobs, lines) ?? []),
    last: upTo,
    more: upTo < last,
    // Every number is used, and the newest event is never removed, so a gap means removed events.
    joins: last <= seq || first <= seq + 1,
  };
}

/** Converts a row; undefined for an event whose subject was removed. */
function eventFromRow(
  row: EventRow,
  jobs: ReadonlyMap<number, EventJob>,
  lines: PageLines["bySeq"],
): StoredEvent | undefined {
  const { seq, at, kind, job_id, body } = row;
  // This store made the texts from values of these types.
  if (kind === "removed_job") {
    return { seq, at, kind, ...JSON.parse(body ?? "") as { readonly job_uuid: JobUuid } };
  }
  if (kind === "media" || kind === "index" || kind === "host" || kind === "own_machine") {
    return { seq, at, kind, payload: JSON.parse(body ?? "") as never };
  }
  const found = job_id === null ? undefined : jobs.get(job_id);
  if (found === undefined) return undefined;
  const { summary: job, definition, machine_uuid } = found;
  if (kind === "log") {
    const line = row.line === null ? undefined : lines.get(row.line);
    return line === undefined ? undefined : { seq, at, kind, job, sequence: row.line ?? 0, line };
  }
  const { change, state } = row;
  if (state === null) return undefined;
  if (kind === "machine") {
    return machine_uuid === null ? undefined : { seq, at, kind, job, machine_uuid, state };
  }
  return change === null
    ? undefined
    : { seq, at, kind, job, change, state, ...tasksOf(row, change, definition) };
}

/** Changes about the current task: it started, failed or ended. */
const OF_TASK: readonly string[] = [
  "started",
  "task",
  "attempt",
  "waiting",
  "succeeded",
  "failed",
  "retried",
];

function tasksOf(
  { phase, ended, next_phase }: EventRow,
  change: string,
  definition: Pick<Job, Phase>,
): { readonly task: SummaryTask | null; readonly next_task: SummaryTask | null } {
  const named = (phase: Phase | null, index: number): SummaryTask | null => {
    const task = phase === null ? undefined : definition[phase][index];
    return phase === null || task === undefined ? null : { name: taskName(task), phase, index };
  };
  if (ended === null || !OF_TASK.includes(change)) return { task: null, next_task: null };
  const next = next_phase === phase ? ended + 1 : 0;
  return {
    task: named(phase, ended),
    next_task: change === "task" ? named(next_phase, next) : null,
  };
}
