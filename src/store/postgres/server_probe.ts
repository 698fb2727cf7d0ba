// Whether the server answers. After a call that got no answer in time, the server is probed on a session of its own.
// While the probe gets no answer either, the database counts as away: every call is refused immediately instead of
// waiting for its deadline, and only the probe is repeated.

import { awayReason, cannotReach } from "./errors.ts";
import { openSession, type ServerOptions } from "./server.ts";

/** Milliseconds between two probes. */
const PAUSE_MS = 500;
/** A probe must be answered within the deadline divided by this. */
const PROBE_SHARE = 2;

interface ProbeOptions {
  /** Called when the server answers again. */
  readonly returned: () => void;
  /** Whether the store is still open; a closed store stops probing. */
  readonly open: () => boolean;
}

/** What one agent knows about whether its server answers. */
export class ServerProbe {
  readonly #server: ServerOptions;
  readonly #options: ProbeOptions;
  /** Why the server is away; undefined while it answers. */
  #reason: string | undefined;
  #heardAtMs = performance.now();
  #probing: Promise<void> | undefined;

  constructor(server: ServerOptions, options: ProbeOptions) {
    this.#server = server;
    this.#options = options;
  }

  get away(): boolean {
    return this.#reason !== undefined;
  }

  /** Milliseconds since the server last answered. */
  get silentMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  /** @throws {AgentError} `overloaded` while the server is away */
  require(): void {
    if (this.#reason !== undefined) throw cannotReach(this.#reason);
  }

  /** Notes that the server has answered. */
  heard(): void {
    this.#heardAtMs = performance.now();
  }

  /** Starts to probe the server after a call that was not answered in time. */
  missed(): void {
    this.#probing ??= this.#probeUntilHeard().finally(() => this.#probing = undefined);
  }

  /** Settles when probing has stopped. Call it once the store is closed. */
  async ended(): Promise<void> {
    await this.#probing;
  }

  async #probeUntilHeard(): Promise<void> {
    while (this.#options.open()) {
      try {
        await this.#probe();
        this.heard();
        const wasAway = this.away;
        this.#reason = undefined;
        if (wasAway) this.#options.returned();
        return;
      } catch (error) {
        this.#reason = awayReason(error);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async #probe(): Promise<void> {
    const ms = this.#server.deadlineMs / PROBE_SHARE;
    const session = await openSession(this.#server, ms);
    const timer = setTimeout(() => session.destroy(), ms);
    try {
      await session.script("SELECT 1");
    } finally {
      clearTimeout(timer);
      session.destroy();
    }
  }
}
