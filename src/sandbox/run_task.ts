// Runs one execution of a task in a guest: sends the source, answers capability calls, and reports
// the result. Time is measured here, where no task can reach the clock.

import { AgentError, messageOf } from "../domain/error.ts";
import { ENGINE_FIELDS } from "../domain/job/wire.ts";
import { type JsonObject, type JsonValue, valueWeight } from "../domain/json.ts";
import type { Reservation } from "../domain/memory_budget.ts";
import type { WatchedGuest } from "./orphaned_guests.ts";
import type { GuestOwner, GuestProcess } from "./process.ts";
import type { GuestPool } from "./pool.ts";
import type { ProcessEnd } from "./walled_process.ts";
import { callAfter } from "../runtime/waiting.ts";
import {
  CALLS_IN_FLIGHT_MAX,
  type CapabilityName,
  type EndOutcome,
  type GuestMessage,
  TASK_NAME_CHARS_MAX,
} from "../wall/protocol.ts";
import { JOB_CHARS_MAX, LOG_LINES_MAX, REPLY_CHARS_MAX } from "../wall/task_limits.ts";

/** One execution of a body or a fallback. */
export interface TaskRun {
  /** The workflow whose guests may run it. */
  readonly owner: GuestOwner;
  readonly source: string;
  /** body: called with (job, cb); fallback: with (err, job, cb). */
  readonly kind: "body" | "fallback";
  /** The body's error, for a fallback. */
  readonly error?: JsonValue;
  readonly job: JsonObject;
  readonly taskName: string;
  readonly timeoutMs: number;
  /** Settles when the task may act; until then its capability calls wait. Without it, the task may act at once. */
  readonly mayAct?: () => Promise<void>;
  /** Watches the process of the guest that runs it, until the end. */
  readonly watch?: (pid: number) => Pick<WatchedGuest, "end">;
}

/** Result of an execution: as its guest reports it, or by the agent's action on the guest. */
export type TaskOutcome =
  | EndOutcome
  | { readonly kind: "timeout" }
  | { readonly kind: "aborted" };

/** Longest timer, milliseconds: 24 days; a longer one would fire at once. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;
/** Time for a guest to stop running a task that has ended, milliseconds. */
const CLOSE_DEADLINE_MS = 1000;
/** Fields named in the error for a job that is too large. */
const LARGEST_FIELDS = 3;

/**
 * Runs a task. It waits for a guest first, which does not count as the task's time. Whatever a body
 * does is an outcome: this throws only for a defect of the agent.
 */
export async function runTask(
  pool: Pick<GuestPool, "acquire" | "release" | "checkSource">,
  given: TaskRun,
  perform: Perform,
  signal: AbortSignal,
): Promise<TaskOutcome> {
  // Every error repeats the name, and no rule limits its length.
  const run = { ...given, taskName: given.taskName.slice(0, TASK_NAME_CHARS_MAX) };
  const name = JSON.stringify(run.taskName);
  let problem: string | undefined;
  try {
    problem = await pool.checkSource(run.source, signal);
  } catch (error) {
    return neverRun(error);
  }
  if (problem !== undefined) return failure("SyntaxError", `The ${run.kind} of ${name} ${problem}`);
  const job = JSON.stringify(run.job);
  if (job.length > JOB_CHARS_MAX) {
    const why = tooLarge(run.job, job.length, JOB_CHARS_MAX);
    return failure("RangeError", `Cannot run ${name}: ${why}`);
  }
  let guest: GuestProcess;
  try {
    guest = await pool.acquire(run.owner, signal);
  } catch (error) {
    return neverRun(error);
  }
  guest.runs += 1;
  const watched = run.watch?.(guest.pid);
  const calls = new GuestCalls(guest, guest.runs, gated(perform, run.mayAct));
  const outcome = await converse(guest, run, calls, signal, () =>
    guest.send({
      type: "run",
      run: guest.runs,
      kind: run.kind,
      source: run.source,
      task_name: run.taskName,
      engine_fields: engineFields(run.job),
      job,
      error: JSON.stringify(run.error ?? null),
    }));
  void watched?.end();
  pool.release(guest);
  await calls.end(outcome.kind !== "timeout" && outcome.kind !== "aborted");
  return outcome;
}

/** Performs a call once the task may act, unless the call was ended meanwhile. */
function gated(perform: Perform, mayAct: TaskRun["mayAct"]): Perform {
  if (mayAct === undefined) return perform;
  return async (name, args, signal) => {
    await mayAct();
    if (signal.aborted) throw new AgentError("aborted", `Cannot call ${name}: the task has ended`);
    return await perform(name, args, signal);
  };
}

/** Outcome of a task that got no guest, or whose source could not be read. */
function neverRun(error: unknown): TaskOutcome {
  if (error instanceof AgentError && error.code === "aborted") return { kind: "aborted" };
  return failure("Error", messageOf(error));
}

