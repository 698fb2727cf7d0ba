// One job as its page shows it: read at the start, and kept up to date by events.

import { computed, signal } from "@preact/signals";
import { NOT_FOUND, read, statusOf, wordsOf } from "../../client/client.ts";
import { type EventHandlers, follow } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";

/** The summary of a job with its failed attempts. */
export type JobView = Answers["GET /agent/v1/jobs/{job_uuid}"];
/** The whole job, with the sources and results of its tasks. */
export type WholeJob = Schemas["Job"];
/** A line of the log: what a task logged, or a failed attempt. */
export type LogLine = Schemas["LogLine"];

/** Lines that are read at a time. */
const LINES_PER_PAGE = 200;
/** Lines that the page keeps; of a longer log, the newest. */
const LINES_MAX = 2_000;
/** Milliseconds in which changes are collected before the job is read again. */
const READ_DELAY_MS = 150;

/** The log as far as it was read, oldest line first. */
interface LogPart {
  readonly lines: readonly LogLine[];
  /** Whether there are earlier lines. */
  readonly before: number | null;
}

/** The job of a page. */
export function openJobView(uuid: string) {
  const summary = signal<JobView | undefined>(undefined);
  const whole = signal<WholeJob | undefined>(undefined);
  const removed = signal(false);
  const closing = new AbortController();
  const gone = () => events.gone();
  // Job and log are read at the same time: one that succeeds must not hide the error of the other.
  const ofJob = openReads(closing.signal, gone);
  const ofLog = openReads(closing.signal, gone);
  const error = computed(() => ofJob.error.value ?? ofLog.error.value);
  let timer: number | undefined;
  const readJob = async () => {
    timer = undefined;
    // In parallel, so that the page is drawn only once.
    const [view, job] = await Promise.all([
      read("GET /agent/v1/jobs/{job_uuid}", `/agent/v1/jobs/${uuid}`, closing.signal),
      read("GET /jobs/{job_uuid}", `/jobs/${uuid}`, closing.signal),
    ]);
    summary.value = view;
    whole.value = job;
  };
  const log = openLogPart(uuid, closing.signal);
  const readLog = (before?: number) => ofLog.read(() => log.read(before));
  const events = followJob(uuid, {
    load: () => {
      void ofJob.read(readJob);
      void readLog();
    },
    job: ({ job }) => {
      if (job === null) {
        removed.value = true;
        events.gone();
        return;
      }
      if (summary.value !== undefined) summary.value = { ...summary.value, ...job };
      timer ??= setTimeout(() => void ofJob.read(readJob), READ_DELAY_MS);
    },
    // A line that is too large for an event must be read.
    log: ({ line }) => line === null ? void readLog() : log.add(line),
  });
  return {
    summary,
    whole,
    log: log.part,
    error,
    removed,
    /** Reads the lines before those that are shown. */
    earlier: () => void readLog(log.part.value?.before ?? undefined),
    close: () => {
      events.stop();
      clearTimeout(timer);
      closing.abort();
    },
  };
}

/** Reads of one part of the page, with the error of the latest. @param gone called when the job does not exist */
function openReads(closing: AbortSignal, gone: () => void) {
  const error = signal<string | undefined>(undefined);
  return {
    error,
    async read(work: () => Promise<void>): Promise<void> {
      try {
        await work();
        error.value = undefined;
      } catch (failure) {
        if (closing.aborted) return;
        error.value = wordsOf(failure);
        if (statusOf(failure) === NOT_FOUND) gone();
      }
    },
  };
}

/**
 * Follows the events of a job. The stream of a removed job is refused; another one then shows whether the agent
 * answers.
 */
function followJob(uuid: string, handlers: EventHandlers) {
  let stop = follow(`job=${uuid}&kind=job,log`, handlers);
  let isGone = false;
  return {
    gone: () => {
      if (isGone) return;
      isGone = true;
      stop();
      stop = follow("kind=host", { load: () => {} });
    },
    stop: () => stop(),
  };
}

function openLogPart(uuid: string, closing: AbortSignal) {
  const part = signal<LogPart | undefined>(undefined);
  /** Lines that arrived during a read: the answer may not contain them. */
  let early: readonly LogLine[] = [];
  return {
    part,
    /** Reads the newest lines, or those before a `sequence`. */
    async read(before?: number) {
      const earlier = before === undefined ? "" : `&before=${before}`;
      const path = `/agent/v1/jobs/${uuid}/log?last=${LINES_PER_PAGE}${earlier}`;
      early = [];
      const shown = part.value;
      const page = await read("GET /agent/v1/jobs/{job_uuid}/log", path, closing);
      // After a long interruption, lines are missing between the shown ones and the newest.
      const kept = before !== undefined || meetsEnd(page.lines, shown?.lines ?? [])
        ? part.value
        : undefined;
      const lines = joined(joined(page.lines, kept?.lines ?? []), early);
      part.value = { lines, before: before === undefined && kept ? kept.before : page.before };
    },
    add(line: LogLine) {
      early = joined(early, [line]);
      if (part.value === undefined) return;
      part.value = { ...part.value, lines: joined(part.value.lines, [line]) };
    },
  };
}

/** What openJobView() returns. @see openJobView */
export type OpenJobView = ReturnType<typeof openJobView>;

/** Whether the newest lines follow the others without a gap. */
function meetsEnd(newest: readonly LogLine[], others: readonly LogLine[]): boolean {
  const [first] = newest;
  return first === undefined || first.sequence <= (others.at(-1)?.sequence ?? -1);
}

/** Lines in their order, each once. */
function joined(lines: readonly LogLine[], more: readonly LogLine[]): readonly LogLine[] {
  const last = lines.at(-1)?.sequence ?? -1;
  const first = more[0]?.sequence ?? Infinity;
  if (last < first) return [...lines, ...more].slice(-LINES_MAX);
  const known = new Map([...lines, ...more].map((line) => [line.sequence, line]));
  return [...known.values()].sort((a, b) => a.sequence - b.sequence).slice(-LINES_MAX);
}
