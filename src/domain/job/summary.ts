// Summaries of jobs as answers show them: without task sources and secrets. Their shapes, which /openapi.json shows, are
// here.

import { type HostUuid, isUuid, type JobUuid, type MachineUuid, type WorkflowUuid } from "../id.ts";
import { type Instant, msBetween } from "../instant.ts";
import type { JsonObject } from "../json.ts";
import { MASK, maskedJson } from "../masking.ts";
import { type Job, TASK_INDEX } from "./job.ts";
import { type Execution, EXECUTIONS, isUndoing, type Phase, PHASES, stateOf } from "./state.ts";
import {
  ANY_OBJECT,
  COUNT,
  INSTANT,
  NULLABLE_COUNT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  NULLABLE_UUID,
  orNull,
  SECONDS,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  whole,
  wordOf,
} from "../description/answer.ts";
import { HOST_STATES, type JobHost } from "../host.ts";
import { elapsedMs, waitOf } from "./wire.ts";

/** The current or failed task of a job. */
export interface SummaryTask {
  /** Its name, or its uuid when it has none. */
  readonly name: string;
  readonly phase: Phase;
  /** Index in the chain of its phase, from 0. */
  readonly index: number;
}

/** A job as the store reads it for a summary. */
export interface JobSummary extends
  Pick<
    Job,
    | "uuid"
    | "workflow_uuid"
    | "name"
    | "execution"
    | "claimable_at"
    | "target"
    | "created_at"
    | "started_at"
    | "finished_at"
    | "elapsed_ms"
    | "phases_ms"
    | "elapsed_at"
    | "failures"
    | "retry_at"
    | "runner_id"
    | "phase"
    | "starts"
  > {
  /** Why it failed, in one line. */
  readonly error: string | null;
  /** The task that runs, waits or has failed; null if there is none. */
  readonly task: SummaryTask | null;
  /** Ended tasks of the chain, and all of its tasks. */
  readonly tasks_done: number;
  readonly tasks_total: number;
  /** The latest progress that the current task reported; null when too large for a summary. */
  readonly progress: JsonObject | null;
  /** Null when they are too large for a summary. */
  readonly params: JsonObject | null;
  /** Bytes of the params as JSON. */
  readonly params_bytes: number;
  /** Names of params that the workflow declares secret. */
  readonly secrets: readonly string[];
  /** The alias of the job's machine, if a job names it. */
  readonly alias: string | null;
  /** The host that runs it or has run it; null when unknown. */
  readonly host: JobHost | null;
  /** Whether any host may run it. */
  readonly free: boolean;
  readonly prev_attempt: JobUuid | null;
  readonly next_attempt: JobUuid | null;
  /** When it was read, by the clock of a shared store; null when the agent's own clock counts. */
  readonly read_at: Instant | null;
}

/** What a summary depends on besides the job. */
export interface SummaryView {
  /** By the agent's clock. */
  readonly now: Instant;
  /** The managed host, for a store that does not record hosts. */
  readonly host: string;
  /** Whether the caller may see params; other callers see only their names. */
  readonly showsParams: boolean;
}

/** Reasons why an unfinished job does not run. `waiting_for_retry`: between two attempts of a task. */
const WAIT_REASONS = [
  "scheduled",
  "waiting_for_slot",
  "waiting_for_resume",
  "waiting_for_retry",
  "stopping",
  "undoing",
] as const;
type SummaryReason = SummaryOnWire["reason"];

/** A task as answers show it. */
export const SUMMARY_TASK = whole("The task that runs, waits or has failed.", {
  name: TEXT,
  phase: wordOf(PHASES),
  index: TASK_INDEX,
  attempt: { ...NULLABLE_COUNT, description: "Null while it is not running." },
  since: { ...NULLABLE_INSTANT, description: "When the attempt began." },
  next_retry_at: NULLABLE_INSTANT,
});

