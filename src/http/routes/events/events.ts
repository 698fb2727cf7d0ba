// GET /agent/v1/events: events as they happen, as server-sent events.
// @see html.spec.whatwg.org/multipage/server-sent-events.html

import { type Context, Hono } from "hono";
import { EVENT_KINDS, type EventKind, type ResetPayload } from "../../../domain/event.ts";
import {
  about,
  atMostChars,
  DIGITS,
  kept,
  text,
  wholeText,
} from "../../../domain/description/value.ts";
import { AgentError } from "../../../domain/error.ts";
import { type JobUuid, type MachineUuid, UUID } from "../../../domain/id.ts";
import { SYSTEM_TIMERS, type Timers } from "../../../runtime/timers.ts";
import type { EventBounds, EventFilter } from "../../../store/event_store.ts";
import { jobNotFound } from "../../../store/job_orders.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { block, type EventFeed, type LiveReader, openEventFeed, type SentEvent } from "./feed.ts";
import { isStillGood, LOST_ACCESS, OPEN_ACCESS, seesSecrets } from "../../caller.ts";
import { readQuery } from "../../request/query.ts";
import { STALL_MS } from "../../answer/text_answer.ts";

type EventContext = Pick<
  ServedAgent,
  "store" | "now" | "machines" | "log" | "limits" | "closing" | "access"
>;

const UUIDS_MAX = 16;
/** 36 characters and a comma for each. */
const LIST_CHARS_MAX = 37 * UUIDS_MAX;
const ID_CHARS_MAX = 64;

const HEX_UUID = UUID.source.slice(1, -1).replaceAll("a-f", "A-Fa-f");

function uuids<T extends JobUuid | MachineUuid>() {
  return kept(
    atMostChars(
      LIST_CHARS_MAX,
      text(
        new RegExp(`^${HEX_UUID}(?:,${HEX_UUID}){0,${UUIDS_MAX - 1}}$`),
        `1 to ${UUIDS_MAX} uuids separated by commas`,
      ),
    ),
    // The pattern has checked each of them.
    (words) => words.toLowerCase().split(",") as T[],
  );
}

const KIND = `(?:${EVENT_KINDS.join("|")})`;

/** The query of the stream. */
export const EVENT_QUERY_FIELDS = {
  job: about(
    `Only events of these jobs: up to ${UUIDS_MAX} uuids, separated by commas.`,
    uuids<JobUuid>(),
  ),
  kind: about(
    `Only events of these kinds, separated by commas: ${EVENT_KINDS.join(", ")}.`,
    kept(
      text(
        new RegExp(`^${KIND}(?:,${KIND}){0,${EVENT_KINDS.length - 1}}$`),
        `words separated by commas, each one of ${EVENT_KINDS.join(", ")}`,
      ),
      (words) => words.split(",") as EventKind[],
    ),
  ),
  machine: about(
    `Only events of these machines and of their jobs, up to ${UUIDS_MAX} uuids with commas between ` +
      "them. The removal of a job names no machine.",
    uuids<MachineUuid>(),
  ),
  last_event_id: about(
    "The same as the header `Last-Event-ID`, for the first connection of a browser. If " +
      "both are sent, the header counts.",
    wholeText(ID_CHARS_MAX),
  ),
};

/** `GET /agent/v1/events`: a stream, or a page of it. */
export function eventRoutes(context: EventContext): Hono<HttpEnv> {
  const { store, now, log, machines, limits } = context;
  const feed = openEventFeed({ store, now, host: machines.host, log });
  let open = 0;
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/events", async (c) => {
    const { last_event_id, ...filter } = readQuery(c.req.url, EVENT_QUERY_FIELDS);
    // A reconnecting browser sends the header; its query still has the position where it began.
    const id = c.req.header("last-event-id") ?? last_event_id;
    if (id === undefined) await refuseUnknown(filter, context);
    if (open >= limits.eventStreamsMax) {
      const message = `Cannot open a stream of events: ${open} are open, the maximum ` +
        "(setting limits.event_streams_max)";
      throw new AgentError("overloaded", message, { retryAfterSeconds: 5 });
    }
    open += 1;
    try {
      const start = startAt(id, { ...await feed.now(), prefix: feed.prefix });
      return answerStream(c, { feed, filter, start }, context, () => open -= 1);
    } catch (error) {
      open -= 1;
      throw error;
    }
  });
  return app;
}

/** Refuses the uuid of no job, which would match no event. @throws {AgentError} `not_found` */
async function refuseUnknown({ job = [] }: EventFilter, { store }: EventContext): Promise<void> {
  for (const uuid of job) {
    if (await store.jobs.execution(uuid) === undefined) throw jobNotFound(uuid);
  }
}

