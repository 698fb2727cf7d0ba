// The stream of one reader. It first reads the pages it missed, at its own pace, then joins the feed. Unread
// bytes wait in a bounded buffer. A reader that is too slow is disconnected; it reconnects with the id of the
// last event it received and misses nothing.

import { DIGITS } from "../../domain/description/value.ts";
import type { ResetPayload } from "../../domain/event.ts";
import type { EventBounds, EventFilter } from "../../store/event_store.ts";
import { STALL_MS } from "../answer/text_answer.ts";
import { block, type EventFeed, type LiveReader, type SentEvent } from "./feed.ts";
import { LOST_ACCESS } from "../request/caller.ts";

/** Most bytes buffered for a reader; every event is smaller. */
const BUFFER_BYTES_MAX = 1024 * 1024;
/** Milliseconds between heartbeats. Each one also checks that the reader still has access. */
const HEARTBEAT_MS = 5000;
/** Milliseconds after which a browser reconnects. */
const RETRY_MS = 1000;
/** Pages still sent to a reader when the agent stops, so that the event about the stop reaches it. */
const LAST_PAGES_MAX = 4;

/** Whether an event matches the filter. */
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
  readonly bufferBytes?: number | undefined;
  readonly heartbeatMs?: number | undefined;
}

/** The body of the response. */
export function eventStream(options: StreamOptions): ReadableStream<Uint8Array> {
  // Produce nothing before the reader asks for it.
  return new ReadableStream(new EventSource(options), { highWaterMark: 0 });
}

const ENCODER = new TextEncoder();

/** Produces the bytes of one stream. */
class EventSource implements UnderlyingDefaultSource<Uint8Array>, LiveReader {
  readonly #options: StreamOptions;
  /** Every event up to this one was sent, is in the buffer, or does not match the filter. */
  #position: number;
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  /** Wakes the pending pull(), if there is one. */
  #wanted: (() => void) | undefined;
  #leave: (() => void) | undefined;
  #beating: ReturnType<typeof setInterval> | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #takenAtMs = performance.now();
  #over = false;
  readonly #stop = () => void this.#finish();

  constructor(options: StreamOptions) {
    const { start, feed: { prefix } } = options;
    this.#options = options;
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
    const { closing, heartbeatMs = HEARTBEAT_MS } = this.#options;
    this.#controller = controller;
    this.#beating = setInterval(() => this.#beat(), heartbeatMs);
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
    const { bufferBytes = BUFFER_BYTES_MAX } = this.#options;
    // Missed pages may exceed the buffer, or a reader would be cut at the same page every time.
    const live = this.#leave !== undefined;
    if (live && this.#bytes > bufferBytes) this.#cut(`${this.#bytes} bytes wait for it`);
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
    clearInterval(this.#beating);
    this.#options.closing.removeEventListener("abort", this.#stop);
    this.#leave?.();
    this.#wanted?.();
    this.#waiting = [];
    this.#options.ended(why);
  }
}
