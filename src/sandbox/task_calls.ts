// The capability calls of one execution: performs them, answers the guest, and ends those that are
// left when the execution ends.

import { AgentError } from "../domain/error.ts";
import type { JsonValue } from "../domain/json.ts";
import type { GuestProcess } from "./process.ts";
import { CALLS_IN_FLIGHT_MAX, type CapabilityName, type GuestMessage } from "./protocol.ts";
import { REPLY_CHARS_MAX, type TaskLimits } from "./task_limits.ts";

/** Performs a capability call; `signal` is aborted when the execution has ended. */
export type Perform = (
  name: CapabilityName,
  args: readonly JsonValue[],
  signal: AbortSignal,
) => Promise<JsonValue>;

type CallMessage = Extract<GuestMessage, { type: "call" }>;
type LogMessage = Extract<GuestMessage, { type: "log" }>;

/** Time for notes, such as info entries, to be written after their task's end, milliseconds. */
const NOTES_DEADLINE_MS = 2000;

/** Opened with an execution, closed with it. What it needs for calls is made with the first one. */
export class TaskCalls {
  readonly #guest: GuestProcess;
  readonly #run: number;
  readonly #perform: Perform;
  readonly #limits: TaskLimits;
  readonly #inFlight = new Set<number>();
  readonly #notes = new Set<Promise<void>>();
  #over: AbortController | undefined;
  /** Notes are allowed to finish when a task has ended by itself. */
  #notesOver: AbortController | undefined;
  #stopped = false;
  #logLines = 0;

  constructor(guest: GuestProcess, run: number, perform: Perform, limits: TaskLimits) {
    this.#guest = guest;
    this.#run = run;
    this.#perform = perform;
    this.#limits = limits;
  }

  /** Performs a call and answers it; after the end of the task it does neither. */
  take(message: CallMessage): void {
    if (this.#stopped) return;
    // The realm keeps these rules itself: a guest that breaks them is not sound.
    if (this.#inFlight.has(message.call)) {
      return this.#guest.kill("used the number of a call twice");
    }
    if (this.#inFlight.size >= CALLS_IN_FLIGHT_MAX) return this.#guest.kill("made too many calls");
    this.#inFlight.add(message.call);
    const answered = this.#answer(message);
    if (isNote(message.name)) this.#keep(answered);
  }

  /** Writes a log line; nobody waits for it. */
  log({ level, message, fields }: LogMessage): void {
    this.#logLines += 1;
    if (this.#logLines > this.#limits.logLinesMax) {
      return this.#guest.kill("wrote too many log lines");
    }
    const { signal } = this.#notesOver ??= new AbortController();
    const written = async () => {
      await this.#perform(`log.${level}`, [message, fields], signal);
    };
    // A line that cannot be written is no fault of the task.
    this.#keep(written().catch(() => {}));
  }

  /** The task has ended: calls under way are given up, notes about it are still written. */
  stop(): void {
    this.#stopped = true;
    this.#over?.abort();
  }

  /** Ends everything; with `orderly`, notes under way are written first. */
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

  async #answer({ call, name, args }: CallMessage): Promise<void> {
    const head = { type: "reply", run: this.#run, call } as const;
    const { signal } = isNote(name)
      ? this.#notesOver ??= new AbortController()
      : this.#over ??= new AbortController();
    try {
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
    }
  }
}

/** Whether a capability writes a note about the task rather than doing something for it. */
function isNote(name: CapabilityName): boolean {
  return name === "info" || name.startsWith("log.");
}
