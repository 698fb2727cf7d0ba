// The jobs that match a filter: the pages read so far, updated by events.

import { signal } from "@preact/signals";
import { read, wordsOf } from "../../client/client.ts";
import { type EventHandlers, follow, type JobEvent } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";
import { isOfHost } from "../../part/hosts.tsx";

/** A job as lists show it. */
export type JobSummary = Schemas["JobSummary"];

/** The states of the tabs, in their order. */
export const STATES = ["queued", "running", "waiting", "succeeded", "failed", "canceled"] as const;

/** Keys of the address that filter jobs; the API uses the same ones. */
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

/** Handlers for further events that the page of a list needs. */
interface OtherHandlers extends Pick<EventHandlers, "machine" | "index" | "host"> {
  /** Called when events may have been missed: everything must be read again. */
  readonly load?: () => void;
  /** After any event of a job. */
  readonly job?: () => void;
}

/**
 * A list whose filter may change; its stream stays open then.
 * @param others share its stream, since a browser has few connections
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
    /** Changes the filter; the old rows stay until the first new ones arrive. */
    filter: (query: URLSearchParams) => {
      const wanted = query.toString();
      if (wanted === text) return;
      text = wanted;
      // One after the other: both search the same jobs, and the user waits for the rows.
      void filterRows(query).then(() => {
        if (text === wanted) filterCounts(query);
      });
    },
    /** Reads the next page, unless a read is in progress. */
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

/** The purpose of a read: a new filter, the same rows again, or the next page. */
type Reading = "filter" | "again" | "more";

/** The rows read so far. */
function openRows(first: URLSearchParams) {
  const rows = signal<readonly JobSummary[]>([]);
  const status = signal<"loading" | "more" | "whole">("loading");
  const error = signal<string | undefined>(undefined);
  let query = first;
  let next: string | null = null;
  let reading = new AbortController();
  /** Events since a read began: its answer may be older. */
  let events: JobEvent[] = [];
  /** Whether the rows are still those of the previous filter. */
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
        // A search may take many pages: results are shown as they arrive.
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

/** Reads pages until there are enough rows or no more; stops when it is aborted. */
async function* readPages(
  query: URLSearchParams,
  begun: Read,
  wanted: number,
  signal: AbortSignal,
): AsyncGenerator<Read & { readonly enough: boolean }> {
  let { found, next } = begun;
  let enough = false;
  // A page may be short although others follow.
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

/** Appends the next page, which may repeat rows when jobs were created since the last one. */
function joined(
  rows: readonly JobSummary[],
  more: readonly JobSummary[],
): readonly JobSummary[] {
  const known = new Set(rows.map(({ uuid }) => uuid));
  return [...rows, ...more.filter(({ uuid }) => !known.has(uuid))];
}

/** The rows after an event: one changed, was removed or was added; newest first. */
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
  // Older than all rows read so far: a later page will contain it.
  if (place === -1) return whole || rows.length === 0 ? [...rows, job] : rows;
  return rows.toSpliced(place, 0, job);
}

/** Whether a job matches the filter, by the agent's rules. */
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
  /** Whether all jobs were counted; otherwise there may be more. */
  readonly whole: boolean;
}

/** Job counts by state for a filter, read again soon after a change, once for many changes. */
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
    // If the agent does not answer, the rows say so.
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

/** Most matching jobs that can be selected. */
const FITTING_MAX = 10_000;

/**
 * Reads every job that matches a filter.
 * @param onRead called with the number read so far
 * @returns the newest ones, if there are more than FITTING_MAX
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
