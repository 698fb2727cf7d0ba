// What GET /agent/v1/events sends: the kinds of events, and the payload of each, described once. The
// type, the check of the command line and the published schema come from these descriptions.

import { object } from "./description/object.ts";
import { uuid } from "./description/formats.ts";
import { type Described, type Description, refuseValue } from "./description/description.ts";
import { about, anyText, integer, oneOf, text } from "./description/value.ts";
import { unreachable } from "./error.ts";
import type { HostUuid, JobUuid, MachineUuid } from "./id.ts";
import { type Instant, ISO_8601 } from "./instant.ts";
import { type Execution, EXECUTIONS, PHASES } from "./job/state.ts";
import {
  type JobSummary,
  summaryOnWire,
  type SummaryTask,
  type SummaryView,
} from "./job/summary.ts";
import { type JobLogLine, logLineOnWire } from "./job/log_line.ts";
import { isJsonObject, type JsonObject } from "./json.ts";

/** What happened to a job. */
export const JOB_CHANGES = [
  "created",
  "started",
  "task",
  "attempt",
  "queued",
  "waiting",
  "succeeded",
  "failed",
  "canceled",
  "retried",
  "undone",
  "updated",
  "removed",
] as const;

const MACHINE_CHANGES = [
  "job",
  "state",
  "leftover_made",
  "leftover_failed",
  "leftover_removed",
  "leftover_dropped",
] as const;

const MEDIA_CHANGES = [
  "added",
  "removed",
  "downloading",
  "download_ended",
  "uploading",
  "upload_ended",
] as const;

const INDEX_CHANGES = ["sync_started", "syncing", "sync_finished", "sync_failed"] as const;

const SYNC_ENDS = ["complete", "partial", "failed", "aborted"] as const;

const HOST_CHANGES = [
  "started",
  "draining",
  "settings_reloaded",
  "disk_low",
  "disk_fine",
  "walls_changed",
  "registered",
  "cordoned",
  "uncordoned",
  "forgotten",
  "away",
  "returned",
] as const;

/** Least milliseconds between two progress events of one download or upload. */
export const PROGRESS_EVENT_MS = 5_000;
/** Characters of the name, the detail and the error in an event that stores its own payload. */
const OWN_CHARS_MAX = 255;

const instant = about(
  "ISO 8601 in UTC with milliseconds.",
  text(ISO_8601, "an instant"),
  { format: "date-time" },
);
const count = integer(0, Number.MAX_SAFE_INTEGER);

function orNull<T>(description: Description<T>): Description<T | null> {
  return {
    words: `${description.words}, or null`,
    read: (value, field, findings) =>
      value === null ? null : description.read(value, field, findings),
    schema: (components) => ({ anyOf: [description.schema(components), { type: "null" }] }),
  };
}

/** An object whose schema is in another part of the OpenAPI document. */
function shownAs(schema: string): Description<JsonObject> {
  return {
    words: "an object",
    read(value, field, findings) {
      if (isJsonObject(value)) return value;
      return void refuseValue(value, field, "an object", findings);
    },
    schema: () => ({ $ref: `#/components/schemas/${schema}` }),
  };
}

/** An object with all of these fields; later versions may add more. */
function payload<F extends Readonly<Record<string, Description<unknown>>>>(
  note: string,
  fields: F,
): Description<{ readonly [Name in keyof F]: Described<F[Name]> }> {
  const names = Object.keys(fields);
  // All fields are required, and each was read by its own description.
  return about(
    note,
    object(fields as Record<string, Description>, { required: names, others: "kept" }),
  ) as Description<{ readonly [Name in keyof F]: Described<F[Name]> }>;
}

const task = payload("A task of a job.", {
  name: anyText(),
  phase: oneOf(PHASES),
  index: about("Its place in the chain of the phase, from 0.", count),
});

