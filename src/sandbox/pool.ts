// The pool of guests: as many as there are slots and one spare, started before they are needed. A
// guest that ends, for whatever reason, is replaced at once, so that a killed task costs its slot
// nothing but the kill. Guests find the pool at a unix socket in a folder that only they may enter.

import { AgentError } from "../domain/error.ts";
import type { SelfCommand } from "../executable.ts";
import type { Log } from "../log.ts";
import {
  findGuestTools,
  type GuestCommand,
  guestCommand,
  type GuestUser,
} from "./guest_command.ts";
import { openWords } from "./guest_checks.ts";
import { type GuestDoor, openGuestDoor } from "./guest_door.ts";
import { type GuestListener, GuestProcess } from "./guest_process.ts";
import { GuestQueue } from "./guest_queue.ts";
import { IdleRenewal } from "./idle_renewal.ts";
import { MemoryWatch } from "./memory_watch.ts";
import { openSourceCheck, type SourceCheck } from "./source_check.ts";
import { DEFAULT_TASK_LIMITS, type TaskLimits } from "./task_limits.ts";

/** What a pool is made from. */
export interface PoolOptions {
  /** How to start this program again. */
  readonly self: SelfCommand;
  /** Executions at the same time. */
  readonly slots: number;
  /** Folder for the socket; the system's temporary folder is used when its path is too long. */
  readonly runtimeDir: string;
  readonly log: Log;
  /**
   * The user that guests run as; the agent's own when absent. From source the other user must be
   * able to read the program and DENO_DIR.
   */
  readonly user?: GuestUser;
  /** What tasks may return, change and say; DEFAULT_TASK_LIMITS unless given. */
  readonly limits?: TaskLimits;
  /** Executions after which a guest is replaced. */
  readonly runsPerGuestMax?: number;
  /** Time without a task after which used guests are replaced one by one, milliseconds. */
  readonly renewAfterMs?: number;
}

/** Guests, lent out one execution at a time. */
export interface GuestPool {
  /**
   * A guest of one's own until `release`. Waits while all are busy or being started.
   * @throws {AgentError} `aborted`; `internal` naming the cause when guests cannot be started
   */
  acquire(signal: AbortSignal): Promise<GuestProcess>;
  /** What holds for every task. */
  readonly limits: TaskLimits;
  /** What keeps a source from being run, or undefined. */
  readonly checkSource: SourceCheck;
  /** Takes a guest back; one that is no longer alive is replaced. */
  release(guest: GuestProcess): void;
  /** Process ids of all guests. */
  pids(): number[];
  /** Kills every guest and waits until all are gone. */
  close(): Promise<void>;
}

/** A start costs as much as a hundred executions. */
const RUNS_PER_GUEST_MAX = 5000;
/** Time for a new guest to report that it is ready, milliseconds. */
const START_DEADLINE_MS = 30_000;
const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 10_000;
/** Failed starts in a row after which waiting tasks are told instead of kept waiting. */
const START_FAILURES_MAX = 3;

/**
 * Opens a pool; its guests start in the background, and the first tasks wait for them.
 * @throws {AgentError} `invalid_argument` when another user is wanted but the agent is not root
 */
export async function openPool(options: PoolOptions): Promise<GuestPool> {
  const root = Deno.uid() === 0;
  const { tools, missing } = await findGuestTools({ os: Deno.build.os, root });
  if (missing.length > 0) {
    options.log.warn("guests run without some limits of the system", {
      missing: missing.join(" "),
    });
  }
  const { self, slots, user, limits = DEFAULT_TASK_LIMITS } = options;
  const place = { tools, root, slots, limits };
  const command = guestCommand(self, user === undefined ? place : { ...place, user });
  const memory = new MemoryWatch(tools.cat, options.log);
  const pool = new Pool(options, command, await openGuestDoor(options), memory);
  pool.fill();
  return pool;
}