function answerStream(
  c: Context<HttpEnv>,
  begun: Pick<Parameters<typeof eventStream>[0], "feed" | "filter" | "start">,
  { closing, log, access = OPEN_ACCESS }: EventContext,
  leave: () => void,
): Response {
  const caller = c.get("caller");
  const request_id = c.get("request_id");
  // From here on it counts as a stream, not as a request.
  c.get("release")();
  c.header("content-type", "text/event-stream");
  // Neither cached nor compressed, so that each event arrives at once.
  c.header("cache-control", "no-store, no-transform");
  if (c.req.method === "HEAD") {
    leave();
    return c.body(null);
  }
  const body = eventStream({
    ...begun,
    closing,
    showsParams: seesSecrets(caller),
    allowed: () => caller === undefined ? Promise.resolve(true) : isStillGood(caller, access),
    taken: () => c.env?.moved?.(),
    ended: (why) => {
      leave();
      log.debug("event stream ended", { request_id, why });
    },
  });
  return c.body(body);
}

/** Most bytes buffered for a reader; every event is smaller. */
const BUFFER_BYTES_MAX = 1024 * 1024;
/** Milliseconds between heartbeats. Each one also checks that the reader still has access. */
const HEARTBEAT_MS = 5000;
/** Milliseconds after which a browser reconnects. */
const RETRY_MS = 1000;
/** Pages still sent to a reader when the agent stops, so that the event about the stop reaches it. */
const LAST_PAGES_MAX = 4;

function fits({ job_uuid, machine_uuid, kind }: SentEvent, filter: EventFilter): boolean {
  if (filter.kind !== undefined && !filter.kind.includes(kind)) return false;
  if (filter.job !== undefined && !filter.job.some((one) => one === job_uuid)) return false;
  return filter.machine === undefined || filter.machine.some((one) => one === machine_uuid);
}

type EventStart =
  | { readonly kind: "at"; readonly seq: number }
  | { readonly kind: "reset"; readonly reason: ResetPayload["reason"]; readonly seq: number };

/**
 * Where a reader continues.
 * @param id the last id that it received, as sent; undefined for a new reader
 */
export function startAt(
  id: string | undefined,
  { first, last, prefix }: EventBounds & Pick<EventFeed, "prefix">,
): EventStart {
  if (id === undefined) return { kind: "at", seq: last };
  // Before the first event, wherever the events are kept.
  const known = id === "0" ? `${prefix}0` : id;
  const digits = known.startsWith(prefix) ? known.slice(prefix.length) : "";
  const seq = DIGITS.test(digits) ? Number(digits) : Infinity;
  if (seq > last) return { kind: "reset", reason: "unknown", seq: last };
  // The event itself may be gone as long as every later one is kept.
  if (seq < first - 1) return { kind: "reset", reason: "old", seq: last };
  return { kind: "at", seq };
}

interface StreamOptions {
  readonly feed: EventFeed;
  readonly filter: EventFilter;
  readonly start: EventStart;
  readonly showsParams: boolean;
  /** Whether the caller still has access. */
  readonly allowed: () => Promise<boolean>;
  /** Aborted when the agent stops: the stream sends what is left and ends. */
  readonly closing: AbortSignal;
  /** Called once when the stream has ended, with the reason. */
  readonly ended: (why: string) => void;
  /** Called when the reader has read something. */
  readonly taken: () => void;
  /** The clock of heartbeats; the system's unless given. */
  readonly timers?: Timers;
}

/** The body of the response. */
export function eventStream(options: StreamOptions): ReadableStream<Uint8Array> {
  // Produce nothing before the reader asks for it.
  return new ReadableStream(new EventSource(options), { highWaterMark: 0 });
}

const ENCODER = new TextEncoder();

class EventSource implements UnderlyingDefaultSource<Uint8Array>, LiveReader {
  readonly #options: StreamOptions;
  /** Every event up to this one was sent, is in the buffer, or does not match the filter. */
  #position: number;
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  /** Wakes the pending pull(), if there is one. */
  #wanted: (() => void) | undefined;
  #leave: (() => void) | undefined;
  readonly #timers: Timers;
  #cancelBeat: (() => void) | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #takenAtMs = performance.now();
  #over = false;
  readonly #stop = () => void this.#finish();

