// The events as many readers read them: those who have read all that there is share one read of each new
// event, and those who come back share the pages that they have missed. Nothing is read while nobody reads.

import { type EventKind, eventOnWire, kindOnWire, type StoredEvent } from "../../domain/event.ts";
import type { JobUuid, MachineUuid } from "../../domain/id.ts";
import type { Now } from "../../domain/instant.ts";
import { machineOfTarget } from "../../domain/job/summary.ts";
import type { Log } from "../../metrics/log.ts";
import type { EventFilter, EventStore } from "../../store/event_store.ts";

/** Events of one read. */
const PAGE_EVENTS = 64;
/** Pages of missed events that are kept for the next reader, and for how many milliseconds. */
const PAGES_KEPT = 4;
const PAGE_MS = 1000;
/** Milliseconds in which new events gather, so that a job that changes quickly is read once. */
const GATHER_MS = 20;
/** Milliseconds until a failed read is tried again. */
const AGAIN_MS = 1000;

/** An event as it is sent, written out at most once for each kind of caller. */
export interface SentEvent {
  readonly seq: number;
  readonly kind: EventKind;
  /** What filters look at. */
  readonly job_uuid: JobUuid | null;
  readonly machine_uuid: MachineUuid | null;
  /** A block of the stream. */
  text(showsParams: boolean): string;
}

/** Some events, in their order. */
interface SentPage {
  readonly events: readonly SentEvent[];
  readonly last: number;
  readonly more: boolean;
  /** @see EventPage */
  readonly joins: boolean;
}

/** Who reads along. */
export interface LiveReader {
  /** Takes the next events. @param last all events up to this one have been offered */
  offer(events: readonly SentEvent[], last: number): void;
  /** Learns that events which it has not been offered are no longer kept. */
  miss(): void;
}

/** The one reader of the store. */
export interface EventFeed {
  /** The place of the newest event. */
  now(): Promise<{ readonly first: number; readonly last: number }>;
  /** A page of the events after one. Those that do not fit may be left out. */
  after(seq: number, filter: EventFilter): Promise<SentPage>;
  /**
   * Offers all later events to the reader.
   * @param from the place up to which it has read, after which there was nothing a moment ago
   * @returns ends that; undefined when the feed is further than the reader
   */
  join(reader: LiveReader, from: number): (() => void) | undefined;
}

/** What the feed is made of. */
interface FeedDependencies {
  readonly events: EventStore;
  readonly now: Now;
  /** Names the managed host. */
  readonly host: string;
  readonly log: Log;
}

/** Opens the feed; it reads nothing before the first reader. */
export function openEventFeed(context: FeedDependencies): EventFeed {
  const { events, now, host } = context;
  const read: ReadPage = async (after, limit, filter) => {
    const page = await events.after(after, limit, filter);
    return { ...page, events: page.events.map((event) => sentEvent(event, now, host)) };
  };
  const missed = openMissedPages(read);
  const join = openLive(context, (after) => read(after, PAGE_EVENTS));
  return { now: () => events.bounds(), after: missed, join };
}

type ReadPage = (after: number, limit: number, filter?: EventFilter) => Promise<SentPage>;

/**
 * Pages for those who come back. All without a filter end at the same places, so that readers soon share them;
 * so do those of one filter who come back together.
 */
function openMissedPages(read: ReadPage): EventFeed["after"] {
  const pages = new Map<string, { readonly atMs: number; readonly page: Promise<SentPage> }>();
  return async (seq, { job, machine, kind }) => {
    const filter = { job, machine, kind };
    const words = JSON.stringify(filter);
    const key = `${seq} ${words}`;
    const found = pages.get(key);
    if (found !== undefined && performance.now() - found.atMs < PAGE_MS) return await found.page;
    const limit = words === "{}" ? PAGE_EVENTS - seq % PAGE_EVENTS : PAGE_EVENTS;
    const entry = { atMs: performance.now(), page: read(seq, limit, filter) };
    pages.delete(key);
    pages.set(key, entry);
    const [oldest] = pages.keys();
    if (pages.size > PAGES_KEPT && oldest !== undefined) pages.delete(oldest);
    const forget = () => {
      if (pages.get(key) === entry) pages.delete(key);
    };
    try {
      const page = await entry.page;
      // The last page grows.
      if (!page.more) forget();
      return page;
    } catch (error) {
      forget();
      throw error;
    }
  };
}

/** Reads new events for all who are up to date. */
function openLive(
  { events: store, log }: FeedDependencies,
  read: (after: number) => Promise<SentPage>,
): EventFeed["join"] {
  const live = new Set<LiveReader>();
  let position = 0;
  let unfollow: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let reading = false;
  /** Something was committed since the latest read began. */
  let changed = false;
  const readSoon = (ms: number) => {
    if (!reading && live.size > 0) timer ??= setTimeout(readOn, ms);
  };
  const readOn = async () => {
    timer = undefined;
    reading = true;
    changed = false;
    let waitMs = GATHER_MS;
    try {
      const { events, last, more, joins } = await read(position);
      changed ||= more;
      // What waits already need not gather.
      if (more) waitMs = 0;
      if (last > position) {
        position = last;
        for (const reader of [...live]) joins ? reader.offer(events, last) : reader.miss();
      }
    } catch (error) {
      log.warn("events not read", { error });
      changed = true;
      waitMs = AGAIN_MS;
    }
    reading = false;
    if (changed) readSoon(waitMs);
  };
  const committed = () => {
    changed = true;
    readSoon(GATHER_MS);
  };
  const leave = (reader: LiveReader) => {
    live.delete(reader);
    if (live.size > 0) return;
    unfollow?.();
    unfollow = undefined;
    clearTimeout(timer);
    timer = undefined;
  };
  return (reader, from) => {
    // The first reader says where the feed begins.
    if (live.size === 0 && !reading) position = from;
    if (from < position) return undefined;
    live.add(reader);
    unfollow ??= store.follow(committed);
    // What was committed before is not announced again.
    committed();
    return () => leave(reader);
  };
}

function sentEvent(event: StoredEvent, now: Now, host: string): SentEvent {
  const { seq } = event;
  const kind = kindOnWire(event);
  const texts: (string | undefined)[] = [undefined, undefined];
  return {
    seq,
    kind,
    ...namesOf(event),
    text(showsParams) {
      const at = Number(showsParams);
      return texts[at] ??= block(
        seq,
        kind,
        JSON.stringify(eventOnWire(event, { now: now(), host, showsParams })),
      );
    },
  };
}

/** A block of the stream; JSON has no line break. */
export function block(seq: number, kind: string, data: string): string {
  return `id: ${seq}\nevent: ${kind}\ndata: ${data}\n\n`;
}

function namesOf(event: StoredEvent): Pick<SentEvent, "job_uuid" | "machine_uuid"> {
  switch (event.kind) {
    case "job":
    case "log":
    case "machine": {
      const { uuid, target } = event.job;
      return { job_uuid: uuid, machine_uuid: machineOfTarget(target) ?? null };
    }
    case "removed_job":
      return { job_uuid: event.job_uuid, machine_uuid: null };
    case "own_machine":
      return { job_uuid: null, machine_uuid: event.payload.machine_uuid as MachineUuid };
    default:
      return { job_uuid: null, machine_uuid: null };
  }
}