class Pool implements GuestPool {
  readonly checkSource = openSourceCheck();
  readonly limits: TaskLimits;
  readonly #guests = new Set<GuestProcess>();
  readonly #unreaped = new Set<Promise<void>>();
  readonly #idle: GuestProcess[] = [];
  readonly #waiting = new GuestQueue();
  readonly #options: PoolOptions;
  readonly #command: GuestCommand;
  readonly #door: GuestDoor;
  readonly #memory: MemoryWatch;
  readonly #renewal: IdleRenewal;
  #startFailures = 0;
  #backoff: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(options: PoolOptions, command: GuestCommand, door: GuestDoor, memory: MemoryWatch) {
    this.#options = options;
    this.limits = command.limits;
    this.#command = command;
    this.#door = door;
    this.#memory = memory;
    this.#renewal = new IdleRenewal(this.#idle, options.renewAfterMs);
  }

  /** Starts as many guests as are missing, unless a failed start is being waited out. */
  fill(): void {
    if (this.#closed || this.#backoff !== undefined) return;
    // A start that fails at once sets the backoff.
    while (this.#backoff === undefined && this.#guests.size < this.#options.slots + 1) {
      this.#start();
    }
  }

  async acquire(signal: AbortSignal): Promise<GuestProcess> {
    if (this.#closed) throw closedError();
    this.#renewal.busy();
    const idle = signal.aborted ? undefined : this.#idle.pop();
    const guest = idle ?? await this.#waiting.wait(signal);
    this.#memory.enter(guest);
    return guest;
  }

  release(guest: GuestProcess): void {
    const { runsPerGuestMax = RUNS_PER_GUEST_MAX } = this.#options;
    this.#memory.leave(guest);
    if (!guest.alive) return this.#gone(guest);
    if (guest.runs < runsPerGuestMax) return this.#offer(guest);
    guest.listen(this.#idleListener(guest));
    guest.kill("was replaced after its share of executions");
  }

  pids(): number[] {
    return [...this.#guests].map((guest) => guest.pid);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#backoff);
    this.#memory.close();
    this.#renewal.close();
    this.#waiting.refuse(closedError());
    for (const guest of this.#guests) guest.kill("was ended with its pool");
    await this.#door.close();
    await Promise.all(this.#unreaped);
  }

  #offer(guest: GuestProcess): void {
    guest.listen(this.#idleListener(guest));
    if (this.#waiting.give(guest)) return;
    this.#idle.push(guest);
    this.#renewal.rest();
  }

  /** An idle guest has nothing to say; one that ends is replaced. */
  #idleListener(guest: GuestProcess): GuestListener {
    return {
      message: () => guest.kill("spoke out of turn"),
      lost: () => this.#gone(guest),
    };
  }

  #gone(guest: GuestProcess): void {
    this.#guests.delete(guest);
    const at = this.#idle.indexOf(guest);
    if (at !== -1) this.#idle.splice(at, 1);
    this.fill();
  }

  #start(): void {
    let guest;
    const token = crypto.randomUUID() + crypto.randomUUID();
    try {
      guest = new GuestProcess(this.#command, this.#door.path, token, this.#options.log);
    } catch (error) {
      this.#failed(String(error));
      return;
    }
    this.#guests.add(guest);
    const reaped = guest.reaped.finally(() => this.#unreaped.delete(reaped));
    this.#unreaped.add(reaped);
    this.#watch(guest, token);
  }

  /** Sees a guest from its start to its readiness; from then on `#gone` sees to its end. */
  #watch(guest: GuestProcess, token: string): void {
    const late = setTimeout(
      () => guest.kill(`was not ready after ${START_DEADLINE_MS} ms`),
      START_DEADLINE_MS,
    );
    this.#door.expect(token, guest);
    guest.listen({
      message: (message) => {
        if (message.type !== "ready") return guest.kill("spoke before it was ready");
        const problem = openWords(message.checks);
        if (problem !== undefined) return guest.kill(`is not closed: ${problem}`);
        clearTimeout(late);
        this.#startFailures = 0;
        this.#offer(guest);
      },
      lost: ({ words }) => {
        clearTimeout(late);
        this.#door.forget(token);
        this.#guests.delete(guest);
        if (!this.#closed) this.#failed(`its process ${words}`);
      },
    });
  }

  #failed(why: string): void {
    // Guests that were started together fail together: that counts once.
    if (this.#backoff !== undefined) return;
    this.#startFailures += 1;
    const delayMs = Math.min(BACKOFF_MS_MIN * 2 ** this.#startFailures, BACKOFF_MS_MAX);
    this.#options.log.error("guest failed to start", { why, retry_in_ms: delayMs });
    if (this.#startFailures >= START_FAILURES_MAX) {
      const told = `Cannot start a guest for the task: ${why}`;
      this.#waiting.refuse(new AgentError("internal", told));
    }
    this.#backoff = setTimeout(() => {
      this.#backoff = undefined;
      this.fill();
    }, delayMs);
  }
}

function closedError(): AgentError {
  return new AgentError("aborted", "Cannot get a guest: the pool is closed");
}
