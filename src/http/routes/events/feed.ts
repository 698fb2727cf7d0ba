// Serves events to many readers from few reads of the store: readers that are up to date share one read of
// each new event, and readers that reconnect share the pages they missed. With no readers, nothing is read.

import {
  type EventKind,
  eventOnWire,
  kindOnWire,
  type StoredEvent,
} from "../../../domain/event.ts";
import type { JobUuid, MachineUuid } from "../../../domain/id.ts";
import type { Now } from "../../../domain/instant.ts";
import { machineOfTarget } from "../../../domain/job/summary.ts";
import type { Log } from "../../../metrics/log.ts";
import type { EventFilter } from "../../../store/event_store.ts";
import type { Store } from "../../../store/store.ts";

/** Events per read of the store. */
const PAGE_EVENTS = 64;
/** Pages of missed events that are cached for other readers, and for how many milliseconds. */
const PAGES_KEPT = 4;
const PAGE_MS = 1000;
/** Milliseconds to wait for more events, so that a burst of changes to a job is read once. */
const GATHER_MS = 20;
/** Milliseconds before a failed read is retried. */
const AGAIN_MS = 1000;

/** An event as it is sent. It is serialized at most twice: with params, and without. */
export interface SentEvent {
  readonly seq: number;
  readonly kind: EventKind;
  /** Job, machine and kind are what filters compare. */
  readonly job_uuid: JobUuid | null;
  readonly machine_uuid: MachineUuid | null;
  /** The event as a block of the stream. */
  text(showsParams: boolean): string;
}

/** Consecutive events, oldest first, as they are sent. */
interface SentPage {
  readonly events: readonly SentEvent[];
  readonly last: number;
  readonly more: boolean;
  readonly joins: boolean;
}

/** A reader that is up to date. */
export interface LiveReader {
  /** Receives the next events. @param last the newest event offered so far */
  offer(events: readonly SentEvent[], last: number): void;
  /** Called when events that the reader has not seen are no longer kept. */
  miss(): void;
}

/**
 * What ids of a shared store begin with. The numbers of a host's own store, from which it may have moved there, count
 * other events.
 */
const SHARED_PREFIX = "s";

/** The shared source of events. */
export interface EventFeed {
  /** What each id begins with; a number follows. */
  readonly prefix: string;
  /** The positions of the oldest and the newest event. */
  now(): Promise<{ readonly first: number; readonly last: number }>;
  /** A page of the events after `seq`. Events that do not match the filter may be left out. */
  after(seq: number, filter: EventFilter): Promise<SentPage>;
  /**
   * Subscribes a reader to all later events.
   * @param from the newest event that it has read
   * @returns ends the subscription; undefined when the feed is already past `from`
   */
  join(reader: LiveReader, from: number): (() => void) | undefined;
}

interface FeedDependencies {
  readonly store: Pick<Store, "events" | "shared">;
  readonly now: Now;
  /** The name that events give the managed host. */
  readonly host: string;
  readonly log: Log;
}

/** Opens the feed; nothing is read before the first reader. */
export function openEventFeed(context: FeedDependencies): EventFeed {
  const { store: { events, shared }, now, host } = context;
  const prefix = shared ? SHARED_PREFIX : "";
  const read: ReadPage = async (after, limit, filter) => {
    const page = await events.after(after, limit, filter);
    const sent = page.events.map((event) => sentEvent(event, `${prefix}${event.seq}`, now, host));
    return { ...page, events: sent };
  };
  const missed = openMissedPages(read);
  const join = openLive(context, (after) => read(after, PAGE_EVENTS));
  return { prefix, now: () => events.bounds(), after: missed, join };
}

type ReadPage = (after: number, limit: number, filter?: EventFilter) => Promise<SentPage>;

/**
 * Pages for readers that reconnect. Unfiltered pages end at fixed positions, so that readers at different
 * positions soon share them. Filtered pages are shared by readers with the same filter and position.
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
      // The last page is not full yet.
      if (!page.more) forget();
      return page;
    } catch (error) {
      forget();
      throw error;
    }
  };
}

/** Reads new events for all readers that are up to date. */
function openLive(
  { store: { events: source }, log }: FeedDependencies,
  read: (after: number) => Promise<SentPage>,
): EventFeed["join"] {
  const live = new Set<LiveReader>();
  let position = 0;
  let unfollow: (() => void) | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let reading = false;
  /** Whether something was committed since the latest read began. */
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
      // More events are there already, so do not wait.
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
    // The first reader sets the position.
    if (live.size === 0 && !reading) position = from;
    if (from < position) return undefined;
    live.add(reader);
    unfollow ??= source.follow(committed);
    // A commit just before this subscription was announced too early for it, so look once.
    committed();
    return () => leave(reader);
  };
}

function sentEvent(event: StoredEvent, id: string, now: Now, host: string): SentEvent {
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
        id,
        kind,
        JSON.stringify(eventOnWire(event, { now: now(), host, showsParams })),
      );
    },
  };
}

/** One event of the stream. The data is one line: JSON.stringify() writes no line breaks. */
export function block(id: string, kind: string, data: string): string {
  return `id: ${id}\nevent: ${kind}\ndata: ${data}\n\n`;
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
