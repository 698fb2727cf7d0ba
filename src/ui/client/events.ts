// The event stream of a page. The page reads its lists once the stream is open, then applies events. After a
// broken connection the browser reconnects with the id of the last event, so none is lost or repeated. If the
// agent no longer has the events since then, the page reads its lists again.

import { signal } from "@preact/signals";
import { loadSession } from "./client.ts";
import type { Schemas } from "./schema.ts";

/** Whether the page is live. */
export const connection = signal<"opening" | "live" | "reconnecting">("opening");

/** The event handlers of a page. */
export interface EventHandlers {
  /** Reads everything: at the start, and when events were missed. */
  readonly load: () => void;
  /** The payload of a `job` event. */
  readonly job?: (event: JobEvent) => void;
  /** The payload of a `log` event. */
  readonly log?: (event: LogEvent) => void;
  /** A job of a machine began or ended, so the machine has to be read again. */
  readonly machine?: () => void;
  /** The payload of a `media` event. */
  readonly media?: (event: MediaEvent) => void;
  /** A sync of the index began or ended. */
  readonly index?: () => void;
  /** A sync goes on: the agent says how far it is. */
  readonly syncing?: () => void;
  /** The agent is draining, or has reloaded its settings. */
  readonly host?: () => void;
}

/** An event of a job. @see the schema `JobEvent` of the description */
export interface JobEvent {
  readonly job_uuid: string;
  /** Null once it is removed. */
  readonly job: Schemas["JobSummary"] | null;
}

/** An event of a line of a job's log. @see the schema `LogEvent` of the description */
interface LogEvent {
  readonly sequence: number;
  /** Null when it is too large for an event. */
  readonly line: Schemas["LogLine"] | null;
}

/** An event of a file of the library. @see the schema `MediaEvent` of the description */
export interface MediaEvent {
  /** `added`, `removed`, or how a download or an upload is. */
  readonly change: string;
  readonly name: string;
  /** Bytes of the whole; null where nobody has said. */
  readonly size: number | null;
  /** Bytes that have come so far. */
  readonly done?: number | null;
}

/** Milliseconds before a stream that the agent refused is opened again. */
const REOPEN_MS = 2_000;

/**
 * Follows events until the returned function is called.
 * @param query which events, such as `kind=job`
 */
export function follow(query: string, handlers: EventHandlers): () => void {
  let source: EventSource | undefined;
  let timer: number | undefined;
  let ended = false;
  let lastId = "";
  let loaded = false;
  const load = () => {
    loaded = true;
    handlers.load();
  };
  const handle = (kind: string, take: (payload: never) => void) => {
    source?.addEventListener(kind, (event: MessageEvent<string>) => {
      lastId = event.lastEventId;
      // The agent's description says what it is.
      take(JSON.parse(event.data) as never);
    });
  };
  const open = () => {
    const after = lastId === "" ? "" : `&last_event_id=${encodeURIComponent(lastId)}`;
    source = new EventSource(`/agent/v1/events?${query}${after}`);
    source.addEventListener("open", () => {
      connection.value = "live";
      // Without an id the stream begins now: what was before is read.
      if (!loaded || lastId === "") load();
    });
    source.addEventListener("error", () => {
      connection.value = "reconnecting";
      if (source?.readyState !== EventSource.CLOSED || ended) return;
      // Refused rather than cut. A page without its lists shows them, or why not.
      if (!loaded) load();
      timer = setTimeout(() => loadSession().then(reopen, reopen), REOPEN_MS);
    });
    handle("reset", load);
    if (handlers.job !== undefined) handle("job", handlers.job);
    if (handlers.log !== undefined) handle("log", handlers.log);
    if (handlers.machine !== undefined) handle("machine", handlers.machine);
    if (handlers.media !== undefined) handle("media", handlers.media);
    if (handlers.index !== undefined) {
      handle("index", ({ change }: { readonly change: string }) => {
        if (change === "syncing") handlers.syncing?.();
        else handlers.index?.();
      });
    }
    if (handlers.host !== undefined) handle("host", handlers.host);
  };
  const reopen = () => {
    if (!ended) open();
  };
  connection.value = "opening";
  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
  };
}
