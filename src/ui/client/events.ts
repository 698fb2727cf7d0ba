// The event stream of a page. The page reads its lists once the stream is open, then applies events. After a broken
// connection the browser reconnects with the id of the last event, so none is lost or repeated. If the agent no
// longer has the events since then, the page reads its lists again.
//
// Only a few tabs have a stream at the same time: a browser opens six connections to a host, and one more tab would
// wait forever. Each stream holds a browser lock. The tab that the user turns to takes one, if necessary from the
// tab that was unused for the longest time. That one continues when the user turns to it, or when another tab is
// closed.

import { signal } from "@preact/signals";
import { isFinal, loadSession, refusalOf, wordsOf } from "./client.ts";
import type { Schemas } from "./schema.ts";

/** The state of the page's stream: `paused` while other tabs use all streams, `refused` when trying again is useless. */
export const connection = signal<"opening" | "live" | "reconnecting" | "paused" | "refused">(
  "opening",
);
/** Why the stream is refused. */
export const refusedWords = signal("");

/** The event handlers of a page. */
export interface EventHandlers {
  /** Reads all lists: at the start, and after missed events. */
  readonly load: () => void;
  /** The payload of a `job` event. */
  readonly job?: (event: JobEvent) => void;
  /** The payload of a `log` event. */
  readonly log?: (event: LogEvent) => void;
  /** A job of a machine started or ended: the machine must be read again. */
  readonly machine?: () => void;
  /** The payload of a `media` event. */
  readonly media?: (event: MediaEvent) => void;
  /** A sync of the index began or ended. */
  readonly index?: () => void;
  /** A sync is in progress: its state can be read again. */
  readonly syncing?: () => void;
  /** The agent is draining, or has reloaded its settings. */
  readonly host?: () => void;
}

/** The payload of a `job` event. @see the schema `JobEvent` of the description */
export interface JobEvent {
  readonly job_uuid: string;
  /** Null when the job was removed. */
  readonly job: Schemas["JobSummary"] | null;
}

/** The payload of a `log` event. @see the schema `LogEvent` of the description */
interface LogEvent {
  readonly sequence: number;
  /** Null when it is too large for an event. */
  readonly line: Schemas["LogLine"] | null;
}

/** The payload of a `media` event. @see the schema `MediaEvent` of the description */
export interface MediaEvent {
  /** `added`, `removed`, or the state of a download or an upload. */
  readonly change: string;
  readonly name: string;
  /** Size of the whole file, bytes; null when unknown. */
  readonly size: number | null;
  /** Bytes that have arrived. */
  readonly done?: number | null;
}

/** Milliseconds before a stream that the agent refused is opened again. */
const REOPEN_MS = 2_000;

/** Follows events until the returned function is called. @param query selects the events, such as `kind=job` */
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
  const open = () => {
    const after = lastId === "" ? "" : `&last_event_id=${encodeURIComponent(lastId)}`;
    const path = `/agent/v1/events?${query}${after}`;
    const opened = source = new EventSource(path);
    source.addEventListener("open", () => {
      connection.value = "live";
      // Without an id the stream starts now, so everything before must be read.
      if (!loaded || lastId === "") load();
    });
    source.addEventListener("error", () => {
      connection.value = "reconnecting";
      if (source?.readyState !== EventSource.CLOSED || ended) return;
      // The stream was refused rather than cut. The lists can still be read, or show why not.
      if (!loaded) load();
      // The stream itself does not say why, so ask once with a plain request.
      void refusalOf(path).then((refusal) => {
        if (ended || source !== opened) return;
        if (isFinal(refusal)) return showRefusal(refusal);
        timer = setTimeout(() => loadSession().then(reopen, reopen), REOPEN_MS);
      });
    });
    takers(handlers, load).forEach(([kind, take]) => {
      source?.addEventListener(kind, (event: MessageEvent<string>) => {
        lastId = event.lastEventId;
        // The agent's description guarantees the type.
        take(JSON.parse(event.data) as never);
      });
    });
  };
  const reopen = () => {
    if (!ended && source !== undefined) open();
  };
  const pause = () => {
    clearTimeout(timer);
    source?.close();
    source = undefined;
    connection.value = "paused";
    // A page that never got a stream shows at least the present state.
    if (!loaded) load();
  };
  connection.value = "opening";
  const leave = takePart(open, pause);
  return () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
    leave();
  };
}

function showRefusal(refusal: unknown): void {
  refusedWords.value = wordsOf(refusal);
  connection.value = "refused";
}

