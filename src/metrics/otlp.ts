// Sends spans and figures to a collector, by OTLP over HTTP. Nothing of the agent waits for it: what a
// collector does not take in time is kept up to a bound, then dropped and told of.

import { messageOf } from "../domain/error.ts";
import type { Family } from "./exposition.ts";
import { metricsDocument, type Origin, type Span, tracesDocument } from "./otlp_document.ts";

/** What an exporter works with. */
export interface OtlpOptions extends Origin {
  /** Address of the collector, to which `/v1/traces` and `/v1/metrics` are added. */
  readonly endpoint: string;
  /** What the collector wants besides, such as a token. */
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: typeof fetch;
  /** Figures at that moment. */
  readonly figures: () => Promise<readonly Family[]>;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly log: OtlpLog;
  /** Milliseconds from figures to figures; a minute unless given. */
  readonly figuresEveryMs?: number;
}

/** What it says of itself. */
export interface OtlpLog {
  info(message: string, fields: Record<string, unknown>): void;
  warn(message: string, fields: Record<string, unknown>): void;
}

/** An open exporter. */
export interface Otlp {
  /**
   * Takes what makes spans when they are sent: nobody reads a job while it has still work to do. Of
   * several about the same thing that wait, the last is sent.
   */
  add(spans: Maker, about?: unknown): void;
  /** Sends what is there, as far as the collector takes it soon, and ends. */
  stop(): Promise<void>;
}

/** Makes spans; called again when they have to be sent again. */
export type Maker = () => Promise<readonly Span[]> | readonly Span[];

/** Things to send that wait; further ones are dropped. */
export const WAITING_MAX = 4096;
/** Things that are sent together, and are not waited for when there are as many. */
const BATCH = 512;
/** Spans of one request: a job with many tasks is cut. */
const SPANS_MAX = 4096;
const SPANS_EVERY_MS = 5_000;
const FIGURES_EVERY_MS = 60_000;
const ANSWER_MS = 10_000;
/** Time for the last spans and figures when the agent ends. */
const LAST_MS = 2_000;
const AGAIN_LONGEST_MS = 60_000;
/** Answers after which the same may be sent again. @see OTLP specification, OTLP/HTTP Response */
const TRY_AGAIN: ReadonlySet<number> = new Set([429, 502, 503, 504]);

type Path = "/v1/traces" | "/v1/metrics";

/** Opens an exporter; its first figures follow a minute later. */
export function openOtlp(options: OtlpOptions): Otlp {
  return new Exporter(options);
}

class Exporter implements Otlp {
  readonly #options: OtlpOptions;
  readonly #startMs: number;
  readonly #ended = new AbortController();
  readonly #figuresTimer: ReturnType<typeof setInterval>;
  #waiting = new Map<unknown, Maker>();
  #dropped = 0;
  #spansTimer: ReturnType<typeof setTimeout> | undefined;
  #figuresDue = false;
  #sending: Promise<void> = Promise.resolve();
  #busy = false;
  #stopped = false;
  /** In a row. A collector of spans alone, or of figures alone, fails at the other for ever. */
  readonly #failures: Record<Path, number> = { "/v1/traces": 0, "/v1/metrics": 0 };

