// The guest's end of one realm. It serves the realm's requests while the execution runs, and none
// before or after.

import type { Language } from "../../wall/language.ts";
import { TIMERS_MAX } from "../../wall/protocol.ts";
import type { RealmHost, RealmPort } from "./execution.ts";

/** Longest delay of a platform timer, milliseconds; a longer one would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The outcome of a task that sent something other than JSON. */
const NO_JSON =
  `{"kind":"failure","error":{"name":"TypeError","message":"Cannot record the end of the task: ` +
  `what its realm sent is not JSON"},"job":null}`;

/** The outcome of a task after which the realm can no longer report one. */
const BROKEN_REALM_OUTCOME =
  `{"kind":"failure","error":{"name":"Error","message":"The task has broken its own realm: what it ` +
  `replaced of the language is needed to go on"},"job":null}`;

/** The parts of the platform that a guest keeps for its tasks. */
export interface Platform {
  readonly language: Language;
  readonly setTimeout: typeof setTimeout;
  readonly clearTimeout: typeof clearTimeout;
  /** Sends a line to the agent. */
  readonly write: (line: string) => void;
}

/** The execution that a realm runs now. */
export interface RealmRun {
  readonly id: number;
  readonly port: RealmPort;
  /** Platform timers by their ids in the realm. */
  readonly timers: Map<number, ReturnType<typeof setTimeout>>;
  /** JSON text of the outcome, once the realm has sent it. */
  outcome: string | undefined;
  /** False once its realm has thrown. */
  whole: boolean;
}

/**
 * Calls into a realm. An exception is an object of that realm, so it is not inspected. It means that
 * the task has replaced built-ins that the realm itself needs, so the realm cannot end the task.
 */
export function enter(call: () => void, broken: () => void): void {
  let whole = false;
  try {
    call();
    whole = true;
  } catch {
    // Handled below, where the thrown object is out of reach.
  }
  if (!whole) broken();
}

/** Ends an execution whose realm has thrown, unless the outcome was sent already. */
export function endBroken(run: RealmRun, end: (outcome: string) => void): void {
  if (run.outcome === undefined) end(BROKEN_REALM_OUTCOME);
}

/**
 * The function that a realm calls. It is short because the stack may be nearly used up by then.
 * After the outcome it accepts only log lines, until another run becomes the current one.
 */
export function openRealmHost(
  platform: Platform,
  run: RealmRun,
  isCurrent: () => boolean,
  end: (outcome: string) => void,
): RealmHost {
  // Taken out of the object: older platforms refuse these calls as methods of another object.
  const { setTimeout, clearTimeout, write, language } = platform;
  const { mapGet, mapSet, mapDelete, mapSize, textIndexOf } = language;
  const { id, port, timers } = run;
  const broken = () => endBroken(run, end);
  const fire = (timer: number) => {
    mapDelete(timers, timer);
    if (isCurrent()) enter(() => port.fire(timer), broken);
  };
  const settle = () => {
    if (isCurrent()) enter(() => port.settle(), broken);
  };
  return (op, number, name, text) => {
    if (!isCurrent()) return;
    // A realm sends JSON without line breaks; a line break is an attempt to forge a line. The guest's
    // own fields come last in a message, where nothing can override them.
    const sent = op === "call" || op === "log" || op === "end";
    if (sent && (textIndexOf(name, "\n") !== -1 || textIndexOf(text, "\n") !== -1)) {
      return run.outcome === undefined ? end(NO_JSON) : undefined;
    }
    if (op === "log") return write(`{${text},"level":"${name}","type":"log","run":${id}}`);
    if (run.outcome !== undefined) return;
    switch (op) {
      case "call":
        return write(
          `{"args":${text},"name":"${name}","call":${number},"type":"call","run":${id}}`,
        );
      case "end":
        return end(text);
      case "timer":
        if (mapSize(timers) > TIMERS_MAX) return;
        mapSet(timers, number, setTimeout(fire, delayOf(+text), number));
        return;
      case "untimer":
        clearTimeout(mapGet(timers, number));
        mapDelete(timers, number);
        return;
      case "quiet":
        setTimeout(settle, 0);
        return;
    }
  };
}

/** Replaces invalid delays: the platform would print a warning, which a guest cannot. */
function delayOf(delayMs: number): number {
  if (!(delayMs > 0)) return 0;
  return delayMs < TIMER_MS_MAX ? delayMs : TIMER_MS_MAX;
}
