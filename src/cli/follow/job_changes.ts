// Follows jobs: their changes, as events report them, and the log lines of one job in order, each exactly
// once. Lines arrive with the events; earlier lines, and any that came with no event, are read from the log
// after the last line shown.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { Notifier } from "../../runtime/notifier.ts";
import { numberIn, objectsAt, readObject } from "../client/answer.ts";
import type { Client } from "../client/client.ts";
import { type EventOptions, events } from "../client/events.ts";

/** Log lines per request; a job may have a hundred thousand. */
const PAGE_LINES = 1000;
/** Lines from events that are kept until shown; further ones are read from the log later. */
const WAITING_MAX = 1000;

/** Changes of jobs, as events report them. */
interface JobChanges {
  /** Waits for the next change, up to a time. @throws the reason why no more will come */
  next(ms: number): Promise<void>;
  /** Makes the next wait end at once. */
  again(): void;
  /** Settles when no more events are read. */
  readonly ended: Promise<void>;
}

interface ChangeOptions extends Pick<EventOptions, "signal" | "nowMs"> {
  readonly note: (line: string) => void;
  /** Called with each event before the wait for it ends; with `reset` if some are missing. */
  readonly took?: (kind: string, data: JsonObject) => void;
  /** Called if events may be missing: at a connection that does not resume another. */
  readonly missing?: () => void;
}

/**
 * Reads the events of jobs, until the signal fires.
 * @param query the filters of `GET /agent/v1/events`
 */
export function followChanges(
  client: Client,
  query: Readonly<Record<string, string>>,
  { note, took = () => {}, missing = () => {}, ...options }: ChangeOptions,
): JobChanges {
  const changed = new Notifier();
  let failure: { readonly error: unknown } | undefined;
  const read = async () => {
    const reading = events(client, query, {
      ...options,
      // Earlier changes are covered by one read.
      begun: (resumed) => {
        if (!resumed) missing();
        changed.notify();
      },
      away: (broken) => note(`${awayText(broken)}; trying again`),
    });
    try {
      for await (const { kind, data } of reading) {
        took(kind, data);
        changed.notify();
      }
    } catch (error) {
      failure = { error };
      changed.notify();
    }
  };
  return {
    async next(ms) {
      await changed.wait(ms, options.signal);
      if (failure !== undefined) throw failure.error;
    },
    again: () => changed.notify(),
    ended: read(),
  };
}

/** An agent whose database is away does answer. */
function awayText(broken: unknown): string {
  const waits = broken instanceof AgentError && broken.code === "overloaded" &&
    broken.about?.kind === "database";
  return waits ? broken.message : "the agent does not answer";
}

/** News of one job: possible changes, and new lines of its log. */
export interface JobNews extends JobChanges {
  /** The next lines of the log, oldest first; the same ones until they are shown. */
  lines(signal: AbortSignal): Promise<readonly JsonObject[]>;
  /** Marks the lines up to the last of these as shown. @returns whether there are others */
  shown(lines: readonly JsonObject[]): boolean;
  /** Whether the job may have changed since the last call. */
  jobChanged(): boolean;
  /** Makes the next lines come from the log itself, after the last one shown. */
  readLog(): void;
  /** Makes the log and the job be read again, since news may be missing. */
  readAgain(): void;
}

/**
 * Follows one job, until the signal fires.
 * @param withLog whether the lines of its log are wanted
 */
export function followNews(
  client: Client,
  job_uuid: string,
  { withLog, ...options }: ChangeOptions & { readonly withLog: boolean },
): JobNews {
  let seen = 0;
  /** Lines from events, in order, all after the last one shown. */
  let waiting: JsonObject[] = [];
  // Lines from before the events are in the log.
  let gap = withLog;
  let jobChanged = true;
  const took = (kind: string, data: JsonObject) => {
    if (kind === "log" && withLog) {
      if (!isJsonObject(data.line) || waiting.length >= WAITING_MAX) gap = true;
      else waiting.push(data.line);
    }
    if (kind !== "log") jobChanged = true;
    if (kind === "reset") gap = withLog;
  };
  const query = { job: job_uuid, kind: withLog ? "job,log" : "job" };
  const missing = () => {
    gap = withLog;
    jobChanged = true;
  };
  const changes = followChanges(client, query, { ...options, took, missing });
  return {
    ...changes,
    async lines(signal) {
      if (gap) {
        // They are in the log by now, after those that are missing.
        waiting = [];
        gap = false;
        try {
          const page = await readPage(client, job_uuid, seen, signal);
          if (page.more === true) gap = true;
          return objectsAt(page, "lines");
        } catch (error) {
          gap = true;
          throw error;
        }
      }
      return waiting.filter((line) => sequenceOf(line) > seen);
    },
    shown(lines) {
      seen = Math.max(seen, ...lines.slice(-1).map(sequenceOf));
      waiting = waiting.filter((line) => sequenceOf(line) > seen);
      return gap || waiting.length > 0;
    },
    jobChanged() {
      const changed = jobChanged;
      jobChanged = false;
      return changed;
    },
    readLog: () => gap = withLog,
    readAgain() {
      missing();
      changes.again();
    },
  };
}

/** The page of a log after a line. */
async function readPage(
  client: Client,
  job_uuid: string,
  after: number,
  signal: AbortSignal,
): Promise<JsonObject> {
  const path = `/agent/v1/jobs/${job_uuid}/log?after=${after}&last=${PAGE_LINES}`;
  return readObject(await client.get(path, signal), "the log");
}

function sequenceOf(line: JsonObject): number {
  return numberIn(line, "sequence") ?? 0;
}