/** One execution, started by `begin`, until nothing of it runs in the guest. */
function converse(
  guest: GuestProcess,
  run: TaskRun,
  calls: GuestCalls,
  signal: AbortSignal,
  begin: () => void,
): Promise<TaskOutcome> {
  const { promise, resolve } = Promise.withResolvers<TaskOutcome>();
  let outcome: TaskOutcome | undefined;
  const stop = (cause: TaskOutcome, why: string) => {
    outcome ??= cause;
    guest.kill(why);
  };
  const abort = () => stop({ kind: "aborted" }, "was killed: its task was aborted");
  let callOff = callAfter(
    Math.min(run.timeoutMs, TIMEOUT_MS_MAX),
    () => stop({ kind: "timeout" }, "was killed: the time of its task was up"),
  );
  signal.addEventListener("abort", abort, { once: true });
  const over = (final: TaskOutcome) => {
    callOff();
    signal.removeEventListener("abort", abort);
    resolve(final);
  };
  guest.listen({
    message: (message): Promise<void> | void => {
      const ours = message.type !== "ready" && message.run === guest.runs;
      if (!ours || (outcome !== undefined) !== (message.type === "closed")) {
        return guest.kill("spoke out of turn");
      }
      if (message.type === "call") return calls.take(message);
      if (message.type === "log") return calls.log(message);
      if (message.type === "end") {
        outcome = message.outcome;
        calls.stop();
        callOff();
        // A guest whose task keeps running is not used again.
        const late = () => guest.kill("was killed: its task ran on after its end");
        callOff = callAfter(CLOSE_DEADLINE_MS, late);
      } else if (outcome !== undefined) {
        over(outcome);
        if (message.type === "closed" && message.spent) {
          guest.kill("was replaced: its task left it too little memory");
        }
      }
    },
    lost: (end) => over(outcome ?? lostOutcome(run, end)),
  });
  if (signal.aborted) abort();
  else begin();
  return promise;
}

function lostOutcome(run: TaskRun, { words, outOfMemory }: ProcessEnd): TaskOutcome {
  const name = outOfMemory ? "OutOfMemory" : "GuestLost";
  return failure(name, `Task ${JSON.stringify(run.taskName)} was lost: its process ${words}`);
}

/** Names of job fields that only the engine sets: they need not come back from a task. */
function engineFields(job: JsonObject): string {
  return Object.keys(job).filter((name) => ENGINE_FIELDS.has(name)).join(" ");
}

/** Why a job is too large to run, naming its largest fields. */
function tooLarge(job: JsonObject, chars: number, charsMax: number): string {
  const fields = Object.entries(job)
    .map(([name, value]) => ({ name, chars: JSON.stringify(value).length }))
    .sort((one, other) => other.chars - one.chars)
    .slice(0, LARGEST_FIELDS)
    .map(({ name, chars }) => `${name} ${chars}`);
  return `its job has ${chars} characters of JSON (${fields.join(", ")}), ` +
    `and may have ${charsMax}`;
}

function failure(name: string, message: string): TaskOutcome {
  return { kind: "failure", error: { name, message }, job: null };
}

// The capability calls of one execution: performs them, answers the guest, and ends the rest when
// the execution ends.

/** Performs a capability call; `signal` fires when the execution has ended. */
export type Perform = (
  name: CapabilityName,
  args: readonly JsonValue[],
  signal: AbortSignal,
) => Promise<JsonValue>;

type CallMessage = Extract<GuestMessage, { type: "call" }>;
type LogMessage = Extract<GuestMessage, { type: "log" }>;

/** Size of arguments from which a call waits for memory; the number of smaller calls is limited. */
const HELD_CALL_BYTES = 4 * 1024;
/** Logged instead of a line for which there was no memory. */
const LINE_LEFT_OUT = "A log line of the task was left out: there was no memory for it";
/** Time to write pending notes, such as info entries, after their task's end, milliseconds. */
const NOTES_DEADLINE_MS = 2000;

/** The part of a guest that calls need. */
type CallingGuest = Pick<GuestProcess, "kill" | "send" | "budget">;

/** Opened and closed with an execution. Its state is created by the first call. */
export class GuestCalls {
  readonly #guest: CallingGuest;
  readonly #run: number;
  readonly #perform: Perform;
  readonly #inFlight = new Set<number>();
  readonly #notes = new Set<Promise<void>>();
  #over: AbortController | undefined;
  /** Pending notes may finish when a task ends by itself. */
  #notesOver: AbortController | undefined;
  #stopped = false;
  #logLines = 0;

  constructor(guest: CallingGuest, run: number, perform: Perform) {
    this.#guest = guest;
    this.#run = run;
    this.#perform = perform;
  }

