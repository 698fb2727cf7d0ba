// The jobs of a filter: pages as far as they were asked for, and what happens to them.

import { signal } from "@preact/signals";
import { read, wordsOf } from "../../client/client.ts";
import { type EventHandlers, follow, type JobEvent } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { isOfHost } from "../../part/hosts.tsx";

/** A job as lists show it. */
export type JobSummary = Schemas["JobSummary"];

/** The states that a list is chosen by, in the order of its tabs. */
export const STATES = ["queued", "running", "waiting", "succeeded", "failed", "canceled"] as const;

/** The keys of the address that filter jobs; each is one of the API's. */
export const FILTER_KEYS = [
  "state",
  "search",
  "name",
  "host",
  "since",
  "until",
  "target",
] as const;

const JOBS_PER_PAGE = 100;
/** As many as the agent sends at once. */
const JOBS_PER_PAGE_MAX = 200;
/** Milliseconds in which changes are collected before the counts are read again. */
const COUNT_DELAY_MS = 1_000;

/** Events of which a page of a list wants to know besides those of jobs. */
interface OtherHandlers extends Pick<EventHandlers, "machine" | "index" | "host"> {
  /** Called when events may have been missed, so that everything must be read again. */
  readonly load?: () => void;
  /** After any event of a job. */
  readonly job?: () => void;
}

/**
 * A list whose filter may change; its stream stays open meanwhile.
 * @param others share its stream: a browser has few connections
 */
export function openJobList(
  first: URLSearchParams,
  { load: loadOthers, job: jobToo, ...others }: OtherHandlers = {},
) {
  const { filter: filterRows, load, take, close: closeRows, ...shown } = openRows(first);
  const { counts, filter: filterCounts, soon: count, close: closeCounts } = openCounts(first);
  const stop = follow(`kind=${["job", ...Object.keys(others)].join(",")}`, {
    ...others,
    load: () => {
      void load("again");
      count();
      loadOthers?.();
    },
    job: (event) => {
      jobToo?.();
      take(event);
      count();
    },
  });
  let text = first.toString();
  return {
    ...shown,
    counts,
    /** Shows the jobs of another filter; those of the last one stay until the first are there. */
    filter: (query: URLSearchParams) => {
      const wanted = query.toString();
      if (wanted === text) return;
      text = wanted;
      // One after the other: both look through the same jobs, and the rows are what somebody waits for.
      void filterRows(query).then(() => {
        if (text === wanted) filterCounts(query);
      });
    },
    /** Reads the next page, unless one is on its way. */
    more: () => {
      if (shown.status.value === "more") void load("more");
    },
    close: () => {
      stop();
      closeRows();
      closeCounts();
    },
  };
}

/** What a read is for: another filter, the same rows as they are now, or the next page. */
type Reading = "filter" | "again" | "more";

/** The rows of a list, as far as they were read. */
function openRows(first: URLSearchParams) {
  const rows = signal<readonly JobSummary[]>([]);
  const status = signal<"loading" | "more" | "whole">("loading");
  const error = signal<string | undefined>(undefined);
  let query = first;
  let next: string | null = null;
  let reading = new AbortController();
  /** Events since a read began: what it found may be older. */
  let events: JobEvent[] = [];
  /** Whether the rows are those of the last filter. */
  const stale = signal(false);

  const show = (found: readonly JobSummary[], whole: boolean) => {
    rows.value = events.reduce((all, event) => applied(all, event, query, whole), found);
    stale.value = false;
  };
  const load = async (why: Reading) => {
    reading.abort();
    const { signal: mine } = reading = new AbortController();
    events = [];
    if (why !== "again") status.value = "loading";
    const { length } = stale.peek() || why === "filter" ? [] : rows.value;
    const wanted = why === "more" ? length + 1 : Math.max(length, JOBS_PER_PAGE);
    const begun = why === "more" ? { found: rows.value, next } : { found: [], next: null };
    try {
      for await (const part of readPages(query, begun, wanted, mine)) {
        // A search may take many pages: what has been found is shown meanwhile.
        const { found, enough } = part;
        if (enough || (why !== "again" && found.length > 0)) show(found, part.next === null);
        if (enough) next = part.next;
      }
      error.value = undefined;
    } catch (failure) {
      if (mine.aborted) return;
      error.value = wordsOf(failure);
    }
    if (!mine.aborted) status.value = next === null ? "whole" : "more";
  };
  return {
    rows,
    status,
    stale,
    error,
    load,
    /** Applies an event to the list. */
    take(event: JobEvent) {
      events.push(event);
      if (!stale.value) rows.value = applied(rows.value, event, query, status.value === "whole");
    },
    filter(changed: URLSearchParams) {
      query = changed;
      stale.value = true;
      next = null;
      return load("filter");
    },
    close: () => reading.abort(),
  };
}

/** Jobs that were read, and where the next page begins. */
interface Read {
  readonly found: readonly JobSummary[];
  readonly next: string | null;
}

/** Reads pages until there are as many rows as wanted, or no more; nothing once it is aborted. */
async function* readPages(
  query: URLSearchParams,
  begun: Read,
  wanted: number,
  signal: AbortSignal,
): AsyncGenerator<Read & { readonly enough: boolean }> {
  let { found, next } = begun;
  let enough = false;
  // A page may be short while others follow.
  while (!enough) {
    const page = await readPage(query, next, signal);
    if (signal.aborted) return;
    found = joined(found, page.jobs);
    next = page.next;
    enough = found.length >= wanted || next === null;
    yield { found, next, enough };
  }
}

