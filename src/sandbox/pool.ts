// The pool of guests, which are started before they are needed. A guest belongs to the workflow of its first task until
// it ends. There is always a spare without a workflow, for the first task of another workflow and for the task after a
// killed one. If there are too many guests, the one that was idle longest is ended.
//
//     starting --> spare --> at work <--> warm, for its workflow --> given up, renewed
//
// A guest that ends for any reason is replaced immediately. Guests connect to a unix socket in a folder that only they
// may enter.

import { join } from "@std/path";
import { AgentError } from "../domain/error.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { SelfCommand } from "../runtime/executable.ts";
import { SYSTEM_TIMERS, type Timers } from "../runtime/timers.ts";
import type { Log } from "../metrics/log.ts";
import {
  findGuestTools,
  type FindTools,
  type GuestCommand,
  guestCommand,
  type GuestUser,
  SPARES,
  WARM_BESIDE_SLOTS,
  withoutWords,
} from "./guest_command.ts";
import { wallProblem } from "./wall_checks.ts";
import { type GuestSocket, openGuestSocket } from "./guest_socket.ts";
import { type GuestListener, type GuestOwner, GuestProcess } from "./process.ts";
import { openOrphanKiller } from "./orphaned_guests.ts";
import { START_DEADLINE_MS, STARTS_FAILED_MAX, takeRest } from "./walled_process.ts";
import { GuestQueue, IdleGuests, IdleRenewal } from "./waiting_tasks.ts";
import { LargeMessageTurns } from "./untrusted_message.ts";
import { MemoryWatch } from "./memory_watch.ts";
import { type LentGuests, runTask, type TaskOutcome, type TaskRun } from "./run_task.ts";
import type { Perform } from "./task_calls.ts";
import type { TaskLimits } from "../wall/task_limits.ts";

/** The number of guests, their user, and the program that they run. */
export interface PoolOptions {
  readonly self: SelfCommand;
  readonly slots: number;
  /** Folder for the socket; the system's temporary folder is used when its path is too long. */
  readonly runtimeDir: string;
  readonly log: Log;
  /**
   * The user for guests; the agent's own unless given. When run from source, another user must be
   * able to read the program and DENO_DIR.
   */
  readonly user?: GuestUser;
  /** The setting `fresh_realm`: each task gets a realm of its own. */
  readonly freshRealm?: boolean;
  /** Checks sources before they run; answers are cached. */
  readonly checkSource: LentGuests["checkSource"];
  /** The budget for messages of guests; a separate one unless given. */
  readonly budget?: MemoryBudget;
  readonly limits: TaskLimits;
  /** Until this settles, guests are started only for waiting tasks. */
  readonly spareAfter?: Promise<void>;
  /** Looks for the tools that start guests; see findGuestTools(). */
  readonly findTools?: FindTools;
  /** The clock of its guests; the system's unless given. */
  readonly timers?: Timers;
}

/** Runs tasks, each in a guest of its workflow. */
export interface GuestPool extends LentGuests {
  /** Runs one body or fallback; see runTask(). */
  run(run: TaskRun, perform: Perform, signal: AbortSignal): Promise<TaskOutcome>;
  pids(): number[];
  /** What the guests do now, and totals since the start. */
  counts(): GuestCounts;
  /** Why guests do not start, once several starts in a row have failed. */
  readonly startProblem: string | undefined;
  /** Kills every guest and waits until all are gone. */
  close(): Promise<void>;
}

/** Guests by state; `started` and `given_up` are totals. */
export interface GuestCounts {
  readonly starting: number;
  /** Ready, and of no workflow yet. */
  readonly spare: number;
  /** Idle, waiting for the next task of their workflow. */
  readonly warm: number;
  readonly working: number;
  readonly started: number;
  /** Ended to make room for another workflow. */
  readonly given_up: number;
}

/** Executions after which a guest is replaced: its start costs as much as a hundred of them. */
const RUNS_PER_GUEST_MAX = 5000;
const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 10_000;

/**
 * Opens a pool; its guests start in the background, and the first tasks wait for them.
 * @throws {AgentError} `invalid_argument` when another user is given but the agent is not root
 */
