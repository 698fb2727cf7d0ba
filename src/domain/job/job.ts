// Jobs: their fields and their phases. request.ts reads what callers send, wire.ts writes what they are
// shown, state.ts decides where a job goes.
//
// A job runs its chain; when that fails, or its time is up, its onerror; when it is canceled, its
// oncancel. `phase` says which of the three it is in. What tasks set on their job object is kept in
// `props`, except for `params`, which has a column of its own.

import { unreachable } from "../error.ts";
import {
  type HostUuid,
  isUuid,
  type JobUuid,
  type MachineUuid,
  type RunnerId,
  type WorkflowUuid,
} from "../id.ts";
import type { Instant } from "../instant.ts";
import {
  type Execution,
  executionOf,
  type Move,
  type Phase,
  PHASES,
  startsAfter,
} from "./state.ts";
import {
  ANY_VALUE,
  COUNT,
  FLAG,
  INSTANT,
  orNull,
  SECONDS,
  type ShapeOf,
  TEXT,
  whole,
  wordOf,
} from "../description/answer.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../json.ts";
import { maskedJson } from "../masking.ts";
import type { Idempotency } from "./idempotency.ts";
import { ANY_HOST, DEFAULT_TIMEOUT_SECONDS, type Task, type Workflow } from "./workflow.ts";

/** The outcome of one task. Only tasks that ran have an entry. @see document 2, Job */
export const TASK_RESULT = whole("The outcome of one task. Only tasks that ran have one.", {
  result: { ...ANY_VALUE, description: "Any JSON value; `OK` if the task gave none." },
  error: {
    ...ANY_VALUE,
    description: "The empty string if there was none; otherwise a string or an object.",
    anyOf: [
      TEXT,
      { type: "object", properties: { name: TEXT, message: TEXT }, additionalProperties: true },
    ],
  },
  name: { ...TEXT, description: "The task's name, or its uuid if it has none." },
  started_at: INSTANT,
  finished_at: INSTANT,
  attempts: {
    ...COUNT,
    description: "Executions of the body, without those that ended with the agent.",
  },
});
/** One entry of `chain_results` or `onerror_results`. @see document 2, Job */
export type TaskResult = ShapeOf<typeof TASK_RESULT>;

/** The place of a task, for the shapes of answers. */
export const TASK_INDEX = {
  ...COUNT,
  description: "Place of the task in the chain of the phase, from 0.",
};

/** A failed attempt of a task, or one that ended with the agent, as answers show it. */
export const FAILED_ATTEMPT = whole("An attempt of a task that failed.", {
  task: { ...TEXT, description: "The task's name, or its uuid if it has none." },
  phase: wordOf(PHASES),
  index: TASK_INDEX,
  attempt: {
    ...COUNT,
    description:
      "Number of the attempt, from 1; those that ended with the agent and fallbacks count too.",
  },
  fallback: { ...FLAG, description: "Whether the fallback ran and not the body." },
  error: {
    ...ANY_VALUE,
    description:
      "What it failed with, cut if it is long; `interrupted` when it ended with the agent.",
  },
  message: { ...TEXT, description: "The error in one line." },
  started_at: INSTANT,
  finished_at: INSTANT,
  wait_seconds: {
    ...orNull(SECONDS),
    description: "Seconds until the next attempt; null when none follows.",
  },
});
type AttemptOnWire = ShapeOf<typeof FAILED_ATTEMPT>;
/** An attempt as it is stored, beside the phase. */
export type FailedAttempt = Omit<AttemptOnWire, "phase" | "message">;

/** Error of a task, or of an attempt, that ended with its agent. */
export const INTERRUPTED = "interrupted";

/** Error of a job whose host was forgotten, and of the task that it had reached. */
export const HOST_LOST = "host_lost";

/** How many failed attempts of a task are kept: the first and the last ones. */
export const ATTEMPTS_KEPT = { first: 5, last: 20 } as const;

/** Characters of an attempt's error, as JSON, up to which it is kept whole. */
const ATTEMPT_ERROR_CHARS_MAX = 4096;

/** Names of the params that the job's workflow declares secret, from the job's `props`. */
export function secretNames({ secret_params }: JsonObject): ReadonlySet<string> {
  // The parser has checked them when the workflow was accepted.
  return new Set(secret_params as readonly string[] | undefined);
}

