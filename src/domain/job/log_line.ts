// The lines of a job's log: what an entry may hold, and each line as answers show it.

import {
  ANY_OBJECT,
  COUNT,
  INSTANT,
  NULLABLE_COUNT,
  NULLABLE_TEXT,
  orNull,
  type ShapeOf,
  whole,
  wordOf,
} from "../description/answer.ts";
import type { Instant } from "../instant.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../json.ts";
import { maskedJson } from "../masking.ts";
import { errorLine } from "./job.ts";
import type { Phase } from "./state.ts";

/** Log levels of jobs and of the agent, the least important first. */
export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
/** A level of a log: less important lines are left out. */
export type LogLevel = typeof LOG_LEVELS[number];

/** Prefix of info fields that only the agent writes, and of the tag on its machines. */
export const AGENT_PREFIX = "zonewright_";

/** The first name that would make a caller's entry look like the agent's; undefined if there is none. */
export function forgedName(entry: JsonValue): string | undefined {
  if (!isJsonObject(entry)) return undefined;
  return Object.keys(entry).find((name) => name.startsWith(AGENT_PREFIX));
}

/** A line of a log as it is sent. */
export const LOG_LINE = whole("A line of a job's log: it has a message, or progress.", {
  sequence: {
    ...COUNT,
    description: "Increases with every line of every job, also across restarts.",
  },
  time: INSTANT,
  task: NULLABLE_TEXT,
  attempt: { ...NULLABLE_COUNT, description: "Number of the task's attempt." },
  level: wordOf(LOG_LEVELS),
  message: NULLABLE_TEXT,
  progress: orNull(ANY_OBJECT),
  fields: { ...orNull(ANY_OBJECT), description: "What else the line holds. Secrets are masked." },
});
type LogLineOnWire = ShapeOf<typeof LOG_LINE>;

/** A line of a job's log: an entry of its info, or a failed attempt of a task. */
export interface JobLogLine {
  /** Increases with every line of every job, across restarts too; never reused. */
  readonly seq: number;
  /** Phase of a failed attempt; null for an info entry. */
  readonly phase: Phase | null;
  /** Number of the attempt that failed or wrote the entry; null when no task wrote it. */
  readonly attempt: number | null;
  /** The entry; for an attempt, the remaining fields of FailedAttempt. */
  readonly entry: JsonObject;
  readonly created_at: Instant;
}

/** A line for a caller: its message or progress, and everything else in `fields`. */
export function logLineOnWire(line: JobLogLine, secrets: ReadonlySet<string>): LogLineOnWire {
  const { seq: sequence, created_at: time, attempt } = line;
  const entry = maskedJson(line.entry, secrets) as JsonObject;
  const task = typeof entry.task === "string" ? entry.task : null;
  const head = { sequence, time, task, attempt };
  const said = line.phase === null
    ? entrySaid(entry)
    : attemptSaid(line.phase, attempt, entry, secrets);
  return { ...head, ...said };
}

/** The rest of a line, without its head. */
type LineSaid = Omit<LogLineOnWire, "sequence" | "time" | "task" | "attempt">;

function entrySaid({ task, log, message, progress, ...others }: JsonObject): LineSaid {
  const level = LOG_LEVELS.find((one) => one === log) ?? "info";
  const { fields, ...more } = others;
  // Task log lines have their fields in one object; of any other entry, the object itself is shown.
  const left: JsonObject = log !== undefined && isJsonObject(fields)
    ? { ...fields, ...more }
    : { ...others };
  if (task !== undefined && typeof task !== "string") left.task = task;
  if (isJsonObject(progress) && message === undefined) {
    return { level, message: null, progress, fields: fieldsOf(left) };
  }
  if (progress !== undefined) left.progress = progress;
  if (message !== undefined && typeof message !== "string") left.message = message;
  const words = typeof message === "string" ? message : wordsOf(left);
  return { level, message: words, progress: null, fields: fieldsOf(left) };
}

/** A message for an entry without one: the call of a capability, or the names of its fields. */
function wordsOf(entry: JsonObject): string {
  const { zonewright_call: call, zonewright_calls: calls } = entry;
  if (isJsonObject(call)) return `${call.name}: ${call.ended}, ${call.ms} ms`;
  if (isJsonObject(calls)) return `calls: ${Object.keys(calls).join(", ")}`;
  return Object.keys(entry).join(", ");
}

function attemptSaid(
  phase: Phase,
  attempt: number | null,
  entry: JsonObject,
  secrets: ReadonlySet<string>,
): LineSaid {
  const { error = "", wait_seconds = null, started_at = null, fallback } = entry;
  const what = fallback === true ? "fallback" : `attempt ${attempt}`;
  const next = wait_seconds === null
    ? ""
    : wait_seconds === 0
    ? "; the next one follows"
    : `; the next one follows after ${wait_seconds} s`;
  return {
    level: wait_seconds === null ? "error" : "warn",
    message: `${what} failed: ${errorLine(error, secrets)}${next}`,
    progress: null,
    fields: { phase, error, started_at, wait_seconds },
  };
}

function fieldsOf(fields: JsonObject): JsonObject | null {
  return Object.keys(fields).length === 0 ? null : fields;
}
