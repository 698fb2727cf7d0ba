// Sends spans and figures to a collector, by OTLP over HTTP. Nothing of the agent waits for it: what a
// collector does not take in time is kept up to a bound, then dropped and told of.

import { AgentError, messageOf } from "../domain/error.ts";
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
}

/** What it says of itself. */
export interface OtlpLog {
  info(message: string, fields: Record<string, unknown>): void;
  warn(message: string, fields: Record<string, unknown>): void;
}

/** An open exporter. */
export interface Otlp {
  /** Takes what makes spans when they are sent: nobody reads a job while it has still work to do. */
  add(spans: () => Promise<readonly Span[]> | readonly Span[]): void;
  /** Sends what is there, as far as the collector takes it soon, and ends. */
  stop(): Promise<void>;
}

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

type Maker = Parameters<Otlp["add"]>[0];

/** Opens an exporter; its first figures follow a minute later. */
export function openOtlp(options: OtlpOptions): Otlp {
  return new Exporter(options);
}

class Exporter implements Otlp {
  readonly #options: OtlpOptions;
  readonly #startMs: number;
  readonly #ended = new AbortController();
  readonly #figuresTimer: ReturnType<typeof setInterval>;
  #waiting: Maker[] = [];
  #dropped = 0;
  #spansTimer: ReturnType<typeof setTimeout> | undefined;
  #sending: Promise<void> = Promise.resolve();
  #busy = false;
  #stopped = false;
  /** Failures in a row. */
  #failures = 0;

  constructor(options: OtlpOptions) {
    this.#options = options;
    this.#startMs = options.nowMs();
    this.#figuresTimer = setInterval(() => this.#next(() => this.#sendFigures()), FIGURES_EVERY_MS);
  }

  add(spans: Maker): void {
    if (this.#stopped) return;
    if (this.#waiting.length >= WAITING_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(spans);
    // A collector that does not answer is not asked more often because there is more to say.
    const full = this.#waiting.length >= BATCH && this.#failures === 0 && !this.#busy;
    if (full) this.#next(() => this.#sendSpans());
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
    const lost = this.#waiting.length + this.#dropped;
    if (lost > 0) this.#tellDropped(lost);
  }

  #later(): void {
    const waitMs = Math.min(SPANS_EVERY_MS * 2 ** this.#failures, AGAIN_LONGEST_MS);
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

  async #sendSpans(): Promise<void> {
    clearTimeout(this.#spansTimer);
    this.#spansTimer = undefined;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      const taken = await this.#post("/v1/traces", async () => {
        const spans = (await Promise.all(batch.map((make) => make()))).flat();
        if (spans.length > SPANS_MAX) this.#dropped += spans.length - SPANS_MAX;
        return spans.length === 0
          ? undefined
          : tracesDocument(spans.slice(0, SPANS_MAX), this.#options);
      });
      if (!taken) {
        this.#waiting = [...batch, ...this.#waiting];
        if (!this.#stopped) this.#later();
        return;
      }
    }
    if (this.#dropped > 0) this.#tellDropped(this.#dropped);
    this.#dropped = 0;
  }

  async #sendFigures(): Promise<void> {
    // They count from the start: what is not taken now is in the next.
    await this.#post("/v1/metrics", async () => {
      const times = { startMs: this.#startMs, nowMs: this.#options.nowMs() };
      return metricsDocument(await this.#options.figures(), times, this.#options);
    });
  }

  /** @returns false when the same may be sent again */
  async #post(path: string, document: () => Promise<object | undefined>): Promise<boolean> {
    const { endpoint, headers, log } = this.#options;
    try {
      const body = await document();
      if (body === undefined) return true;
      const answer = await this.#options.fetch(`${endpoint}${path}`, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
        redirect: "manual",
        signal: AbortSignal.any([this.#ended.signal, AbortSignal.timeout(ANSWER_MS)]),
      });
      await answer.body?.cancel();
      if (answer.ok) {
        if (this.#failures > 0) log.info("collector answers again", { endpoint });
        this.#failures = 0;
        return true;
      }
      this.#failed(path, `it answered ${answer.status}`);
      return !TRY_AGAIN.has(answer.status);
    } catch (error) {
      this.#failed(path, messageOf(error));
      // A defect of the agent would come again with the same spans.
      return error instanceof AgentError;
    }
  }

  /** The first of several failures is told. */
  #failed(path: string, why: string): void {
    const { endpoint, log } = this.#options;
    if (this.#failures === 0) log.warn("collector not reached", { endpoint, path, why });
    this.#failures += 1;
  }

  #tellDropped(spans: number): void {
    this.#options.log.warn("spans lost: the collector did not take them in time", { spans });
  }
}
