// The named limits: how large what is sent may be, and how much of it is kept.

import { define, type Definition } from "./definition.ts";
import { readInteger } from "./values.ts";
import { DEFAULT_CAPABILITY_LIMITS as CALLS } from "../capabilities/capability.ts";
import { DEFAULT_TASK_LIMITS as TASK, LARGEST_TASK_LIMITS } from "../sandbox/task_limits.ts";

const MIB = 1_048_576;

/**
 * One limit. With all of them at their smallest, an agent can still be called, be sent a workflow of one
 * task, and make a machine: a value below would switch a part of it off without saying so.
 */
function limit(
  flag: string,
  value: number,
  max: number,
  help: string,
  min = 1,
): Definition<number> {
  return define(flag, value, readInteger(min, max), "N", help);
}

/** The named limits: settings like the others, in the TOML table `[limits]`. */
export const LIMITS = {
  connections_max: limit("connections-max", 1024, 65_536, "connections that are open"),
  head_seconds: limit("head-seconds", 15, 3600, "seconds for a new connection to ask something"),
  idle_seconds: limit("idle-seconds", 75, 86_400, "seconds between an answer and the next request"),
  answer_seconds: limit("answer-seconds", 600, 86_400, "seconds for a caller to take an answer"),
  header_fields_max: limit("header-fields-max", 64, 100, "header fields of one request", 16),
  header_chars_max: limit(
    "header-chars-max",
    32 * 1024,
    256 * 1024,
    "characters of all header fields of one request",
    1024,
  ),
  body_seconds: limit("body-seconds", 30, 3600, "seconds for a body to arrive"),
  small_body_bytes_max: limit(
    "small-body-bytes-max",
    64 * 1024,
    64 * MIB,
    "bytes of the body of a cancel, retry, prune or sync",
    128,
  ),
  body_bytes_max: limit("body-bytes-max", 2 * MIB, 64 * MIB, "bytes of one request body", 1024),
  json_depth_max: limit("json-depth-max", 64, 1000, "nesting of a request body", 6),
  requests_max: limit("requests-max", 256, 65_536, "requests that are answered at the same time"),
  waits_max: limit("waits-max", 128, 65_536, "requests that wait for a job at the same time"),
  tasks_max: limit("tasks-max", 1000, 10_000, "tasks in one chain"),
  source_chars_max: limit("source-chars-max", 256 * 1024, 16 * MIB, "characters of one task", 64),
  retry_max: limit("retry-max", 1000, 1_000_000, "retries of one task"),
  timeout_seconds_max: limit(
    "timeout-seconds-max",
    30 * 86_400,
    366 * 86_400,
    "seconds of one timeout",
  ),
  target_chars_max: limit("target-chars-max", 1024, MIB, "characters of a job's target"),
  params_chars_max: limit(
    "params-chars-max",
    2 * MIB,
    LARGEST_TASK_LIMITS.jobLeftCharsMax,
    "characters of a job's params as JSON",
    256,
  ),
  result_chars_max: limit(
    "result-chars-max",
    TASK.resultCharsMax,
    LARGEST_TASK_LIMITS.resultCharsMax,
    "characters of a task's result as JSON",
    256,
  ),
  error_chars_max: limit(
    "error-chars-max",
    TASK.errorCharsMax,
    LARGEST_TASK_LIMITS.errorCharsMax,
    "characters of a task's error; what is longer is cut",
    256,
  ),
  job_chars_max: limit(
    "job-chars-max",
    TASK.jobCharsMax,
    LARGEST_TASK_LIMITS.jobCharsMax,
    "characters of a job as its tasks get it, with the results so far",
    32 * 1024,
  ),
  job_left_chars_max: limit(
    "job-left-chars-max",
    TASK.jobLeftCharsMax,
    LARGEST_TASK_LIMITS.jobLeftCharsMax,
    "characters of the params and whatever else a task leaves in its job",
    1024,
  ),
  call_chars_max: limit(
    "call-chars-max",
    TASK.callCharsMax,
    LARGEST_TASK_LIMITS.callCharsMax,
    "characters of the arguments of one call of a task, as JSON",
    512,
  ),
  task_calls_max: limit(
    "task-calls-max",
    CALLS.callsMax,
    10_000_000,
    "calls of one execution of a task",
    16,
  ),
  task_log_lines_max: limit(
    "task-log-lines-max",
    TASK.logLinesMax,
    LARGEST_TASK_LIMITS.logLinesMax,
    "log lines of one execution of a task; further ones are dropped",
  ),
  task_log_chars_max: limit(
    "task-log-chars-max",
    TASK.logCharsMax,
    LARGEST_TASK_LIMITS.logCharsMax,
    "characters of one of them, and of its fields",
    64,
  ),
  task_info_entries_max: limit(
    "task-info-entries-max",
    CALLS.taskInfoEntriesMax,
    1_000_000,
    "info entries of one execution of a task, log lines included",
    8,
  ),
  task_info_chars_max: limit(
    "task-info-chars-max",
    CALLS.taskInfoCharsMax,
    MIB,
    "characters of one of them as JSON",
    256,
  ),
  info_entry_bytes_max: limit(
    "info-entry-bytes-max",
    64 * 1024,
    16 * MIB,
    "bytes of one entry",
    32,
  ),
  info_entries_max: limit("info-entries-max", 100_000, 1_000_000, "info entries of one job", 64),
  consoles_max: limit("consoles-max", 64, 4096, "consoles that are open at the same time"),
  machine_consoles_max: limit(
    "machine-consoles-max",
    4,
    256,
    "consoles of one machine that are open at the same time",
  ),
  console_idle_seconds: limit(
    "console-idle-seconds",
    3600,
    7 * 86_400,
    "seconds after which a console without a byte in either direction is closed",
  ),
  console_ticket_seconds: limit(
    "console-ticket-seconds",
    30,
    300,
    "seconds for which a ticket opens a console",
  ),
  console_tickets_max: limit(
    "console-tickets-max",
    256,
    4096,
    "tickets for consoles that were not used yet",
  ),
  unfinished_jobs_max: limit("unfinished-jobs-max", 100_000, 10_000_000, "jobs that are not final"),
  workflows_max: limit("workflows-max", 10_000, 1_000_000, "workflows", 16),
  finished_jobs_max: limit(
    "finished-jobs-max",
    1_000_000,
    1_000_000_000,
    "finished jobs that are kept; the oldest go first",
  ),
} satisfies Record<string, Definition<number>>;