  /**
   * Performs a call and answers it, unless the task has ended.
   * @returns settles when there is memory for the arguments, or the call was refused; undefined for
   *   small arguments
   */
  take(message: CallMessage): Promise<void> | undefined {
    if (this.#stopped) return;
    // The realm itself keeps these rules, so a guest that breaks them is compromised.
    if (this.#inFlight.has(message.call)) {
      return void this.#guest.kill("used the number of a call twice");
    }
    if (this.#inFlight.size >= CALLS_IN_FLIGHT_MAX) {
      return void this.#guest.kill("made too many calls");
    }
    this.#inFlight.add(message.call);
    const { args, name } = message;
    const memory = "flaw" in args ? undefined : this.#memory(name, args);
    const answered = this.#answer(message, memory);
    if (isNote(name)) this.#keep(answered);
    return settled(memory);
  }

  /** Writes a log line without waiting. @returns as take() does */
  log({ level, message, fields }: LogMessage): Promise<void> | undefined {
    this.#logLines += 1;
    if (this.#logLines > LOG_LINES_MAX) {
      return void this.#guest.kill("wrote too many log lines");
    }
    const name = `log.${level}` as const;
    const memory = this.#memory(name, [message, fields]);
    const written = async () => {
      const { signal } = this.#notesOver ??= new AbortController();
      const held = memory === undefined ? undefined : await memory.catch(() => null);
      try {
        await this.#perform(name, held === null ? [LINE_LEFT_OUT, {}] : [message, fields], signal);
      } finally {
        held?.release();
      }
    };
    // A failed log line is no fault of the task.
    this.#keep(written().catch(() => {}));
    return settled(memory);
  }

  /** The task has ended: aborts pending calls, still writes pending notes. */
  stop(): void {
    this.#stopped = true;
    this.#over?.abort();
  }

  /** Ends everything; `orderly` writes pending notes first. */
  async end(orderly: boolean): Promise<void> {
    this.stop();
    const over = this.#notesOver;
    if (over === undefined) return;
    if (orderly && this.#notes.size > 0) {
      const late = setTimeout(() => over.abort(), NOTES_DEADLINE_MS);
      const aborted = Promise.withResolvers<void>();
      over.signal.addEventListener("abort", () => aborted.resolve());
      await Promise.race([Promise.all(this.#notes), aborted.promise]);
      clearTimeout(late);
    }
    over.abort();
  }

  #keep(note: Promise<void>): void {
    const kept = note.finally(() => this.#notes.delete(kept));
    this.#notes.add(kept);
  }

  /** Fires at the end of the execution; for notes some time later. */
  #signalOf(name: CapabilityName): AbortSignal {
    const over = isNote(name)
      ? this.#notesOver ??= new AbortController()
      : this.#over ??= new AbortController();
    return over.signal;
  }

  /** Memory for a call's arguments while it runs; undefined when none is needed. */
  #memory(name: CapabilityName, args: readonly JsonValue[]): Promise<Reservation> | undefined {
    let bytes = 0;
    for (const arg of args) bytes += valueWeight(arg);
    if (bytes < HELD_CALL_BYTES) return undefined;
    const { budget } = this.#guest;
    return budget.reserve("calls", bytes, `call ${name}`, { signal: this.#signalOf(name) });
  }

  async #answer({ call, name, args }: CallMessage, memory?: Promise<Reservation>): Promise<void> {
    const head = { type: "reply", run: this.#run, call } as const;
    const signal = this.#signalOf(name);
    let held: Reservation | undefined;
    try {
      if (memory !== undefined) held = await memory;
      if ("flaw" in args) {
        const why = `one of its arguments ${args.flaw}`;
        throw new AgentError("invalid_argument", `Cannot call ${name}: ${why}`);
      }
      const answer: JsonValue | undefined = await this.#perform(name, args, signal);
      const value = JSON.stringify(answer ?? null);
      if (value.length > REPLY_CHARS_MAX) {
        const message = `Cannot answer ${name}: over ${REPLY_CHARS_MAX} characters of JSON`;
        throw new AgentError("too_large", message);
      }
      this.#inFlight.delete(call);
      if (!this.#stopped) this.#guest.send({ ...head, ok: true, value });
    } catch (error) {
      this.#inFlight.delete(call);
      if (this.#stopped) return;
      const known = error instanceof AgentError;
      const message = known ? error.message : `Cannot perform ${name}: an internal error`;
      this.#guest.send({ ...head, ok: false, code: known ? error.code : "internal", message });
    } finally {
      held?.release();
    }
  }
}

/** Settles when there is memory or none will come; the error goes to the call that needed it. */
function settled(memory: Promise<Reservation> | undefined): Promise<void> | undefined {
  return memory?.then(() => {}, () => {});
}

/** Whether a capability writes a note about the task rather than doing something for it. */
function isNote(name: CapabilityName): boolean {
  return name === "info" || name.startsWith("log.");
}