/** Whether any host may run a job, from the job's `props`. */
export function isFree({ placement }: JsonObject): boolean {
  return placement === ANY_HOST;
}

/** The `props` of a new job, with what the engine needs of its workflow: the workflow may change later. */
export function propsOf(
  { props = {}, ordered_by, workflow: { secret_params, placement } }: Pick<
    NewJob,
    "props" | "ordered_by" | "workflow"
  >,
): JsonObject {
  return {
    ...props,
    ...(ordered_by === undefined ? {} : { ordered_by }),
    ...(secret_params === undefined ? {} : { secret_params: [...secret_params] }),
    ...(placement === undefined ? {} : { placement }),
  };
}

/** Which host a job that is not free belongs to. */
interface JobPlace {
  /** Uuid or name of a host; undefined when the request names none. */
  readonly server: string | undefined;
  /** Without `server`: the host that has this machine. */
  readonly machine: MachineUuid | undefined;
}

/** The param that names the host of a job. */
export const SERVER_PARAM = "server_uuid";

/** Reads the place of a job from its params. */
export function placeOf({ vm_uuid, uuid, [SERVER_PARAM]: server }: JsonObject): JobPlace {
  const machine = vm_uuid ?? uuid;
  return {
    server: server === undefined || server === null
      ? undefined
      : typeof server === "string"
      ? server
      : JSON.stringify(server),
    machine: isUuid(machine) ? machine as MachineUuid : undefined,
  };
}

/**
 * The error of an attempt as it is stored: the beginning of its text if its JSON is too long.
 * @param secrets names of the job's secrets, called only when they are needed
 */
export function keptError(error: JsonValue, secrets: () => ReadonlySet<string>): JsonValue {
  if (JSON.stringify(error).length <= ATTEMPT_ERROR_CHARS_MAX) return error;
  return cut(errorText(error, secrets()), ATTEMPT_ERROR_CHARS_MAX);
}

/** Characters of an error in one line. */
const ERROR_LINE_CHARS_MAX = 300;

/**
 * The error of a task in one line.
 * @param secrets names whose values are masked, besides those that are masked everywhere
 */
export function errorLine(error: JsonValue, secrets: ReadonlySet<string>): string {
  // Enough of a long error for one line.
  const text = errorText(error, secrets).slice(0, 4 * ERROR_LINE_CHARS_MAX);
  const line = text.toWellFormed().replace(/[\s\p{Cc}]+/gu, " ").trim();
  return cut(line, ERROR_LINE_CHARS_MAX);
}

/** The text of an error. Tasks usually fail with a text or an object with a message, but may give anything. */
function errorText(error: JsonValue, secrets: ReadonlySet<string>): string {
  if (typeof error === "string") return error;
  const message = isJsonObject(error) ? error.message : undefined;
  return typeof message === "string" && message !== ""
    ? message
    : JSON.stringify(maskedJson(error, secrets));
}