async function readPage(
  query: URLSearchParams,
  cursor: string | null,
  signal: AbortSignal,
  limit = JOBS_PER_PAGE,
) {
  const asked = new URLSearchParams(query);
  asked.set("limit", String(limit));
  if (cursor !== null) asked.set("cursor", cursor);
  return await read("GET /agent/v1/jobs", `/agent/v1/jobs?${asked}`, signal);
}

/** What openJobList() returns. @see openJobList */
export type JobList = ReturnType<typeof openJobList>;

/** Rows and those of the next page, which may repeat some when jobs were made meanwhile. */
function joined(
  rows: readonly JobSummary[],
  more: readonly JobSummary[],
): readonly JobSummary[] {
  const known = new Set(rows.map(({ uuid }) => uuid));
  return [...rows, ...more.filter(({ uuid }) => !known.has(uuid))];
}

/** The rows after an event: one changed, went, or came; newest first. */
function applied(
  rows: readonly JobSummary[],
  { job_uuid, job }: JobEvent,
  query: URLSearchParams,
  whole: boolean,
): readonly JobSummary[] {
  const at = rows.findIndex(({ uuid }) => uuid === job_uuid);
  if (job === null || !fits(job, query)) return at === -1 ? rows : rows.toSpliced(at, 1);
  if (at !== -1) return rows.with(at, job);
  const place = rows.findIndex(({ created_at }) => created_at <= job.created_at);
  // Older than what has been read: it comes with its page.
  if (place === -1) return whole || rows.length === 0 ? [...rows, job] : rows;
  return rows.toSpliced(place, 0, job);
}

/** Whether a job belongs to a list, by the same rules as the agent's. */
function fits(job: JobSummary, query: URLSearchParams): boolean {
  const state = query.get("state");
  if (state !== null && !state.split(",").includes(job.state)) return false;
  for (const key of ["name", "target"] as const) {
    const wanted = query.get(key);
    if (wanted !== null && job[key] !== wanted) return false;
  }
  if (!isOfHost(job, query.get("host"))) return false;
  const since = query.get("since");
  if (since !== null && Date.parse(job.created_at) < Date.parse(since)) return false;
  const until = query.get("until");
  if (until !== null && Date.parse(job.created_at) >= Date.parse(until)) return false;
  const search = query.get("search")?.toLowerCase();
  if (search === undefined) return true;
  const texts = [job.name, job.target, job.error, job.params && JSON.stringify(job.params)];
  return texts.some((text) => text?.toLowerCase().includes(search) ?? false);
}

interface StateCounts {
  readonly of: Readonly<Record<string, number>>;
  /** Whether all jobs were looked at; else there may be more. */
  readonly whole: boolean;
}

/** The numbers of jobs by state for a filter, read soon, once for many changes. */
function openCounts(first: URLSearchParams) {
  const counts = signal<StateCounts | undefined>(undefined);
  let narrowed = withoutState(first);
  let reading = new AbortController();
  let timer: number | undefined;
  const count = async () => {
    timer = undefined;
    reading.abort();
    const { signal: closing } = reading = new AbortController();
    const read = narrowed.size === 0 ? countAll(closing) : countFitting(narrowed, closing);
    // The rows say why, if the agent does not answer.
    const found = await read.catch(() => undefined);
    if (found !== undefined && !closing.aborted) counts.value = found;
  };
  return {
    counts,
    soon: () => {
      if (counts.value === undefined && timer === undefined) void count();
      timer ??= setTimeout(() => void count(), COUNT_DELAY_MS);
    },
    filter: (query: URLSearchParams) => {
      const changed = withoutState(query);
      if (changed.toString() === narrowed.toString()) return;
      narrowed = changed;
      clearTimeout(timer);
      void count();
    },
    close: () => {
      clearTimeout(timer);
      reading.abort();
    },
  };
}

function withoutState(query: URLSearchParams): URLSearchParams {
  const narrowed = new URLSearchParams(query);
  narrowed.delete("state");
  return narrowed;
}

async function countAll(closing: AbortSignal): Promise<StateCounts> {
  const stats = await read("GET /stats", "/stats", closing);
  // The windows do not overlap.
  const windows = Object.values(stats);
  const sum = (state: typeof STATES[number]) =>
    windows.reduce((total, window) => total + window[state], 0);
  return { of: Object.fromEntries(STATES.map((state) => [state, sum(state)])), whole: true };
}

async function countFitting(query: URLSearchParams, closing: AbortSignal): Promise<StateCounts> {
  const path = `/agent/v1/jobs/counts?${query}`;
  const { counts, whole } = await read("GET /agent/v1/jobs/counts", path, closing);
  return { of: counts, whole };
}

/** Jobs of which all that fit can be selected. */
const FITTING_MAX = 10_000;

/**
 * Every job of a filter, read to its end.
 * @param onRead called with the number that was read so far
 * @returns the newest, where there are more than so many
 * @throws {CallError}
 */
export async function readFitting(
  query: URLSearchParams,
  onRead: (jobs: number) => void,
): Promise<readonly JobSummary[]> {
  const closing = new AbortController();
  let found: readonly JobSummary[] = [];
  let cursor: string | null = null;
  do {
    const { jobs, next }: Answers["GET /agent/v1/jobs"] = await readPage(
      query,
      cursor,
      closing.signal,
      JOBS_PER_PAGE_MAX,
    );
    found = joined(found, jobs);
    cursor = next;
    onRead(found.length);
  } while (cursor !== null && found.length < FITTING_MAX);
  return found.slice(0, FITTING_MAX);
}