/** The handler for the payload of each kind of event. */
function takers(
  { job, log, machine, media, index, syncing, host }: EventHandlers,
  load: () => void,
): readonly (readonly [kind: string, take: (payload: never) => void])[] {
  const indexTaker = ({ change }: { readonly change: string }) =>
    change === "syncing" ? syncing?.() : index?.();
  const of = { reset: load, job, log, machine, media, host, index: index && indexTaker };
  return Object.entries(of).flatMap(([kind, take]) => take === undefined ? [] : [[kind, take]]);
}

/** The locks. There are fewer than connections, since requests and an upload need some. */
const LOCKS = [1, 2, 3, 4].map((number) => `zonewright-stream ${number}`);
/** Milliseconds for which a tab that must stay live counts as just used. */
const KEPT_MS = 86_400_000;

/** Callbacks for a page when its tab may have a stream, and when it no longer may. */
interface Part {
  readonly onGiven: () => void;
  readonly onTaken: () => void;
}

const parts = new Set<Part>();
/** Undefined until the tab first asks for a stream. */
let turn: "asked" | "given" | "taken" | undefined;
/** The lock that the tab has. */
let held: string | undefined;
/** Ends the wait for the next lock that becomes free. */
let waiting = new AbortController();
let kept = false;

/** Calls back when the tab may have a stream, and when it no longer may. @returns ends this */
function takePart(onGiven: () => void, onTaken: () => void): () => void {
  const part = { onGiven, onTaken };
  parts.add(part);
  if (turn === undefined) askFirst();
  else if (turn === "given") onGiven();
  else if (turn === "taken") onTaken();
  return () => void parts.delete(part);
}

/** Keeps the tab live in the background, for a user who waits for what it will report. */
export function keepLive(on: boolean): void {
  kept = on;
  noteTurn();
}

function askFirst(): void {
  turn = "asked";
  // Over HTTP/2 one connection carries all streams, so no locks are needed. Browsers have locks only at trusted
  // addresses.
  if (!("locks" in navigator) || isMultiplexed()) return give();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) turnTo();
  });
  for (const kind of ["focus", "pointerdown", "keydown"]) addEventListener(kind, turnTo, true);
  void freeLock().then((free) => {
    // A tab that was opened in the background takes no stream from others.
    if (free === undefined && document.hidden) lose();
    else void hold(free ?? oldestLock());
  });
}

function isMultiplexed(): boolean {
  const [entry] = performance.getEntriesByType("navigation");
  return entry !== undefined && "nextHopProtocol" in entry && entry.nextHopProtocol === "h2";
}

/** The user has turned to this tab, or acts in it. */
function turnTo(): void {
  if (turn === "given") return noteTurn();
  if (turn !== "taken") return;
  turn = "asked";
  void freeLock().then((free) => hold(free ?? oldestLock()));
}

async function freeLock(): Promise<string | undefined> {
  const { held: taken = [] } = await navigator.locks.query();
  return LOCKS.find((name) => !taken.some((lock) => lock.name === name));
}

/** The lock of the tab that was unused for the longest time. */
function oldestLock(): string {
  const at = (name: string) => Number(localStorage.getItem(name) ?? 0);
  return LOCKS.reduce((oldest, name) => at(name) < at(oldest) ? name : oldest);
}

function noteTurn(): void {
  if (held === undefined) return;
  const atMs = performance.timeOrigin + performance.now();
  localStorage.setItem(held, String(atMs + (kept ? KEPT_MS : 0)));
}

/**
 * Holds a lock until another tab takes it or the page ends.
 * @param wait waits until it is free, unless this signal fires
 */
async function hold(name: string, wait?: AbortSignal): Promise<void> {
  let had = false;
  const options = wait === undefined ? { steal: true } : { signal: wait };
  try {
    await navigator.locks.request(name, options, () => {
      // Another lock became free first.
      if (held !== undefined) return;
      had = true;
      held = name;
      waiting.abort();
      noteTurn();
      give();
      return new Promise(() => {});
    });
  } catch {
    // Another tab has taken it, or the wait was ended.
    if (!had) return;
    held = undefined;
    lose();
  }
}

function give(): void {
  turn = "given";
  for (const { onGiven } of parts) onGiven();
}

function lose(): void {
  turn = "taken";
  for (const { onTaken } of parts) onTaken();
  waiting = new AbortController();
  for (const name of LOCKS) void hold(name, waiting.signal);
}
