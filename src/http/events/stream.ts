// One reader of the events. It reads the pages that it has missed at its own pace, then takes part in the
// feed. What it has not taken waits in a bounded buffer; a reader that takes too little is cut and comes back
// with the id of the last event that it has seen. Nothing is left out in between.

import { DIGITS } from "../../domain/description/value.ts";
import type { ResetPayload } from "../../domain/event.ts";
import type { EventFilter } from "../../store/event_store.ts";
import { STALL_MS } from "../answer/text_answer.ts";
import { block, type EventFeed, type LiveReader, type SentEvent } from "./feed.ts";

/** Bytes that wait for a reader; the largest event has fewer. */
const BUFFER_BYTES_MAX = 1024 * 1024;
/** Milliseconds between two signs of life, at which it is also seen whether the reader may go on. */
const HEARTBEAT_MS = 5000;
/** Milliseconds after which a browser connects again. */
const RETRY_MS = 1000;
/** Pages that a reader is sent when the agent stops: what others have read, and the word that it stops. */
const LAST_PAGES_MAX = 4;

/** Whether an event is sent. */
function fits({ job_uuid, machine_uuid, kind }: SentEvent, filter: EventFilter): boolean {
  if (filter.kind !== undefined && !filter.kind.includes(kind)) return false;
  if (filter.job !== undefined && !filter.job.some((one) => one === job_uuid)) return false;
  return filter.machine === undefined || filter.machine.some((one) => one === machine_uuid);
}

/** Where a stream begins. */
type EventStart =
  | { readonly kind: "at"; readonly seq: number }
  | { readonly kind: "reset"; readonly reason: ResetPayload["reason"]; readonly seq: number };

/**
 * Where the reader of an id goes on.
 * @param id as it was sent; undefined for a reader that has seen nothing
 */
export function startAt(
  id: string | undefined,
  { first, last }: { readonly first: number; readonly last: number },
): EventStart {
  if (id === undefined) return { kind: "at", seq: last };
  const seq = DIGITS.test(id) ? Number(id) : Infinity;
  if (seq > last) return { kind: "reset", reason: "unknown", seq: last };
  // The event itself may be gone, if all after it are there.
  if (seq < first - 1) return { kind: "reset", reason: "old", seq: last };
  return { kind: "at", seq };
}

/** What a stream is made with. */
interface StreamOptions {
  readonly feed: EventFeed;
  readonly filter: EventFilter;
  readonly start: EventStart;
  readonly showsParams: boolean;
  /** Whether the caller still has access. */
  readonly allowed: () => Promise<boolean>;
  /** Ends the stream in order. */
  readonly closing: AbortSignal;
  /** Called once, when the stream has ended for whatever reason. */
  readonly ended: (why: string) => void;
  /** Called when the reader has taken something. */
  readonly taken: () => void;
  readonly bufferBytes?: number | undefined;
  readonly heartbeatMs?: number | undefined;
}

/** The body of an answer. */
export function eventStream(options: StreamOptions): ReadableStream<Uint8Array> {
  // Nothing is made ahead of the reader.
  return new ReadableStream(new EventSource(options), { highWaterMark: 0 });
}

const ENCODER = new TextEncoder();

/** The bytes of one stream. */
class EventSource implements UnderlyingDefaultSource<Uint8Array>, LiveReader {
  readonly #options: StreamOptions;
  /** All events up to here were sent, wait in the buffer, or do not fit. */
  #position: number;
  #waiting: Uint8Array[] = [];
  #bytes = 0;
  /** Answers the reader's present request for more. */
  #wanted: (() => void) | undefined;
  #leave: (() => void) | undefined;
  #beating: ReturnType<typeof setInterval> | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #takenAtMs = performance.now();
  #over = false;
  readonly #stop = () => void this.#finish();

  constructor(options: StreamOptions) {
    const { start } = options;
    this.#options = options;
    this.#position = start.seq;
    // An id without data is kept by a reader that has not seen an event yet.
    this.#put(`retry: ${RETRY_MS}\nid: ${start.seq}\n\n`);
    if (start.kind === "reset") {
      const payload: ResetPayload = { reason: start.reason, position: String(start.seq) };
      this.#put(block(start.seq, "reset", JSON.stringify(payload)));
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
    // A page that the reader has asked for is sent whole, or it would be cut at the same page again and again.
    const live = this.#leave !== undefined;
    if (live && this.#bytes > bufferBytes) this.#cut(`${this.#bytes} bytes wait for it`);
    else if (this.#bytes > 0) this.#wanted?.();
  }

  miss(): void {
    this.#cut(`those after ${this.#position} are no longer kept`);
  }

  async #readMissed(): Promise<void> {
    const more = await this.#readPage();
    // Others are kept waiting by nobody who is behind.
    if (!more && !this.#over) this.#leave = this.#options.feed.join(this, this.#position);
    // Others have their turn between two pages of which nothing may be sent.
    else await new Promise((resolve) => setImmediate(resolve));
  }

  /** @returns whether others follow */
  async #readPage(): Promise<boolean> {
    const { feed, filter } = this.#options;
    const { events, last, more, joins } = await feed.after(this.#position, filter);
    if (this.#over) return false;
    if (joins) this.offer(events, last);
    else this.miss();
    return more;
  }

  /** Sends what has happened up to now, and ends the answer. */
  async #finish(): Promise<void> {
    try {
      const { last } = await this.#options.feed.now();
      for (let page = 0; page < LAST_PAGES_MAX && this.#position < last; page++) {
        if (this.#over) return;
        await this.#readPage();
      }
    } catch {
      // The reader goes on from its last id.
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
      return this.#close("the token was revoked");
    }
    if (this.#over) return;
    if (this.#bytes > 0 && performance.now() - this.#takenAtMs > STALL_MS) {
      return this.#cut(`nothing was taken for ${STALL_MS} ms`);
    }
    // Before a reader has joined the others, its next request for more has something to read.
    if (this.#bytes > 0 || this.#leave === undefined) return;
    // So that the id of a reader to whom little is sent does not grow old.
    this.#put(`: heartbeat\nid: ${this.#position}\n\n`);
    this.#wanted?.();
  }

  /** Ends the answer in order, with what waits. */
  #close(why: string): void {
    if (this.#over) return;
    if (this.#bytes > 0) this.#controller?.enqueue(this.#take());
    this.#end(why);
    this.#controller?.close();
  }

  /** Breaks the connection, so that nothing looks whole. */
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