/** The fields of a summary; the answer about one job adds more. */
export const SUMMARY_FIELDS = {
  uuid: UUID,
  name: { ...TEXT, description: "The workflow's name." },
  workflow_uuid: UUID,
  state: wordOf(EXECUTIONS),
  reason: {
    ...orNull(wordOf(WAIT_REASONS)),
    description: "Why the job is not running: `scheduled` until `next_run_at`, " +
      "`waiting_for_retry` until `task.next_retry_at`; `stopping` is a canceled job whose host " +
      "has not yet said that its task has ended; `undoing` is one whose `oncancel` chain has " +
      "not ended.",
  },
  next_run_at: NULLABLE_INSTANT,
  task: orNull(shapeRef("SummaryTask", SUMMARY_TASK)),
  tasks_done: { ...COUNT, description: "Tasks of the chain that have ended." },
  tasks_total: COUNT,
  progress: {
    ...orNull(ANY_OBJECT),
    description: "The latest progress of the running task: `phase`, `done` and `total` in bytes, " +
      "`rate` in bytes per second. Null if it is over 4096 bytes: the log has it.",
  },
  error: { ...NULLABLE_TEXT, description: "Why the job failed, in one line." },
  target: NULLABLE_TEXT,
  machine: orNull(
    whole("The machine that the target names.", { uuid: UUID, alias: NULLABLE_TEXT }),
  ),
  host: {
    ...NULLABLE_TEXT,
    description:
      "Name of the host that runs it, or has run it. Null for a job that any host may run and " +
      "none has taken.",
  },
  host_uuid: { ...NULLABLE_UUID, description: "The uuid of that host." },
  host_state: {
    ...orNull(wordOf(HOST_STATES)),
    description: "Whether that host takes jobs: it does when `connected`.",
  },
  created_at: INSTANT,
  started_at: NULLABLE_INSTANT,
  finished_at: NULLABLE_INSTANT,
  elapsed: { ...SECONDS, description: "Seconds that its tasks have run so far." },
  duration: {
    ...orNull(SECONDS),
    description: "Seconds from the first start to the end, or until now.",
  },
  params: {
    ...orNull(ANY_OBJECT),
    description: "Secrets are masked; for a caller of scope `read`, every param is. Null if they " +
      "are over 4096 bytes: `GET /jobs/{job_uuid}` has them.",
  },
  params_bytes: COUNT,
  prev_attempt: { ...NULLABLE_UUID, description: "The job that this one repeats." },
  next_attempt: { ...NULLABLE_UUID, description: "The job that repeats this one." },
};

/** A summary as it is sent. */
export const SUMMARY = whole(
  "A job without the sources of its tasks and without secrets.",
  SUMMARY_FIELDS,
);
type SummaryOnWire = ShapeOf<typeof SUMMARY>;

/** The prefix of the target of every job of a machine. */
export const MACHINE_TARGET = "/machines/";

/** The target of every job of this machine. */
export function machineTarget(uuid: string): string {
  return MACHINE_TARGET + uuid;
}

/** The machine that the target of a job names. */
export function machineOfTarget(target: string | null): MachineUuid | undefined {
  const uuid = target?.startsWith(MACHINE_TARGET) ? target.slice(MACHINE_TARGET.length) : undefined;
  return isUuid(uuid) ? uuid as MachineUuid : undefined;
}

