// The named limits: how large what is sent may be, and how much of it is kept.

import { define, type Definition } from "./config_definition.ts";
import { readInteger } from "./config_values.ts";

const MIB = 1_048_576;

function limit(flag: string, value: number, max: number, help: string): Definition<number> {
  return define(flag, value, readInteger(1, max), "N", help);
}

/** The named limits: settings like the others, in the TOML table `[limits]`. */
export const LIMITS = {
  connections_max: limit("connections-max", 1024, 65_536, "connections that are open"),
  head_seconds: limit("head-seconds", 15, 3600, "seconds for a new connection to ask something"),
  idle_seconds: limit("idle-seconds", 75, 86_400, "seconds between an answer and the next request"),
  answer_seconds: limit("answer-seconds", 600, 86_400, "seconds for a caller to take an answer"),
  header_fields_max: limit("header-fields-max", 64, 100, "header fields of one request"),
  header_chars_max: limit(
    "header-chars-max",
    32 * 1024,
    256 * 1024,
    "characters of all header fields of one request",
  ),
  body_seconds: limit("body-seconds", 30, 3600, "seconds for a body to arrive"),
  small_body_bytes_max: limit(
    "small-body-bytes-max",
    64 * 1024,
    64 * MIB,
    "bytes of the body of a cancel, retry, prune or sync",
  ),
  body_bytes_max: limit("body-bytes-max", 2 * MIB, 64 * MIB, "bytes of one request body"),
  json_depth_max: limit("json-depth-max", 64, 1000, "nesting of a request body"),
  requests_max: limit("requests-max", 256, 65_536, "requests that are answered at the same time"),
  waits_max: limit("waits-max", 128, 65_536, "requests that wait for a job at the same time"),
  tasks_max: limit("tasks-max", 1000, 10_000, "tasks in one chain"),
  source_chars_max: limit("source-chars-max", 256 * 1024, 16 * MIB, "characters of one task"),
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
    64 * MIB,
    "characters of a job's params as JSON",
  ),
  info_entry_bytes_max: limit("info-entry-bytes-max", 64 * 1024, 16 * MIB, "bytes of one entry"),
  info_entries_max: limit("info-entries-max", 100_000, 1_000_000, "info entries of one job"),
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
  unfinished_jobs_max: limit("unfinished-jobs-max", 100_000, 10_000_000, "jobs that are not final"),
  workflows_max: limit("workflows-max", 10_000, 1_000_000, "workflows"),
  finished_jobs_max: limit(
    "finished-jobs-max",
    1_000_000,
    1_000_000_000,
    "finished jobs that are kept; the oldest go first",
  ),
} satisfies Record<string, Definition<number>>;