function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax - 1).toWellFormed()}…`;
}

/** A failed attempt as answers show it. @param phase the chain of its task */
export function attemptOnWire(
  phase: Phase,
  attempt: FailedAttempt,
  secrets: ReadonlySet<string>,
): AttemptOnWire {
  const { task, index, attempt: number, fallback, error } = attempt;
  const { started_at, finished_at, wait_seconds } = attempt;
  return {
    task,
    phase,
    index,
    attempt: number,
    fallback,
    error: maskedJson(error, secrets),
    message: errorLine(error, secrets),
    started_at,
    finished_at,
    wait_seconds,
  };
}

/** Error of a task that exceeded its own time, as clients of document 2 know it. */
export const TASK_TIMEOUT = "task timeout error";
/** Error of a chain that exceeded its workflow's time. */
export const WORKFLOW_TIMEOUT = "workflow timeout";

/** A job as the store keeps it. @see document 2, Job */
export interface Job {
  readonly uuid: JobUuid;
  readonly workflow_uuid: WorkflowUuid;
  readonly name: string;
  readonly execution: Execution;
  readonly phase: Phase;
  readonly chain: readonly Task[];
  readonly onerror: readonly Task[];
  readonly oncancel: readonly Task[];
  /** Seconds for the chain; time spent queued or waiting does not count. */
  readonly timeout: number;
  readonly exec_after: Instant;
  /** The earliest time at which a runner may claim the job; null when none may. */
  readonly claimable_at: Instant | null;
  readonly target: string | null;
  /** Pattern of targets that no other job may have while this one is unfinished. */
  readonly locks: string | null;
  /** URL that is called when the job is final. */
  readonly callback_url: string | null;
  /** The machine that the job makes or acts on, when it is a job of a machine. */
  readonly machine_uuid: MachineUuid | null;
  /** The only host that may run it, or the one that has claimed a free job. Null where none is known. */
  readonly host: HostUuid | null;
  readonly params: JsonObject;
  /** The params of the request; tasks change `params` instead. Requests are compared by these. */
  readonly requested_params: JsonObject;
  /** What tasks set on the job besides `params`. */
  readonly props: JsonObject;
  readonly chain_results: readonly TaskResult[];
  readonly onerror_results: readonly TaskResult[];
  readonly oncancel_results: readonly TaskResult[];
  readonly created_at: Instant;
  /** When a runner first claimed the job. */
  readonly started_at: Instant | null;
  readonly finished_at: Instant | null;
  /** Milliseconds that the current phase has run; while a runner has the job, up to `elapsed_at`. */
  readonly elapsed_ms: number;
  /** Milliseconds that the phases before the current one have run. */
  readonly phases_ms: number;
  /** Null while no runner has the job. */
  readonly elapsed_at: Instant | null;
  /** Failed attempts of the current task, without those that ended with the agent. */
  readonly failures: number;
  /** Earliest start of the next attempt of the current task; null unless one has failed. */
  readonly retry_at: Instant | null;
  readonly runner_id: RunnerId | null;
  /** How often the job was claimed. Names a claim: a runner may write about the job only under its own. */
  readonly lease: number;
  /** Claims of the current task without a recorded result, that of its runner included; see STARTS_MAX in run_job.ts. */
  readonly starts: number;
}

/** A job that is about to be written. */
export interface NewJob {
  readonly uuid: JobUuid;
  readonly workflow: Workflow;
  /** As the caller named it, by the caller's calendar. Absent: at once. */
  readonly exec_after?: Instant | undefined;
  /** Milliseconds to wait from when the job is written; never together with `exec_after`. */
  readonly delay_ms?: number;
  readonly target: string | null;
  readonly params: JsonObject;
  /** The requested params, if the job begins with changed ones; see Job. */
  readonly requested_params?: JsonObject;
  /** The machine that the job makes or acts on; it has at most one unfinished job. */
  readonly machine_uuid?: MachineUuid | null;
  /** What the engine stores with the job, such as the previous attempt. */
  readonly props?: JsonObject;
  readonly locks?: string | null;
  readonly callback_url?: string | null;
  /** The caller, in a shared store. */
  readonly ordered_by?: string | undefined;
  /** Results of an earlier job: the new job starts with the task after them. */
  readonly chain_results?: readonly TaskResult[];
  /** Identifies a repeated request. */
  readonly idempotency?: Idempotency;
}

/** A new job before its workflow was read. */
export type JobFields = Omit<NewJob, "workflow">;

/** The age groups of GET /stats, oldest first. They do not overlap; a job's `created_at` decides. */
export const STATS_WINDOWS = ["all_time", "past_24h", "past_hour", "current"] as const;

/** Seconds that the chain of a job may run. */
export function timeoutOf(workflow: Workflow): number {
  return workflow.timeout ?? DEFAULT_TIMEOUT_SECONDS;
}

/** The tasks and the results of the job's current phase. */
export function phaseOf(job: Job): { tasks: readonly Task[]; results: readonly TaskResult[] } {
  switch (job.phase) {
    case "chain":
      return { tasks: job.chain, results: job.chain_results };
    case "onerror":
      return { tasks: job.onerror, results: job.onerror_results };
    case "oncancel":
      return { tasks: job.oncancel, results: job.oncancel_results };
    default:
      return unreachable(job.phase);
  }
}

/** The job after a move, for its runner, which need not read it again. */
export function jobAfter(
  job: Job,
  move: Move,
  data: Pick<Job, "params" | "props">,
  entry?: TaskResult,
): Job {
  const results = entry === undefined
    ? {}
    : { [`${job.phase}_results`]: [...phaseOf(job).results, entry] };
  return {
    ...job,
    ...data,
    ...results,
    starts: startsAfter(move, job.starts),
    failures: 0,
    retry_at: null,
    execution: executionOf(move.to),
    phase: move.phase,
  };
}
