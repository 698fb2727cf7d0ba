// The capability calls of one execution: performs them, answers the guest, and ends the rest when
// the execution ends.

import { AgentError } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import { type JsonValue, valueWeight } from "../domain/json.ts";
import type { Reservation } from "../domain/memory_budget.ts";
import { within } from "../runtime/wait.ts";
import { CALLS_IN_FLIGHT_MAX, type CapabilityName, type GuestMessage } from "../wall/protocol.ts";
import { LOG_LINES_MAX, REPLY_CHARS_MAX } from "../wall/task_limits.ts";
import type { GuestProcess } from "./process.ts";

/** The execution that makes capability calls. */
export interface TaskContext {
  readonly job_uuid: JobUuid;
  /** The task's name, or its uuid when it has none. */
  readonly task_name: string;
  /** Number of this attempt of the task, for the log of the job. */
  readonly attempt?: number | undefined;
  /** Whether any host may run the job: then its tasks may not touch a host. */
  readonly free?: boolean;
  /** Names of fields that the workflow declares secret. */
  readonly secrets?: ReadonlySet<string>;
  /** Aborted when the execution ends: canceled, timed out, or lost. */
  readonly signal: AbortSignal;
}

/** Performs a capability call; `signal` fires when the execution has ended. */
export type Perform = (
  name: CapabilityName,
  args: readonly JsonValue[],
  signal: AbortSignal,
) => Promise<JsonValue>;

/** Performs the capability calls of one execution, until it is closed. */
export type TaskPerform = Perform & {
  /** Ends the execution: no further calls, and the counts go into the job's info. */
  readonly close: () => void;
};

type CallMessage = Extract<GuestMessage, { type: "call" }>;
type LogMessage = Extract<GuestMessage, { type: "log" }>;

/** Size of arguments from which a call waits for memory; the number of smaller calls is limited. */
const HELD_CALL_BYTES = 4 * 1024;
/** Logged instead of a line for which there was no memory. */
const LINE_LEFT_OUT = "A log line of the task was left out: there was no memory for it";
/** Time to write pending notes, such as info entries, after their task's end, milliseconds. */
const NOTES_DEADLINE_MS = 2000;
/** Longest wait for calls to end after their signal. A host program is killed well within it, milliseconds. */
const CALLS_END_MS_MAX = 30_000;

/** The part of a guest that calls need. */
type CallingGuest = Pick<GuestProcess, "kill" | "send" | "budget">;

/** Opened and closed with an execution. Its state is created by the first call. */
export class GuestCalls {
  readonly #guest: CallingGuest;
  readonly #run: number;
  readonly #perform: Perform;
  readonly #inFlight = new Set<number>();
  /** Calls and log lines that are being performed. */
  readonly #underWay = new Set<Promise<void>>();
  /** The calls and log lines among them that are notes. */
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
    // The realm in the guest enforces these rules, so a guest that breaks them is compromised.
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
    this.#keep(answered, isNote(name));
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
    // A failed log line must not fail the task.
    this.#keep(written().catch(() => {}), true);
    return settled(memory);
  }

  /** The task has ended: aborts pending calls, still writes pending notes. */
  stop(): void {
    this.#stopped = true;
    this.#over?.abort();
  }

  /** Ends all calls and waits until they have ended; `orderly` writes pending notes first. */
  async end(orderly: boolean): Promise<void> {
    this.stop();
    if (orderly && this.#notes.size > 0) {
      await within(NOTES_DEADLINE_MS, Promise.all(this.#notes));
    }
    this.#notesOver?.abort();
    if (this.#underWay.size > 0) await within(CALLS_END_MS_MAX, Promise.all(this.#underWay));
  }

  #keep(call: Promise<void>, note: boolean): void {
    const kept = call.finally(() => {
      this.#underWay.delete(kept);
      this.#notes.delete(kept);
    });
    this.#underWay.add(kept);
    if (note) this.#notes.add(kept);
  }

  /** Fires at the end of the execution; for notes, some time later. */
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

/** Settles when the memory is reserved, or will not be; the call that needed it gets the error. */
function settled(memory: Promise<Reservation> | undefined): Promise<void> | undefined {
  return memory?.then(() => {}, () => {});
}

/** Whether a capability writes a note about the task rather than doing something for it. */
function isNote(name: CapabilityName): boolean {
  return name === "info" || name.startsWith("log.");
}
