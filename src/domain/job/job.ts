// Jobs: their fields and their phases. request.ts reads what callers send, wire.ts writes what they are
// shown, state.ts decides where a job goes.
//
// A job runs its chain; when that fails, or its time is up, its onerror; when it is canceled, its
// oncancel. `phase` says which of the three it is in. What tasks set on their job object is kept in
// `props`, except for `params`, which has a column of its own.

import { sha256Hex } from "../digest.ts";
import { invalidArgument, unreachable } from "../error.ts";
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
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from "../json.ts";
import { maskedJson } from "../masking.ts";
import { ANY_HOST, DEFAULT_TIMEOUT_SECONDS, type Task, type Workflow } from "./workflow.ts";

/** What one task ended with. Entries exist only for tasks that ran. @see document 2, Job */
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
  attempts: { ...COUNT, description: "Executions of the body." },
});
export type TaskResult = ShapeOf<typeof TASK_RESULT>;

/** The place of a task, for the shapes of answers. */
export const TASK_INDEX = {
  ...COUNT,
  description: "Place of the task in the chain of the phase, from 0.",
};

/** An attempt of a task that failed, or ended with the agent, as it is sent. */
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
/** The same as stored, together with its phase. */
export type FailedAttempt = Omit<AttemptOnWire, "phase" | "message">;

/** Error of a task, or of an attempt of one, that ended with the agent. */
export const INTERRUPTED = "interrupted";

/** Error of a job, and of the task that it was at, whose host was forgotten. */
export const HOST_LOST = "host_lost";

/** Failed attempts of a task that are kept: the first ones and the last ones. */
export const ATTEMPTS_KEPT = { first: 5, last: 20 } as const;

/** Characters of the JSON of an error that is kept whole with its attempt. */
const ATTEMPT_ERROR_CHARS_MAX = 4096;

/** The names that the workflow of a job called secret, by the `props` of the job. */
export function secretNames({ secret_params }: JsonObject): ReadonlySet<string> {
  // Checked when the workflow was accepted.
  return new Set(secret_params as readonly string[] | undefined);
}

/** Whether any host may run a job, by the `props` of the job. */
export function isFree({ placement }: JsonObject): boolean {
  return placement === ANY_HOST;
}

/** What the engine keeps of its workflow with a new job: the workflow may change later. */
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

/** Where a job goes that is not free. */
interface JobPlace {
  /** A host by its uuid or its name; undefined when the request names none. */
  readonly server: string | undefined;
  /** Else the host that has this machine. */
  readonly machine: MachineUuid | undefined;
}

/** The param that names the host of a job. */
export const SERVER_PARAM = "server_uuid";

/** The place that the params of a job ask for. */
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
 * The error of an attempt as stored: if its JSON is long, the beginning of its text.
 * @param secrets names of its secrets, asked for only when it becomes a text
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
  // A long error need not be read to its end.
  const text = errorText(error, secrets).slice(0, 4 * ERROR_LINE_CHARS_MAX);
  const line = text.toWellFormed().replace(/[\s\p{Cc}]+/gu, " ").trim();
  return cut(line, ERROR_LINE_CHARS_MAX);
}

/** An error is a text, or an object with a message; a task may give anything else. */
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

/** A failed attempt as it is sent. @param phase the chain of its task */
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
  /** When a runner may claim the job; null when none may. */
  readonly claimable_at: Instant | null;
  readonly target: string | null;
  /** Pattern of the targets that no other job may have while this one is unfinished. */
  readonly locks: string | null;
  /** Called when the job is final. */
  readonly callback_url: string | null;
  /** The machine that the job makes or acts on, when it is a job of a machine. */
  readonly machine_uuid: MachineUuid | null;
  /** The host that alone runs it; of a free job, the one that has taken it. Null where none is known. */
  readonly host: HostUuid | null;
  readonly params: JsonObject;
  /** The params of the request; tasks change `params`. Equal requests have equal ones. */
  readonly requested_params: JsonObject;
  /** What tasks set on the job besides `params`. */
  readonly props: JsonObject;
  readonly chain_results: readonly TaskResult[];
  readonly onerror_results: readonly TaskResult[];
  readonly oncancel_results: readonly TaskResult[];
  readonly created_at: Instant;
  /** When a runner first took the job. */
  readonly started_at: Instant | null;
  readonly finished_at: Instant | null;
  /** Milliseconds spent running the present phase, until `elapsed_at` while a runner has the job. */
  readonly elapsed_ms: number;
  /** Milliseconds spent running the phases before the present one. */
  readonly phases_ms: number;
  /** Null while no runner has the job. */
  readonly elapsed_at: Instant | null;
  /** Attempts of the present task that have failed; those that ended with the agent do not count. */
  readonly failures: number;
  /** When the next attempt of the present task may begin; null unless one has failed. */
  readonly retry_at: Instant | null;
  readonly runner_id: RunnerId | null;
  /** How often the job was claimed; names the claim under which a runner may write about it. */
  readonly lease: number;
  /** Claims of the present task without a recorded result; see STARTS_MAX in run_job.ts. */
  readonly starts: number;
}