/** The summary of a job for a caller. */
export function summaryOnWire(job: JobSummary, view: SummaryView): SummaryOnWire {
  const { host } = view;
  const now = job.read_at ?? view.now;
  const machine = machineOfTarget(job.target);
  return {
    uuid: job.uuid,
    name: job.name,
    workflow_uuid: job.workflow_uuid,
    state: job.execution,
    reason: reasonOf(job, now),
    next_run_at: waitOf(job, now).next_run_at ?? null,
    task: taskOnWire(job, now),
    tasks_done: job.tasks_done,
    tasks_total: job.tasks_total,
    progress: job.progress === null
      ? null
      : maskedJson(job.progress, new Set(job.secrets)) as JsonObject,
    error: job.error,
    target: job.target,
    machine: machine === undefined ? null : { uuid: machine, alias: job.alias },
    host: job.host?.name ?? (job.free ? null : host),
    host_uuid: job.host?.uuid ?? null,
    host_state: job.host?.state ?? null,
    created_at: job.created_at,
    started_at: job.started_at,
    finished_at: job.finished_at,
    elapsed: (job.phases_ms + elapsedMs(job, now)) / 1000,
    duration: durationOf(job, now),
    params: shownParams(job, view),
    params_bytes: job.params_bytes,
    prev_attempt: job.prev_attempt,
    next_attempt: job.next_attempt,
  };
}

function reasonOf(job: JobSummary, now: Instant): SummaryReason {
  const { retry_at, runner_id } = job;
  if (isUndoing(job)) return stateOf(job) === "stopping" ? "stopping" : "undoing";
  if (runner_id !== null && retry_at !== null && retry_at > now) return "waiting_for_retry";
  return waitOf(job, now).reason ?? null;
}

/** The current task for a caller. A task that is not running has no attempt. */
function taskOnWire(job: JobSummary, now: Instant): SummaryOnWire["task"] {
  const { task, runner_id, starts, failures, elapsed_at, retry_at } = job;
  if (task === null) return null;
  const shown = { name: task.name, phase: task.phase, index: task.index };
  if (runner_id === null) return { ...shown, attempt: null, since: null, next_retry_at: null };
  const next = retry_at !== null && retry_at > now ? retry_at : null;
  // Between two attempts, the next one counts.
  const since = retry_at !== null && retry_at > (elapsed_at ?? "") ? retry_at : elapsed_at;
  return {
    ...shown,
    attempt: starts + failures,
    since: next === null ? since : null,
    next_retry_at: next,
  };
}

/** Seconds from the first start to the end, or until now. */
function durationOf({ started_at, finished_at }: JobSummary, now: Instant): number | null {
  if (started_at === null) return null;
  return Math.max(msBetween(started_at, finished_at ?? now), 0) / 1000;
}

function shownParams({ params, secrets }: JobSummary, view: SummaryView): JsonObject | null {
  if (params === null) return null;
  if (view.showsParams) return maskedJson(params, new Set(secrets)) as JsonObject;
  return Object.fromEntries(Object.keys(params).map((name) => [name, MASK]));
}

/** A position in a list of summaries, after its last entry. */
export interface SummaryPlace {
  /** By creation; by `created_at`; by `finished_at`; newest first. */
  readonly order: typeof SUMMARY_ORDERS[number];
  /** `created_at` or `finished_at` of the last entry; empty for the order by creation. */
  readonly at: Instant;
  /** Place of the last entry among all jobs. */
  readonly id: number;
}

/** The orders in which summaries can be listed. @see SummaryPlace */
export const SUMMARY_ORDERS = ["id", "created", "finished"] as const;

/** Filters a list of summaries; a job must match every given key. */
export interface SummaryFilter {
  /** How the uuid begins, in lower case. */
  readonly uuid?: string;
  readonly states?: readonly Execution[];
  readonly name?: string;
  readonly target?: string;
  /** Jobs whose target is this machine. */
  readonly machine?: MachineUuid;
  readonly workflow_uuid?: WorkflowUuid;
  readonly host?: HostUuid;
  /** Created at this time or later. */
  readonly since?: Instant;
  /** Created before this time. */
  readonly until?: Instant;
  /** Finished at this time or later. */
  readonly finished_since?: Instant;
  /** Params by name: the text of a param, or the JSON of any other value. */
  readonly params?: Readonly<Record<string, string>>;
  /** A text in name, target or error, and in the params if those are searched. ASCII matches in any case. */
  readonly search?: string;
  readonly searchesParams: boolean;
}