  constructor(options: StreamOptions) {
    const { start, feed: { prefix } } = options;
    this.#options = options;
    this.#timers = options.timers ?? SYSTEM_TIMERS;
    this.#position = start.seq;
    // An id without data: a client that has seen no event yet can still continue from here.
    const position = `${prefix}${start.seq}`;
    this.#put(`retry: ${RETRY_MS}\nid: ${position}\n\n`);
    if (start.kind === "reset") {
      const payload: ResetPayload = { reason: start.reason, position };
      this.#put(block(position, "reset", JSON.stringify(payload)));
    }
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    const { closing } = this.#options;
    this.#controller = controller;
    this.#beatLater();
    closing.addEventListener("abort", this.#stop, { once: true });
    if (closing.aborted) this.#stop();
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    this.#takenAtMs = performance.now();
    this.#options.taken();
    try {
      while (this.#bytes === 0 && !this.#over) {
        if (this.#leave === undefined) await this.#readMissed();
        else await new Promise<void>((resolve) => this.#wanted = resolve);
      }
    } catch (error) {
      this.#end("the events could not be read");
      throw error;
    }
    if (this.#bytes === 0 || this.#over) return;
    controller.enqueue(this.#take());
  }

  cancel(): void {
    this.#end("the reader has gone");
  }

  offer(events: readonly SentEvent[], last: number): void {
    for (const event of events) {
      if (event.seq <= this.#position || !fits(event, this.#options.filter)) continue;
      this.#put(event.text(this.#options.showsParams));
    }
    this.#position = Math.max(this.#position, last);
    // Missed pages may exceed the buffer, or a reader would be cut at the same page every time.
    const live = this.#leave !== undefined;
    if (live && this.#bytes > BUFFER_BYTES_MAX) this.#cut(`${this.#bytes} bytes wait for it`);
    else if (this.#bytes > 0) this.#wanted?.();
  }

  miss(): void {
    this.#cut(`those after ${this.#position} are no longer kept`);
  }

  async #readMissed(): Promise<void> {
    const more = await this.#readPage();
    // Only a reader that has caught up joins the feed, so none holds the others back.
    if (!more && !this.#over) this.#leave = this.#options.feed.join(this, this.#position);
    // Yield between pages: with a narrow filter, many pages in a row may have nothing to send.
    else await new Promise((resolve) => setImmediate(resolve));
  }

  /** @returns whether more pages follow */
  async #readPage(): Promise<boolean> {
    const { feed, filter } = this.#options;
    const { events, last, more, joins } = await feed.after(this.#position, filter);
    if (this.#over) return false;
    if (joins) this.offer(events, last);
    else this.miss();
    return more;
  }

  /** Sends the events up to now, and ends the response. */
  async #finish(): Promise<void> {
    try {
      const { last } = await this.#options.feed.now();
      for (let page = 0; page < LAST_PAGES_MAX && this.#position < last; page++) {
        if (this.#over) return;
        await this.#readPage();
      }
    } catch {
      // The reader continues from its last id when it reconnects.
    }
    this.#close("the agent is stopping");
  }

  #put(text: string): void {
    const bytes = ENCODER.encode(text);
    this.#waiting.push(bytes);
    this.#bytes += bytes.length;
  }

  #take(): Uint8Array<ArrayBuffer> {
    const whole = new Uint8Array(this.#bytes);
    let at = 0;
    for (const bytes of this.#waiting) {
      whole.set(bytes, at);
      at += bytes.length;
    }
    this.#waiting = [];
    this.#bytes = 0;
    return whole;
  }

  #beatLater(): void {
    this.#cancelBeat = this.#timers.start(HEARTBEAT_MS, () => {
      this.#beatLater();
      void this.#beat();
    });
  }

  async #beat(): Promise<void> {
    if (!await this.#options.allowed().catch(() => false)) {
      return this.#close(LOST_ACCESS);
    }
    if (this.#over) return;
    if (this.#bytes > 0 && performance.now() - this.#takenAtMs > STALL_MS) {
      return this.#cut(`nothing was taken for ${STALL_MS} ms`);
    }
    // A reader that is still catching up needs no heartbeat: its next pull() reads a page.
    if (this.#bytes > 0 || this.#leave === undefined) return;
    // Carries the position, so that the last id of a reader with a narrow filter does not expire..
    this.#put(`: heartbeat\nid: ${this.#options.feed.prefix}${this.#position}\n\n`);
    this.#wanted?.();
  }

  /** Sends what is buffered, and ends the response normally. */
  #close(why: string): void {
    if (this.#over) return;
    if (this.#bytes > 0) this.#controller?.enqueue(this.#take());
    this.#end(why);
    this.#controller?.close();
  }

  /** Breaks the connection, so that the response does not look complete. */
  #cut(why: string): void {
    if (this.#over) return;
    this.#end(why);
    this.#controller?.error(new Error(`Cannot continue the stream of events: ${why}`));
  }

  #end(why: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#cancelBeat?.();
    this.#options.closing.removeEventListener("abort", this.#stop);
    this.#leave?.();
    this.#wanted?.();
    this.#waiting = [];
    this.#options.ended(why);
  }
}