/** A job that is about to be written. */
export interface NewJob {
  readonly uuid: JobUuid;
  readonly workflow: Workflow;
  /** As the caller named it: an instant of the caller's calendar. Absent: at once. */
  readonly exec_after?: Instant | undefined;
  /** Milliseconds to wait from when the job is written; not with `exec_after`. */
  readonly delay_ms?: number;
  readonly target: string | null;
  readonly params: JsonObject;
  /** The params as they were asked for, where the job begins with others; see Job. */
  readonly requested_params?: JsonObject;
  /** The machine that the job makes or acts on, which has one unfinished job at most. */
  readonly machine_uuid?: MachineUuid | null;
  /** What the engine itself stores with the job, such as the previous attempt. */
  readonly props?: JsonObject;
  readonly locks?: string | null;
  readonly callback_url?: string | null;
  /** The caller, where hosts share the store. */
  readonly ordered_by?: string | undefined;
  /** Results of an earlier job: the new job begins with the task after them. */
  readonly chain_results?: readonly TaskResult[];
  /** Under which a repeated request is known. */
  readonly idempotency?: Idempotency;
}

/** The same without its workflow: what is settled before that is read. */
export type JobFields = Omit<NewJob, "workflow">;

/** The age groups of GET /stats, which overlap nowhere: by `created_at`, oldest group first. */
export const STATS_WINDOWS = ["all_time", "past_24h", "past_hour", "current"] as const;

/** The header of a request that may be repeated. */
export const IDEMPOTENCY_KEY = "Idempotency-Key";
/** Its value: visible ASCII without blanks. */
export const IDEMPOTENCY_KEY_TEXT: RegExp = /^[\x21-\x7e]{1,255}$/;

/** Distinguishes a repeated request from a new one. */
export interface Idempotency {
  readonly key: string;
  /** Lower-case hex SHA-256 of the canonical request. */
  readonly request_sha256: string;
}

/** The header of an answer that repeats an earlier one: `true`. */
export const IDEMPOTENCY_REPLAYED = "idempotency-replayed";

/**
 * Under what a request is known when it is sent again: a caller who does not know whether its request for a
 * job arrived repeats it with the same key, and gets the job of the first one.
 * @param key the value of the header; undefined without it
 * @param request the order of its keys does not count
 * @throws {AgentError} `invalid_argument` naming the header
 */
export async function idempotencyOf(
  key: string | undefined,
  request: JsonValue,
): Promise<Idempotency | undefined> {
  if (key === undefined) return undefined;
  if (!IDEMPOTENCY_KEY_TEXT.test(key)) {
    const message =
      `Cannot read ${IDEMPOTENCY_KEY}: expected 1 to 255 visible ASCII characters, without blanks`;
    throw invalidArgument(IDEMPOTENCY_KEY, message);
  }
  const bytes = new TextEncoder().encode(canonicalJson(request));
  return { key, request_sha256: await sha256Hex(bytes) };
}

/** Seconds that a job of the workflow may run. */
export function timeoutOf(workflow: Workflow): number {
  return workflow.timeout ?? DEFAULT_TIMEOUT_SECONDS;
}

/** The tasks and the results of the phase that a job is in. */
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

/** The job after a move, as its runner goes on with it. */
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

/** Levels of the lines of a log, the least important first: of a job's, and of the agent's. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
/** A level of a log: lines below it are left out. */
export type LogLevel = typeof LOG_LEVELS[number];

// Entries of a job's info that only the agent may write, known by the names of their fields.

/** What names of info fields begin with that only the agent writes; as the tag of its machines. */
export const AGENT_PREFIX = "zonewright_";

/** The name that would make a caller's entry look like the agent's; undefined for none. */
export function forgedName(entry: JsonValue): string | undefined {
  if (!isJsonObject(entry)) return undefined;
  return Object.keys(entry).find((name) => name.startsWith(AGENT_PREFIX));
}
