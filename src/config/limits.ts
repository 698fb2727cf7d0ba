// The named limits: how large a request or a value may be, and how much the agent keeps. Those that an operator
// may set are the TOML table [limits]; no other file has their defaults. Those of one execution of a task are
// in src/wall/task_limits.ts, since guests know them as well.

import { type Definition, integer, type Kind } from "./kinds.ts";
import {
  JOB_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  LOG_CHARS_MAX,
  SOURCE_CHARS_MAX,
} from "../wall/task_limits.ts";
import { DAY_SECONDS } from "../domain/instant.ts";

const KI = 1024;
const MI = 1024 * KI;

const count = (min: number, max: number) => integer("N", min, max);
const seconds = (min: number, max: number) => integer("SECONDS", min, max);
const bytes = (min: number, max: number) => integer("BYTES", min, max);
const chars = (min: number, max: number) => integer("CHARS", min, max);

/** One limit. @param met what happens when it is met */
function limit(
  kind: Kind<number>,
  value: number,
  meaning: string,
  met: string,
): Definition<number> & { readonly met: string } {
  return { kind, meaning, met, fallback: () => value };
}

const BUSY = "503 with `Retry-After`";
const CONNECTION_CLOSED = "the connection is closed";

/**
 * The limits. The smallest values leave an agent that can be called, can run a workflow of one task and
 * can make a machine; the largest task limits fit into the 256 MiB of a guest.
 */
export const LIMITS = {
  connections_max: limit(
    count(1, 65_536),
    1024,
    "open connections",
    "the connection that has been silent longest is closed; if none is silent, 503",
  ),
  head_seconds: limit(
    seconds(1, 3600),
    15,
    "time for a new connection to send a request",
    CONNECTION_CLOSED,
  ),
  idle_seconds: limit(
    seconds(1, DAY_SECONDS),
    75,
    "time between an answer and the next request",
    CONNECTION_CLOSED,
  ),
  answer_seconds: limit(
    seconds(1, DAY_SECONDS),
    600,
    "time for a caller to read an answer",
    CONNECTION_CLOSED,
  ),
  header_chars_max: limit(
    chars(KI, 256 * KI),
    32 * KI,
    "size of all header fields of one request",
    "431",
  ),
  body_seconds: limit(seconds(1, 3600), 30, "time for a request body to arrive", "408"),
  small_body_bytes_max: limit(
    bytes(128, 64 * MI),
    64 * KI,
    "request body of a cancel, retry, prune, sync or ticket",
    "413",
  ),
  body_bytes_max: limit(bytes(KI, 64 * MI), 2 * MI, "any other request body", "413"),
  requests_max: limit(
    count(1, 65_536),
    256,
    "requests in progress",
    `${BUSY}; one place in eight is reserved for requests without a body`,
  ),
  waits_max: limit(count(1, 65_536), 128, "requests that wait for a job", BUSY),
  event_streams_max: limit(count(1, 65_536), 256, "open streams of events", BUSY),
  consoles_max: limit(count(1, 4096), 64, "open consoles", BUSY),
  tasks_max: limit(count(1, 10_000), 1000, "tasks in one chain", "409"),
  source_chars_max: limit(
    chars(64, SOURCE_CHARS_MAX),
    256 * KI,
    "source of one task body or fallback",
    "409",
  ),
  retry_max: limit(count(1, 1_000_000), 1000, "retries of one task", "409"),
  timeout_seconds_max: limit(
    seconds(1, 366 * DAY_SECONDS),
    30 * DAY_SECONDS,
    "one timeout or delay of a workflow or task",
    "409",
  ),
  params_chars_max: limit(
    chars(256, JOB_LEFT_CHARS_MAX),
    2 * MI,
    "params of a job, as JSON",
    "413",
  ),
  info_entries_max: limit(
    count(64, 1_000_000),
    100_000,
    "info entries of one job",
    "409; a task's `info()` is refused; its log lines are dropped",
  ),
  workflows_max: limit(count(16, 1_000_000), 10_000, "workflows, built-in ones included", "503"),
  unfinished_jobs_max: limit(count(1, 10_000_000), 100_000, "unfinished jobs", "503"),
  finished_jobs_max: limit(
    count(1, 1_000_000_000),
    1_000_000,
    "finished jobs kept, besides those with an idempotency key or a pending callback",
    "the oldest are removed, see also `keep_finished`",
  ),
  journal_bytes_max: limit(
    bytes(MI, 4 * KI * MI),
    64 * MI,
    "what this host writes about its jobs while a store postgres:// is away; notes of tasks fill at most half",
    "tasks wait for the database, and log lines are dropped",
  ),
  result_chars_max: limit(
    chars(256, JOB_CHARS_MAX),
    MI,
    "result of a task, as JSON",
    "the task fails",
  ),
} satisfies Record<string, Definition<number>>;

/** Limits that are not settings: nobody has needed other values. Tests pass smaller ones. @see docs/limits.md, Fixed */
const FIXED_LIMITS = {
  /** Header fields of one request. */
  headerFieldsMax: 64,
  /** Nesting of a request body. */
  jsonDepthMax: 64,
  /** Uploads of media in progress. */
  uploadsMax: 4,
  /** Seconds without a byte of an upload. */
  uploadStallSeconds: 60,
  /** Bytes a second of an upload, over that time. */
  uploadRateMin: 16 * KI,
  /** Seconds without a byte in either direction of a console. */
  consoleIdleSeconds: 3600,
  consoleTicketSeconds: 30,
  /** Unused console tickets. */
  consoleTicketsMax: 256,
  /** Characters of the target of a job. */
  targetCharsMax: KI,
  /** Bytes of one info entry sent over HTTP. */
  infoEntryBytesMax: 64 * KI,
  /** Calls of one execution of a task, log lines included. */
  taskCallsMax: 100_000,
  /** Info entries of one execution of a task, log lines included. */
  taskInfoEntriesMax: 1000,
  /** Characters of one info entry of a task as JSON; a log line, which is one as well, has fewer. */
  taskInfoCharsMax: 16 * KI,
  /** Characters of one log line of a task. */
  taskLogCharsMax: LOG_CHARS_MAX,
};

type Camel<Name extends string> = Name extends `${infer Head}_${infer Rest}`
  ? `${Head}${Capitalize<Camel<Rest>>}`
  : Name;

type SetLimits = { readonly [Name in keyof typeof LIMITS as Camel<Name>]: number };

/** All limits as the other parts of the agent name them: `tasks_max` is `tasksMax`. */
export type LimitValues = Readonly<typeof FIXED_LIMITS> & SetLimits;

/** The limits of a configuration. */
export function limitValues(
  limits: { readonly [Name in keyof typeof LIMITS]: { readonly value: number } },
): LimitValues {
  return camelNames(Object.entries(limits).map(([name, { value }]) => [name, value]));
}

/** The limits that apply unless they are configured. */
export const DEFAULT_LIMITS: LimitValues = camelNames(
  Object.entries<Definition<number>>(LIMITS).map(([name, { fallback }]) => {
    return [name, fallback({ dev: false, cwd: "/", os: Deno.build.os })];
  }),
);

function camelNames(entries: readonly (readonly [string, number])[]): LimitValues {
  const named = entries.map(([name, value]) => {
    return [name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()), value];
  });
  // One entry for every row of the table, as the type says.
  return { ...FIXED_LIMITS, ...Object.fromEntries(named) as SetLimits };
}
