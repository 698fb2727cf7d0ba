// The named limits, in the TOML table [limits]: how large a request or a value may be, and how much the
// agent keeps. No other file has their defaults.

import { type Definition, integer, type Kind } from "./kinds.ts";
import { SOURCE_CHARS_MAX } from "../wall/task_limits.ts";
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
  header_fields_max: limit(count(16, 100), 64, "header fields of one request", "431"),
  header_chars_max: limit(
    chars(KI, 256 * KI),
    32 * KI,
    "size of all header fields of one request",
    "431",
  ),
  body_seconds: limit(seconds(1, 3600), 30, "time for a request body to arrive", "400"),
  small_body_bytes_max: limit(
    bytes(128, 64 * MI),
    64 * KI,
    "request body of a cancel, retry, prune, sync or ticket",
    "413",
  ),
  body_bytes_max: limit(bytes(KI, 64 * MI), 2 * MI, "any other request body", "413"),
  json_depth_max: limit(count(6, 1000), 64, "nesting of a request body", "400"),
  requests_max: limit(
    count(1, 65_536),
    256,
    "requests in progress",
    `${BUSY}; every eighth place is for requests without a body`,
  ),
  waits_max: limit(count(1, 65_536), 128, "requests that wait for a job", BUSY),
  event_streams_max: limit(count(1, 65_536), 256, "open streams of events", BUSY),
  consoles_max: limit(count(1, 4096), 64, "open consoles", BUSY),
  machine_consoles_max: limit(count(1, 256), 4, "open consoles of one machine", BUSY),
  uploads_max: limit(count(1, 64), 4, "uploads of media in progress", BUSY),
  upload_stall_seconds: limit(
    seconds(1, 3600),
    60,
    "time without a byte of an upload",
    "408; the bytes so far are kept for a day",
  ),
  upload_rate_min: limit(
    bytes(0, MI),
    16 * KI,
    "bytes a second of an upload, over `upload_stall_seconds` of waiting for it; 0 for no limit",
    "408; the bytes so far are kept for a day",
  ),
  console_idle_seconds: limit(
    seconds(1, 7 * DAY_SECONDS),
    3600,
    "time without a byte in either direction of a console",
    "the console is closed",
  ),
  console_ticket_seconds: limit(
    seconds(1, 300),
    30,
    "lifetime of a console ticket",
    "the ticket is refused",
  ),
  console_tickets_max: limit(count(1, 4096), 256, "unused console tickets", BUSY),
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
  target_chars_max: limit(chars(1, MI), KI, "target of a job", "409"),
  params_chars_max: limit(chars(256, 8 * MI), 2 * MI, "params of a job, as JSON", "413"),
  info_entry_bytes_max: limit(
    bytes(32, 16 * MI),
    64 * KI,
    "one info entry sent over HTTP",
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
  kept_answers_bytes_max: limit(
    bytes(0, KI * MI),
    16 * MI,
    "jobs shown lately, which are answered while a store postgres:// is away",
    "the oldest are forgotten",
  ),
  result_chars_max: limit(chars(256, 8 * MI), MI, "result of a task, as JSON", "the task fails"),
  error_chars_max: limit(
    chars(256, 256 * KI),
    16 * KI,
    "each text of a task's error",
    "the text is cut",
  ),
  job_chars_max: limit(
    chars(32 * KI, 16 * MI),
    8 * MI,
    "job as its tasks see it, with the results so far",
    "the next task of the job fails, and the error names the largest fields",
  ),
  job_left_chars_max: limit(
    chars(KI, 8 * MI),
    4 * MI,
    "params and other fields that a task leaves in its job",
    "the task fails",
  ),
  call_chars_max: limit(
    chars(512, 4 * MI),
    512 * KI,
    "arguments of one call of a task, as JSON",
    "the call is refused",
  ),
  task_calls_max: limit(
    count(16, 10_000_000),
    100_000,
    "calls of one execution of a task, log lines included",
    "further calls are refused, and further log lines dropped",
  ),
  task_log_lines_max: limit(
    count(1, 100_000),
    2000,
    "log lines of one execution of a task",
    "further lines are dropped; the last one says so",
  ),
  task_log_chars_max: limit(
    chars(64, 256 * KI),
    8 * KI,
    "one log line of a task, and its fields",
    "the line is cut; a note replaces its fields",
  ),
  task_info_entries_max: limit(
    count(8, 1_000_000),
    1000,
    "info entries of one execution of a task, log lines included",
    "`info()` is refused; log lines are dropped",
  ),
  task_info_chars_max: limit(
    chars(256, MI),
    16 * KI,
    "one info entry of a task, as JSON",
    "`info()` is refused; a log line that is longer with its fields is dropped",
  ),
} satisfies Record<string, Definition<number>>;

type Camel<Name extends string> = Name extends `${infer Head}_${infer Rest}`
  ? `${Head}${Capitalize<Camel<Rest>>}`
  : Name;

/** The limits as the other parts of the agent name them: `tasks_max` is `tasksMax`. */
export type LimitValues = { readonly [Name in keyof typeof LIMITS as Camel<Name>]: number };

/** The values of the configured limits. */
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
  return Object.fromEntries(named) as LimitValues;
}
