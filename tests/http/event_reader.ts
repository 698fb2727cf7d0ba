// A reader of the stream of events, for tests: blocks as they come, with a deadline.

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";

const DEADLINE_MS = 90_000;

/** One event as it was sent. */
export interface ReadEvent {
  readonly id: number;
  readonly kind: string;
  readonly data: JsonObject;
}

export interface EventReader extends AsyncDisposable {
  readonly response: Response;
  /** The latest id that was sent, with an event or without one. */
  readonly id: number;
  /** The next event; undefined at the end of the stream. @throws when it breaks off, or too late */
  next(): Promise<ReadEvent | undefined>;
  /** Reads on until an event passes. @returns all that were read */
  until(last: (event: ReadEvent) => boolean): Promise<ReadEvent[]>;
  /** Settles when the first block has come: what happens from then on is sent. */
  begun(): Promise<void>;
}

/** Opens a stream; `query` begins with a question mark. */
export async function readEvents(
  url: string,
  query = "",
  headers: HeadersInit = {},
  client?: Deno.HttpClient,
): Promise<EventReader> {
  const gone = new AbortController();
  const response = await fetch(`${url}/agent/v1/events${query}`, {
    headers,
    signal: gone.signal,
    ...(client === undefined ? {} : { client }),
  });
  assertEquals([response.status, response.headers.get("content-type")], [
    200,
    "text/event-stream",
  ]);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let id = -1;
  const block = async (end: number): Promise<string | undefined> => {
    for (;;) {
      const at = text.indexOf("\n\n");
      if (at >= 0) {
        const found = text.slice(0, at);
        text = text.slice(at + 2);
        return found;
      }
      const read = await within(end, reader?.read());
      if (read?.value === undefined) return undefined;
      text += read.value;
    }
  };
  const fieldsOf = (lines: string) => {
    const fields = new Map<string, string>();
    for (const line of lines.split("\n")) {
      const [, name = "", value = ""] = /^([a-z]*): ?(.*)$/.exec(line) ?? [];
      fields.set(name, value);
    }
    const sent = fields.get("id");
    if (sent !== undefined) id = Number(sent);
    return fields;
  };
  const next = async (): Promise<ReadEvent | undefined> => {
    // Signs of life do not extend the wait for an event.
    const end = performance.now() + DEADLINE_MS;
    for (;;) {
      const found = await block(end);
      if (found === undefined) return undefined;
      const fields = fieldsOf(found);
      const data = fields.get("data");
      if (data === undefined) continue;
      return { id, kind: fields.get("event") ?? "", data: JSON.parse(data) as JsonObject };
    }
  };
  return {
    response,
    get id() {
      return id;
    },
    next,
    async until(last) {
      const events: ReadEvent[] = [];
      for (;;) {
        const event = await next();
        if (event === undefined) {
          throw new Error(`The stream ended after ${JSON.stringify(events.at(-1) ?? null)}`);
        }
        events.push(event);
        if (last(event)) return events;
      }
    },
    async begun() {
      const first = await block(performance.now() + DEADLINE_MS);
      if (first !== undefined) fieldsOf(first);
    },
    async [Symbol.asyncDispose]() {
      gone.abort();
      await reader?.cancel().catch(() => {});
    },
  };
}

async function within<T>(
  end: number,
  promise: Promise<T> | undefined,
): Promise<T | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new Error("No event came in time")),
          end - performance.now(),
        );
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}