/** The payload of each kind, by its name. */
export const EVENT_PAYLOADS = {
  job: payload("A job was created, changed or removed.", {
    time: instant,
    job_uuid: uuid,
    change: about(
      "`started`: a runner took the job and a task begins; `task`: a task has ended and the next one " +
        "begins; `attempt`: an attempt failed and another one follows; `queued`: the job waits for a " +
        "slot again; `undone`: the `oncancel` chain of a canceled job has ended, or its host confirmed that its task has; `updated`: a finished job names another " +
        "attempt; `removed`: the job was removed with its log.",
      oneOf(JOB_CHANGES),
    ),
    state: about("After the change; null if it was removed.", orNull(oneOf(EXECUTIONS))),
    task: about(
      "The task of the change: for `started` the one that begins, for `attempt` the one " +
        "whose attempt failed, otherwise the one that has ended.",
      orNull(task),
    ),
    next_task: about("The task that begins with the change `task`.", orNull(task)),
    job: about(
      "The job at the time of sending: after a reconnection it may be ahead of the event. " +
        "Null if it was removed.",
      orNull(shownAs("JobSummary")),
    ),
  }),
  log: payload("A line was added to the log of a job.", {
    time: instant,
    job_uuid: uuid,
    sequence: about("`sequence` of the line in the log.", count),
    line: about(
      "Null when it is over 65536 bytes: `GET /agent/v1/jobs/{job_uuid}/log` has it.",
      orNull(shownAs("LogLine")),
    ),
  }),
  machine: payload("A job of a machine changed its state, or the machine itself did.", {
    time: instant,
    change: about(
      "`job`: a job of the machine began or ended; `state`: a list of the machines shows a new state; " +
        "`leftover_made`: its job failed, and something may be left on the host; `leftover_failed`: an attempt " +
        "to remove it failed; `leftover_removed`: nothing is left; `leftover_dropped`: an operator dropped it.",
      oneOf(MACHINE_CHANGES),
    ),
    machine_uuid: uuid,
    alias: orNull(anyText()),
    action: about(
      "The workflow of the job, such as `provision-machine`; null unless the change is `job`.",
      orNull(anyText()),
    ),
    state: about(
      "The state of the job; null unless the change is `job`.",
      orNull(oneOf(EXECUTIONS)),
    ),
    machine_state: about(
      "vmadm's word for the state of the machine; null if it no longer exists, and unless the change " +
        "is `state`.",
      orNull(anyText()),
    ),
    job_uuid: about("Null if the change is `state`.", orNull(uuid)),
    error: about("Why the job or the attempt failed, in one line.", orNull(anyText())),
  }),
  media: payload("A file is being transferred, was added, or was removed.", {
    time: instant,
    change: about(
      "`added`: by a download, an upload or a job that read it; `removed`: no copy is known any more; " +
        "`downloading`, `uploading`: sent at the start, then at most every " +
        `${PROGRESS_EVENT_MS / 1000} seconds per file, whatever the number of requests; ` +
        "`download_ended`, `upload_ended`: the transfer is over, with or without an error.",
      oneOf(MEDIA_CHANGES),
    ),
    name: about(`Its first ${OWN_CHARS_MAX} characters.`, anyText()),
    sha256: about("Of the complete file; null until it has arrived.", orNull(anyText())),
    size: about("Bytes of the complete file; null if unknown.", orNull(count)),
    done: about("Bytes received so far; null for `added` and `removed`.", orNull(count)),
    error: about("Why it failed; otherwise null.", orNull(anyText())),
  }),
  index: payload("A sync of the image index began, progressed or ended.", {
    time: instant,
    change: about(
      `\`syncing\`: sent at most every ${PROGRESS_EVENT_MS / 1000} seconds, so not in a shorter ` +
        "sync; `GET /agent/v1/index` has the progress.",
      oneOf(INDEX_CHANGES),
    ),
    outcome: about(
      "How it ended; null before. `aborted` if it was canceled or the agent stopped.",
      orNull(oneOf(SYNC_ENDS)),
    ),
    added: about("Documents; like the other numbers, 0 before the end.", count),
    changed: count,
    removed: count,
    problems: about("Documents that were refused or could not be read.", count),
  }),
  host: payload("Something about an agent or its host has changed.", {
    time: instant,
    host_uuid: about("The host of `GET /agent/v1/hosts`.", uuid),
    change: about(
      "`started`: problems with disk and walls are reported again after it; `disk_low`, `disk_fine`: " +
        "the disk of the state folder has less free space than its reserve, or enough again; " +
        "`walls_changed`: other walls around guests stand than at the last check, or the first check " +
        "found one that does not stand; `registered`: the host is a new one of the store; `cordoned`, " +
        "`uncordoned`, `forgotten`: an operator did so; `away`: nothing was heard of the host for a lease; " +
        "`returned`: it is heard again.",
      oneOf(HOST_CHANGES),
    ),
    detail: about(
      "For people; the name of the host, where other hosts or an operator say what happened.",
      anyText(),
    ),
  }),
} as const;

/** The kinds, which are the values of `event:` in the stream. */
export const EVENT_KINDS = Object.keys(EVENT_PAYLOADS) as readonly EventKind[];
/** A name in {@linkcode EVENT_PAYLOADS}. */
export type EventKind = keyof typeof EVENT_PAYLOADS;
/** The JSON of an event without its id and kind, which frame it. */
export type EventPayload<K extends EventKind> = Described<typeof EVENT_PAYLOADS[K]>;