  constructor(options: OtlpOptions) {
    this.#options = options;
    this.#startMs = options.nowMs();
    this.#figuresTimer = setInterval(() => {
      if (!this.#figuresDue) this.#next(() => this.#sendFigures());
      this.#figuresDue = true;
    }, options.figuresEveryMs ?? FIGURES_EVERY_MS);
  }

  add(spans: Maker, about: unknown = spans): void {
    if (this.#stopped) return;
    if (this.#waiting.size >= WAITING_MAX && !this.#waiting.has(about)) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.set(about, spans);
    // A collector that does not answer is not asked more often because there is more to say.
    const sound = this.#failures["/v1/traces"] === 0 && !this.#busy;
    if (sound && this.#waiting.size >= BATCH) this.#next(() => this.#sendSpans());
    else this.#later();
  }

  async stop(): Promise<void> {
    if (this.#stopped) return await this.#sending;
    this.#stopped = true;
    clearTimeout(this.#spansTimer);
    clearInterval(this.#figuresTimer);
    const late = setTimeout(() => this.#ended.abort(), LAST_MS);
    this.#next(() => this.#sendSpans());
    this.#next(() => this.#sendFigures());
    await this.#sending;
    clearTimeout(late);
    this.#dropped += this.#waiting.size;
    this.#tellDropped();
  }

  #later(): void {
    const waitMs = Math.min(SPANS_EVERY_MS * 2 ** this.#failures["/v1/traces"], AGAIN_LONGEST_MS);
    this.#spansTimer ??= setTimeout(() => this.#next(() => this.#sendSpans()), waitMs);
  }

  /** One request at a time. What is sent never rejects. */
  #next(send: () => Promise<void>): void {
    this.#busy = true;
    const mine = this.#sending.then(send).then(() => {
      if (this.#sending === mine) this.#busy = false;
    });
    this.#sending = mine;
  }

  /** What comes while these are sent is for the next time: the figures have their turn too. */
  async #sendSpans(): Promise<void> {
    clearTimeout(this.#spansTimer);
    this.#spansTimer = undefined;
    for (let left = this.#waiting.size; left > 0 && !this.#ended.signal.aborted;) {
      const { batch, spans } = await this.#takeBatch();
      left -= batch.length;
      const done = spans.length === 0 ||
        await this.#post("/v1/traces", tracesDocument(spans, this.#options), spans.length);
      if (done) continue;
      this.#waiting = new Map([...batch, ...this.#waiting]);
      break;
    }
    if (this.#waiting.size > 0 && !this.#stopped) this.#later();
  }

  /** The first that wait, and their spans: one after the other, a job with its results may be large. */
  async #takeBatch(): Promise<{ batch: [unknown, Maker][]; spans: Span[] }> {
    const batch: [unknown, Maker][] = [];
    const spans: Span[] = [];
    for (const [about, make] of this.#waiting) {
      this.#waiting.delete(about);
      batch.push([about, make]);
      const made = await this.#made("spans", async () => await make());
      const room = SPANS_MAX - spans.length;
      this.#dropped += Math.max(0, (made?.length ?? 0) - room);
      spans.push(...made?.slice(0, room) ?? []);
      const full = batch.length >= BATCH || spans.length >= SPANS_MAX;
      if (full || this.#ended.signal.aborted) break;
    }
    return { batch, spans };
  }

  async #sendFigures(): Promise<void> {
    this.#figuresDue = false;
    const figures = await this.#made("figures", this.#options.figures);
    if (figures === undefined) return;
    const times = { startMs: this.#startMs, nowMs: this.#options.nowMs() };
    // They count from the start: what is not taken now is in the next.
    await this.#post("/v1/metrics", metricsDocument(figures, times, this.#options), 0);
  }

  /** What cannot be made now is left out: it must not keep the rest from being sent. */
  async #made<T>(what: string, make: () => Promise<T>): Promise<T | undefined> {
    try {
      return await make();
    } catch (error) {
      this.#options.log.warn(`${what} not made for the collector`, { error });
      return undefined;
    }
  }

  /** @returns false when the same may be sent again */
  async #post(path: Path, body: object, spans: number): Promise<boolean> {
    const { endpoint, headers, log } = this.#options;
    try {
      const answer = await this.#options.fetch(`${endpoint}${path}`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
        redirect: "manual",
        signal: AbortSignal.any([this.#ended.signal, AbortSignal.timeout(ANSWER_MS)]),
      });
      await answer.body?.cancel();
      if (answer.ok) {
        if (this.#failures[path] > 0) log.info("collector answers again", { endpoint, path });
        this.#failures[path] = 0;
        if (path === "/v1/traces") this.#tellDropped();
        return true;
      }
      this.#failed(path, `it answered ${answer.status}`);
      if (TRY_AGAIN.has(answer.status)) return false;
      this.#dropped += spans;
      return true;
    } catch (error) {
      this.#failed(path, messageOf(error));
      return false;
    }
  }

  /** The first of several failures is told. */
  #failed(path: Path, why: string): void {
    const { endpoint, log } = this.#options;
    if (this.#failures[path] === 0) log.warn("collector not reached", { endpoint, path, why });
    this.#failures[path] += 1;
  }

  /** Told when the collector takes spans again, or at the end: not for each. */
  #tellDropped(): void {
    const spans = this.#dropped;
    this.#dropped = 0;
    if (spans > 0) this.#options.log.warn("spans lost: the collector did not take them", { spans });
  }
}
