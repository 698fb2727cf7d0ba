// Whether the server answers. After a call that was not answered in time the server is asked by a session of its own;
// while that is not answered either, it counts as away: calls are refused at once, so that nobody waits for each of
// them, and only the question is repeated.

import { messageOf } from "../../domain/error.ts";
import { openSession, overloaded, type ServerOptions } from "./server.ts";

/** Milliseconds between two questions. */
const PAUSE_MS = 500;
/** The part of the deadline within which a question must be answered. */
const ASK_SHARE = 2;

/** Who hears of it. */
interface ReachOptions {
  /** Called when the server answers again. */
  readonly returned: () => void;
  /** Whether the store is still open: no question is put otherwise. */
  readonly open: () => boolean;
}

/** The knowledge of one agent about its server. */
export class ServerReach {
  readonly #server: ServerOptions;
  readonly #options: ReachOptions;
  #reason: string | undefined;
  #heardAtMs = performance.now();
  #asking: Promise<void> | undefined;

  constructor(server: ServerOptions, options: ReachOptions) {
    this.#server = server;
    this.#options = options;
  }

  /** Whether the server is away. */
  get away(): boolean {
    return this.#reason !== undefined;
  }

  /** Milliseconds since the server last answered. */
  get silentMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  /** @throws {AgentError} `overloaded` while the server is away */
  require(): void {
    if (this.#reason !== undefined) {
      throw overloaded(`Cannot reach the database: ${this.#reason}`);
    }
  }

  /** The server has answered. */
  heard(): void {
    this.#heardAtMs = performance.now();
  }

  /** A call was not answered in time. */
  missed(): void {
    this.#asking ??= this.#askUntilHeard().finally(() => this.#asking = undefined);
  }

  /** Settles when no question is under way; ask for it once the store is closed. */
  async ended(): Promise<void> {
    await this.#asking;
  }

  async #askUntilHeard(): Promise<void> {
    while (this.#options.open()) {
      try {
        await this.#ask();
        this.heard();
        const wasAway = this.away;
        this.#reason = undefined;
        if (wasAway) this.#options.returned();
        return;
      } catch (error) {
        this.#reason = messageOf(error);
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
  async #ask(): Promise<void> {
    const ms = this.#server.deadlineMs / ASK_SHARE;
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