export async function openPool(options: PoolOptions): Promise<GuestPool> {
  const root = Deno.uid() === 0;
  const { findTools = findGuestTools } = options;
  const { tools, missing } = await findTools();
  if (missing.length > 0) {
    options.log.warn("guests run without some limits of the system", {
      without: withoutWords(missing),
    });
  }
  const { self, slots, user, limits, freshRealm = false } = options;
  const place = { tools, root, slots, freshRealm };
  const command = guestCommand(self, user === undefined ? place : { ...place, user }, limits);
  const memory = new MemoryWatch(tools, options.log);
  const guestSocket = await openGuestSocket(options);
  const folder = join(options.runtimeDir, "kept-guests");
  const orphanKiller = await openOrphanKiller(tools, { log: options.log, folder });
  const pool = new Pool(options, { ...command, orphanKiller }, guestSocket, memory);
  if (options.spareAfter === undefined) pool.fill();
  else options.spareAfter.then(() => pool.fill());
  return pool;
}

class Pool implements GuestPool {
  readonly checkSource: LentGuests["checkSource"];
  readonly #guests = new Set<GuestProcess>();
  readonly #unreaped = new Set<Promise<void>>();
  readonly #starting = new Set<GuestProcess>();
  readonly #idle = new IdleGuests();
  readonly #waiting = new GuestQueue();
  readonly #turns: LargeMessageTurns;
  readonly #options: PoolOptions;
  readonly #command: GuestCommand;
  readonly #guestSocket: GuestSocket;
  readonly #memory: MemoryWatch;
  readonly #renewal: IdleRenewal;
  #started = 0;
  #givenUp = 0;
  #startFailures = 0;
  #startProblem: string | undefined;
  #backoff: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(
    options: PoolOptions,
    command: GuestCommand,
    guestSocket: GuestSocket,
    memory: MemoryWatch,
  ) {
    this.#options = options;
    const { budget, timers = SYSTEM_TIMERS } = options;
    this.#turns = new LargeMessageTurns(budget, timers);
    this.checkSource = options.checkSource;
    this.#command = command;
    this.#guestSocket = guestSocket;
    this.#memory = memory;
    this.#renewal = new IdleRenewal(
      this.#idle,
      () => this.#guests.size > this.#restingMax,
      timers,
    );
  }

  /** Starts missing guests, unless it is waiting after a failed start. */
  fill(): void {
    // A start that fails immediately sets the backoff.
    while (!this.#closed && this.#backoff === undefined && this.#wantsGuest() && this.#hasPlace()) {
      this.#start();
    }
  }

  run(run: TaskRun, perform: Perform, signal: AbortSignal): Promise<TaskOutcome> {
    return runTask(this, run, perform, signal);
  }

  async acquire(owner: GuestOwner, signal: AbortSignal): Promise<GuestProcess> {
    if (this.#closed) throw closedError();
    this.#renewal.busy();
    const mayTake = !signal.aborted && this.#waiting.size === 0;
    const idle = mayTake ? this.#idle.take(owner) : undefined;
    const came = idle ?? this.#waiting.wait(owner, signal);
    this.#settle();
    const guest = await came;
    guest.serve(owner);
    this.#memory.enter(guest);
    return guest;
  }

  release(guest: GuestProcess): void {
    this.#memory.leave(guest);
    if (!guest.alive) return this.#gone(guest);
    if (guest.runs < RUNS_PER_GUEST_MAX) return this.#offer(guest);
    guest.listen(this.#idleListener(guest));
    guest.kill("was replaced after its share of executions");
  }

  pids(): number[] {
    return [...this.#guests].map((guest) => guest.pid);
  }

  counts(): GuestCounts {
    const spare = this.#idle.spares;
    return {
      starting: this.#starting.size,
      spare,
      warm: this.#idle.size - spare,
      working: this.#working,
      started: this.#started,
      given_up: this.#givenUp,
    };
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#backoff);
    this.#memory.close();
    this.#renewal.close();
    this.#waiting.refuse(closedError());
    for (const guest of this.#guests) guest.kill("was ended with its pool");
    await this.#guestSocket.close();
    await Promise.all(this.#unreaped);
    await this.#command.orphanKiller?.close();
  }

  get startProblem(): string | undefined {
    return this.#startProblem;
  }

  get #working(): number {
    return this.#guests.size - this.#starting.size - this.#idle.size;
  }

  /** The most guests that an idle pool keeps; it begins with only the spares. */
  get #restingMax(): number {
    return this.#options.slots + SPARES;
  }

  /**
   * Whether a guest is missing: the spares, plus one for each task waiting for its workflow. Tasks
   * beyond the slots wait for one another.
   */
  #wantsGuest(): boolean {
    const wanted = Math.min(SPARES + this.#waiting.size, this.#restingMax - this.#working);
    return this.#idle.spares + this.#starting.size < wanted;
  }

  /** Whether one more guest may start; ends the guest that was idle longest to make room. */
  #hasPlace(): boolean {
    if (this.#guests.size < this.#restingMax + WARM_BESIDE_SLOTS) return true;
    const oldest = this.#idle.oldestOwned();
    if (oldest === undefined) return false;
    this.#idle.remove(oldest);
    this.#guests.delete(oldest);
    this.#givenUp += 1;
    oldest.listen(undefined);
    oldest.kill("was given up for another workflow");
    return true;
  }

  #offer(guest: GuestProcess): void {
    guest.listen(this.#idleListener(guest));
    // The listener has already handled a guest that has ended.
    if (!guest.alive) return;
    this.#idle.put(guest);
    this.#settle();
    this.#renewal.rest();
  }

  /** Assigns idle guests to waiting tasks, then starts missing ones. */
  #settle(): void {
    this.#serve();
    this.fill();
    // Tasks behind one for which a guest was just started.
    this.#serve();
  }

  #serve(): void {
    // While guests cannot be started, tasks that need one must not block those that do not.
    const passedMax = this.#backoff === undefined ? this.#starting.size : Number.POSITIVE_INFINITY;
    this.#waiting.serve((owner) => this.#idle.take(owner), passedMax);
  }

  /** An idle guest must be silent; one that ends is replaced. */
  #idleListener(guest: GuestProcess): GuestListener {
    return {
      message: () => guest.kill("spoke out of turn"),
      lost: () => this.#gone(guest),
    };
  }

  #gone(guest: GuestProcess): void {
    this.#guests.delete(guest);
    this.#idle.remove(guest);
    this.#settle();
  }

  #start(): void {
    let guest;
    const token = crypto.randomUUID() + crypto.randomUUID();
    try {
      guest = new GuestProcess(
        this.#command,
        this.#guestSocket.path,
        token,
        this.#options.log,
        this.#turns,
      );
    } catch (error) {
      this.#failed(String(error));
      return;
    }
    this.#started += 1;
    this.#guests.add(guest);
    this.#starting.add(guest);
    const reaped = guest.reaped.finally(() => this.#unreaped.delete(reaped));
    this.#unreaped.add(reaped);
    this.#watch(guest, token);
  }

  /** Follows a guest from start to readiness; from then on `#gone` handles its end. */
  #watch(guest: GuestProcess, token: string): void {
    const late = setTimeout(
      () => guest.kill(`was not ready after ${START_DEADLINE_MS} ms`),
      START_DEADLINE_MS,
    );
    this.#guestSocket.expect(token, guest);
    const begin = () => {
      clearTimeout(late);
      this.#starting.delete(guest);
      this.#startFailures = 0;
      this.#startProblem = undefined;
      this.#offer(guest);
    };
    guest.listen({
      message: (message) => {
        if (message.type !== "ready") return guest.kill("spoke before it was ready");
        const problem = wallProblem(message.checks, this.#command.cannotRefuse);
        if (problem !== undefined) return guest.kill(`is not closed: ${problem}`);
        if (this.#command.takesRest === undefined) return begin();
        return takeRest(this.#command, guest.pid).then((rest) => {
          if (rest !== undefined) return guest.kill(`is not closed: ${rest}`);
          if (guest.alive) begin();
        });
      },
      lost: ({ words }) => {
        clearTimeout(late);
        this.#guestSocket.forget(token);
        this.#starting.delete(guest);
        this.#guests.delete(guest);
        if (!this.#closed) this.#failed(`its process ${words}`);
      },
    });
  }

  #failed(why: string): void {
    // Guests that were started together fail together, which counts as one failure.
    if (this.#backoff !== undefined) return;
    this.#startFailures += 1;
    const delayMs = Math.min(BACKOFF_MS_MIN * 2 ** this.#startFailures, BACKOFF_MS_MAX);
    this.#options.log.error("guest failed to start", { why, retry_in_ms: delayMs });
    if (this.#startFailures >= STARTS_FAILED_MAX) {
      this.#startProblem = why;
      const message = `Cannot start a guest for the task: ${why}`;
      this.#waiting.refuse(new AgentError("overloaded", message));
    }
    this.#backoff = setTimeout(async () => {
      // The socket cannot be renewed while the disk is full, for example; then the next start fails as well.
      await this.#guestSocket.renew().catch(() => {});
      this.#backoff = undefined;
      this.fill();
    }, delayMs);
  }
}

function closedError(): AgentError {
  return new AgentError("aborted", "Cannot get a guest: the pool is closed");
}