/** The payload of `event: reset`, sent instead of events that are no longer kept. */
export const resetPayload = payload(
  "Events may have been missed: read the lists again, then continue from here.",
  {
    reason: about(
      "`old`: events after the id are no longer kept; `unknown`: no event had the id.",
      oneOf(["old", "unknown"]),
    ),
    position: about("The id after which the stream continues.", anyText()),
  },
);
/** The payload of a reset. @see resetPayload */
export type ResetPayload = Described<typeof resetPayload>;

/** Common to all events: the sequence number, which is the id, and the time. */
interface EventHead {
  /** Increases with every event, across restarts too; never reused. */
  readonly seq: number;
  readonly at: Instant;
}

/** An event about an existing job. */
interface OfJob extends EventHead {
  /** The job as it is now. */
  readonly job: JobSummary;
}

/** An event as the store keeps it. */
export type StoredEvent =
  | OfJob & {
    readonly kind: "job";
    readonly change: Exclude<typeof JOB_CHANGES[number], "removed">;
    readonly state: Execution;
    readonly task: SummaryTask | null;
    readonly next_task: SummaryTask | null;
  }
  | EventHead & {
    readonly kind: "removed_job";
    readonly job_uuid: JobUuid;
  }
  | OfJob & {
    readonly kind: "log";
    readonly sequence: number;
    /** Null when it is too large for an event. */
    readonly line: JobLogLine | null;
  }
  | OfJob & {
    readonly kind: "machine";
    readonly machine_uuid: MachineUuid;
    readonly state: Execution;
  }
  | EventHead & OwnEvent;

/** An event with its own payload; other events refer to the row of a job or a log line. */
export type OwnEvent =
  | {
    readonly [K in "media" | "index" | "host"]: {
      readonly kind: K;
      readonly payload: Omit<EventPayload<K>, "time">;
    };
  }["media" | "index" | "host"]
  | {
    readonly kind: "own_machine";
    readonly payload:
      & Pick<EventPayload<"machine">, "change" | "machine_uuid">
      & {
        readonly [
          Name in Exclude<keyof EventPayload<"machine">, "time" | "change" | "machine_uuid">
        ]?: EventPayload<"machine">[Name];
      };
  };

/** An event about a host. */
export function hostEvent(
  host_uuid: HostUuid,
  change: EventPayload<"host">["change"],
  detail: string,
): OwnEvent {
  return { kind: "host", payload: { host_uuid, change, detail: ownText(detail) } };
}

/** Cuts a text to the length that such an event may have. */
export function ownText(text: string): string {
  return text.slice(0, OWN_CHARS_MAX);
}

/** The payload of an event for a caller. */
export function eventOnWire(
  event: StoredEvent,
  view: SummaryView,
): EventPayload<EventKind> {
  const { at: time } = event;
  switch (event.kind) {
    case "job": {
      const { change, state, task, next_task, job } = event;
      const shown = { change, state, task: taskShown(task), next_task: taskShown(next_task) };
      return { time, job_uuid: job.uuid, ...shown, job: summaryOnWire(job, view) };
    }
    case "removed_job": {
      const { job_uuid } = event;
      const none = { state: null, task: null, next_task: null, job: null };
      return { time, job_uuid, change: "removed", ...none };
    }
    case "log": {
      const { job, sequence, line } = event;
      const shown = line === null ? null : logLineOnWire(line, new Set(job.secrets));
      return { time, job_uuid: job.uuid, sequence, line: shown };
    }
    case "machine": {
      const { machine_uuid, state, job: { alias, name, uuid, error } } = event;
      const shown = { alias, action: name, state, job_uuid: uuid, error };
      return { time, change: "job", machine_uuid, machine_state: null, ...shown };
    }
    case "own_machine": {
      const none = { alias: null, action: null, state: null, machine_state: null };
      return { time, ...none, job_uuid: null, error: null, ...event.payload };
    }
    case "media":
    case "index":
    case "host":
      return { time, ...event.payload };
    default:
      return unreachable(event);
  }
}

function taskShown(task: SummaryTask | null): EventPayload<"job">["task"] {
  return task === null ? null : { name: task.name, phase: task.phase, index: task.index };
}

/** The kind under which an event is sent. */
export function kindOnWire({ kind }: Pick<StoredEvent, "kind">): EventKind {
  switch (kind) {
    case "removed_job":
      return "job";
    case "own_machine":
      return "machine";
    default:
      return kind;
  }
}
