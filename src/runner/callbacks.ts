// Posts each finished job to its callback_url, with retries for about a day. Pending callbacks are rows, so a crash of
// the agent loses none. A receiver may get a callback twice, but never misses one.

import { AgentError, messageOf } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import { jobOnWire, type Wording } from "../domain/job/wire.ts";
import { leadsToNamed } from "../domain/ip_address.ts";
import type { Log } from "../metrics/log.ts";
import { Notifier } from "../runtime/notifier.ts";
import type { MemoryBudget, Reservation } from "../domain/memory_budget.ts";
import type { DueCallback, Store } from "../store/store.ts";
import { LOOK_MS_MAX } from "./next_jobs.ts";

/** Attempts that run at the same time, in all and to one host. */
const TOGETHER_MAX = 8;
const OF_A_HOST_MAX = 2;
/** Milliseconds for a receiver to answer. */
const DEADLINE_MS = 10_000;
/** Milliseconds for which a taken callback belongs to the agent that took it: longer than any attempt. */
const TAKEN_MS = 60_000;
/** Milliseconds before the second attempt; doubled before each further one. */
const AGAIN_FIRST_MS = 1_000;
const AGAIN_LONGEST_MS = 3_600_000;
/** Attempts in all, which take about a day. */
const ATTEMPTS_MAX = 36;
/** Characters from which a body waits for memory. */
const LARGE_CHARS_MIN = 64 * 1024;
/** Bytes per character of a body: its text and its encoding. */
const CHAR_BYTES = 4;

interface CallbackOptions {
  readonly store: Store;
  /** The receivers that the settings allow now: a host that is no longer allowed gets no call. */
  readonly hosts: readonly string[];
  readonly wording: Wording;
  readonly fetch: typeof fetch;
  readonly userAgent: string;
  readonly now: Now;
  readonly log: Log;
  /** The budget for large bodies. */
  readonly budget: MemoryBudget;
}

/** A callback that is ready to send. Only the text of its job is kept. */
interface Ready {
  readonly job_uuid: JobUuid;
  readonly url: string;
  readonly attempts: number;
  readonly body: string;
  readonly held: Reservation | undefined;
}

/** Sends callbacks of jobs that have ended. */
export interface Callbacks {
  /** Hints that a job may have ended. */
  wake(): void;
  /** Aborts the current attempts; the next agent repeats them. */
  stop(): Promise<void>;
}

/** Starts sending callbacks, including those left by an earlier agent. */
export function openCallbacks(options: CallbackOptions): Callbacks {
  const loop = new CallbackLoop(options);
  return { wake: () => loop.notifier.notify(), stop: () => loop.stop() };
}

class CallbackLoop {
  readonly notifier = new Notifier();
  readonly #options: CallbackOptions;
  readonly #stopping = new AbortController();
  readonly #loop: Promise<void>;
  /** Attempts that are running, with their hosts. */
  readonly #attempts = new Map<Promise<void>, string>();

