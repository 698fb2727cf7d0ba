// Notes of tasks in the info of their job: their own entries, their log lines, and the progress of long calls. A task may
// write a limited number of entries of limited size, so that a loop cannot fill the store. Progress does not count: the
// clock limits it.

import { AgentError, type ErrorCode, invalidArgument, isAway } from "../domain/error.ts";
import { type Instant, msBetween, type Now } from "../domain/instant.ts";
import { isJsonObject, type JsonObject, type JsonValue, kindOf } from "../domain/json.ts";
import type { Log } from "../metrics/log.ts";
import type { Store } from "../store/store.ts";
import { forgedName } from "../domain/job/log_line.ts";
import type {
  Call,
  CapabilitiesOf,
  Capability,
  CapabilityLimits,
  Noted,
  ProgressPhase,
} from "./capability.ts";
import { masked } from "../host/program_output.ts";
import type { TaskLogLevel } from "../wall/protocol.ts";
import { maskedJson } from "../domain/masking.ts";

/** Milliseconds between two progress entries of one call; grows with their number. */
const PROGRESS_INTERVAL_MS = 1000;
/** Entries of one call after which the interval doubles: half a day of download makes 600. */
const PROGRESS_DOUBLES_AFTER = 60;

const INFO_DEADLINE_MS = 30_000;
/** Characters of a name repeated in an error. */
const SHOWN_NAME_CHARS_MAX = 64;

interface InfoDeps {
  readonly store: Store;
  readonly log: Log;
  readonly now: Now;
  readonly limits: Pick<
    CapabilityLimits,
    "infoEntriesMax" | "taskInfoEntriesMax" | "taskInfoCharsMax"
  >;
}

/** `info(object)`: adds entries to the job's `info`. */
export const infoCapabilities: CapabilitiesOf<"info"> = {
  info: {
    deadlineMs: INFO_DEADLINE_MS,
    async perform(call, [entry]) {
      if (!isJsonObject(entry)) {
        const found = `it is ${kindOf(entry)}, expected an object`;
        throw invalidArgument("info", `Cannot append to the job's info: ${found}`);
      }
      const forged = forgedName(entry);
      if (forged !== undefined) {
        const name = JSON.stringify(forged.slice(0, SHOWN_NAME_CHARS_MAX));
        throw invalidArgument(
          "info",
          `Cannot append to the job's info: names such as ${name} are the agent's own, expected others`,
        );
      }
      await call.note(entry);
      return null;
    },
  },
};

/** The notes of one execution: appends up to the limits. */
export function openNotes(
  { store, now, limits }: InfoDeps,
  { job_uuid, attempt }: Noted,
): Call["noteNow"] {
  const { infoEntriesMax, taskInfoEntriesMax, taskInfoCharsMax } = limits;
  let entries = 0;
  return async (entry, insist = (call) => call()) => {
    const chars = JSON.stringify(entry).length;
    if (chars > taskInfoCharsMax) {
      const message = `Cannot append to the job's info: the entry has ${chars} characters, ` +
        `expected at most ${taskInfoCharsMax}`;
      throw new AgentError("too_large", message);
    }
    if (entries >= taskInfoEntriesMax) {
      const message =
        `Cannot append to the job's info: the task has appended ${entries} entries, ` +
        "the limit of one task";
      throw new AgentError("too_large", message);
    }
    entries += 1;
    const [at, call] = [now(), crypto.randomUUID()];
    const append = () => store.info.append(job_uuid, entry, at, infoEntriesMax, attempt, call);
    const appended = await insist(append);
    if (appended === "not_found") {
      throw new AgentError(
        "not_found",
        `Cannot append to the info of job ${job_uuid}: the job no longer exists`,
      );
    }
    if (appended === "full") {
      const message = `Cannot append to the job's info: it has ${infoEntriesMax} entries, ` +
        "the limit of one job";
      throw new AgentError("too_large", message);
    }
  };
}

/** Progress of one call: at most one entry a second, and a last one at its end. */
interface Progress {
  report(phase: ProgressPhase, done: number, total: number | null): void;
  /** Writes the last report, unless already written. */
  end(): Promise<void>;
}