  constructor(options: CallbackOptions) {
    this.#options = options;
    this.#loop = this.#sendUntilStopped();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#loop;
    await Promise.all(this.#attempts.keys());
  }

  async #sendUntilStopped(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      let waitMs = LOOK_MS_MAX;
      try {
        waitMs = await this.#sendDue();
      } catch (error) {
        this.#options.log.error("callbacks not sent", { error });
      }
      if (waitMs > 0) await this.notifier.wait(waitMs, signal);
    }
  }

  /** Starts an attempt that is due. @returns milliseconds until the next check */
  async #sendDue(): Promise<number> {
    const { store } = this.#options;
    const free = TOGETHER_MAX - this.#attempts.size;
    if (free <= 0) return LOOK_MS_MAX;
    const busy = this.#busyHosts();
    const due = await store.callbacks.nextDue(busy);
    if (due.kind === "none") return LOOK_MS_MAX;
    if (due.kind === "in") return Math.min(due.ms, LOOK_MS_MAX);
    // One at a time, so that each counts against its host's limit before the next is taken.
    for (const callback of await store.callbacks.take(TAKEN_MS, 1, busy)) {
      const ready = await this.#ready(callback);
      if (ready !== undefined) this.#begin(ready);
    }
    return 0;
  }

  /**
   * Makes the body once there is memory for it. It will be free, because other attempts end within their deadlines.
   * @returns undefined when the agent stops first
   */
  async #ready({ job, url, attempts }: DueCallback): Promise<Ready | undefined> {
    const { store, wording, now, budget } = this.#options;
    const { signal } = this.#stopping;
    const host = (await store.jobs.summary(job.uuid))?.host ?? undefined;
    const ready = {
      job_uuid: job.uuid,
      url,
      attempts,
      body: JSON.stringify(jobOnWire(job, wording, now(), host)),
    };
    const { length } = ready.body;
    if (length < LARGE_CHARS_MIN) return { ...ready, held: undefined };
    const turn = { turnMs: Number.POSITIVE_INFINITY, signal };
    try {
      const bytes = CHAR_BYTES * length;
      return { ...ready, held: await budget.reserve("callbacks", bytes, "call back", turn) };
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
  }

  #begin(callback: Ready): void {
    const { log } = this.#options;
    const attempt = send(callback, this.#options, this.#stopping.signal)
      .catch((error: unknown) => log.error("callback not recorded", { error }))
      .finally(() => {
        callback.held?.release();
        this.#attempts.delete(attempt);
        this.notifier.notify();
      });
    this.#attempts.set(attempt, new URL(callback.url).host);
  }

  /**
   * Hosts at their limit of attempts. They are skipped, so that a silent host does not block the callbacks of others.
   */
  #busyHosts(): string[] {
    const hosts = [...this.#attempts.values()];
    return [...new Set(hosts)].filter((host) =>
      hosts.filter((other) => other === host).length >= OF_A_HOST_MAX
    );
  }
}

async function send(
  callback: Ready,
  options: CallbackOptions,
  signal: AbortSignal,
): Promise<void> {
  const { store, log } = options;
  const { job_uuid, attempts } = callback;
  try {
    await post(callback, options, signal);
  } catch (error) {
    // The next agent repeats an attempt that stopping this agent interrupted.
    if (signal.aborted) return;
    const reason = reasonOf(error, new URL(callback.url));
    if (attempts + 1 >= ATTEMPTS_MAX || isFinalRefusal(error)) {
      log.error("callback given up", { job_uuid, attempts: attempts + 1, reason });
      return await store.callbacks.done(job_uuid);
    }
    log.warn("callback failed", { job_uuid, attempts: attempts + 1, reason });
    const waitMs = Math.min(AGAIN_FIRST_MS * 2 ** attempts, AGAIN_LONGEST_MS);
    return await store.callbacks.postpone(job_uuid, waitMs);
  }
  log.info("callback sent", { job_uuid, attempts: attempts + 1 });
  await store.callbacks.done(job_uuid);
}

async function post(
  { url, body }: Ready,
  { hosts, fetch, userAgent }: CallbackOptions,
  signal: AbortSignal,
): Promise<void> {
  const address = new URL(url);
  if (!leadsToNamed(address, hosts)) {
    throw new AgentError(
      "forbidden",
      `Cannot call back to ${address.host}: its host is not allowed (setting callback_host)`,
    );
  }
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "user-agent": userAgent },
    body,
    // The settings allow the callback's host, not the target of a redirect.
    redirect: "manual",
    signal: AbortSignal.any([signal, AbortSignal.timeout(DEADLINE_MS)]),
  });
  await response.body?.cancel();
  if (response.status < 200 || response.status > 299) {
    throw new AgentError(
      "upstream",
      `Cannot call back to ${address.host}: it answered ${response.status}, expected 200 to 299`,
    );
  }
}

/** Why an attempt failed. It names only the receiver's host, since the address may hold a token. */
function reasonOf(error: unknown, { href, host }: URL): string {
  return messageOf(error).replaceAll(href, host);
}

/** Whether retrying is useless: a forbidden host does not become allowed by waiting. */
function isFinalRefusal(error: unknown): boolean {
  return error instanceof AgentError && error.code === "forbidden";
}