/** Reports go into the job's info, within the limit for its tasks' entries. */
export function openProgress(
  { store, log, now, limits: { infoEntriesMax } }: InfoDeps,
  { job_uuid, task_name, attempt }: Noted,
): Progress {
  let written: Instant | undefined;
  let entries = 0;
  let pending: JsonObject | undefined;
  let writing: Promise<void> = Promise.resolve();
  let begun: { phase: ProgressPhase; at: Instant; done: number } | undefined;
  /** Bytes a second since the phase began, from which the remaining time follows. */
  const rateOf = (phase: ProgressPhase, done: number, at: Instant): number | null => {
    if (begun?.phase !== phase || done < begun.done) begun = { phase, at, done };
    const ms = msBetween(begun.at, at);
    return ms > 0 ? Math.round((done - begun.done) * 1000 / ms) : null;
  };
  const write = (progress: JsonObject, at: Instant) => {
    pending = undefined;
    written = at;
    entries += 1;
    const entry = { task: task_name, progress };
    // A failed report must not fail the download.
    writing = writing.then(() => store.info.append(job_uuid, entry, at, infoEntriesMax, attempt))
      .then(
        () => {},
        (error) => log.warn("progress was not recorded", { job_uuid, task_name, error }),
      );
  };
  return {
    report(phase, done, total) {
      const at = now();
      const phaseChanged = pending !== undefined && pending.phase !== phase;
      if (phaseChanged && pending !== undefined) write(pending, at);
      pending = { phase, done, total, rate: rateOf(phase, done, at) };
      const intervalMs = PROGRESS_INTERVAL_MS * 2 ** Math.floor(entries / PROGRESS_DOUBLES_AFTER);
      // A clock that was set back must not stop the reports.
      if (written === undefined || Math.abs(msBetween(written, at)) >= intervalMs) {
        write(pending, at);
      }
    },
    async end() {
      if (pending !== undefined) write(pending, now());
      await writing;
    },
  };
}

const LOG_DEADLINE_MS = 30_000;
const NO_ROOM_CODES: readonly ErrorCode[] = ["too_large", "storage_full"];

/**
 * The capabilities `log.debug(message, fields?)` and so on. A line goes into the agent's log, without secrets, and into
 * the info of the job, for the caller who posted it.
 * @param charsMax characters of a message; longer ones are cut
 */
export function logCapabilities(log: Log, charsMax: number): CapabilitiesOf<"log"> {
  return {
    "log.debug": logAt(log, "debug", charsMax),
    "log.info": logAt(log, "info", charsMax),
    "log.warn": logAt(log, "warn", charsMax),
    "log.error": logAt(log, "error", charsMax),
  };
}

function logAt(log: Log, level: TaskLogLevel, charsMax: number): Capability {
  return {
    deadlineMs: LOG_DEADLINE_MS,
    async perform({ job_uuid, task_name, secrets, noteNow, drop }, [first, given]) {
      const fields = given ?? {};
      if (!isJsonObject(fields)) {
        const found = `its fields are ${kindOf(given)}, expected an object`;
        throw invalidArgument("fields", `Cannot log: ${found}`);
      }
      const message = masked(textOf(first, charsMax));
      // A body that logs its job's params logs the passwords in them too.
      const more = Object.keys(fields).length === 0
        ? {}
        : { fields: maskedJson(fields, secrets, masked) };
      // The note comes first: its limit also applies to the log.
      const noted = await noteLine(noteNow, { task: task_name, log: level, message, ...more });
      if (noted) log[level]("task logged", { job_uuid, task_name, message, ...more });
      else drop();
      return null;
    },
  };
}

/** Drops lines above the limit, and those for which the store has no room now: a log must not fail a task. */
async function noteLine(note: Call["note"], entry: JsonObject): Promise<boolean> {
  try {
    await note(entry);
    return true;
  } catch (error) {
    const isFull = error instanceof AgentError && NO_ROOM_CODES.includes(error.code);
    if (isFull || isAway(error)) return false;
    throw error;
  }
}

function textOf(value: JsonValue | undefined, charsMax: number): string {
  if (value === undefined) {
    throw invalidArgument("message", "Cannot log: the message is missing, expected a text first");
  }
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.slice(0, charsMax);
}
