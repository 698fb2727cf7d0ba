// The guest's end of one realm: does what the realm asks for while its execution is under way, and
// nothing before or after.

import type { Language } from "../language.ts";
import { TIMERS_MAX } from "../../protocol.ts";
import type { RealmHost, RealmPort } from "./state.ts";

/** Longest delay that timers of the platform take, milliseconds; longer ones would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The outcome of a task that sent something else. */
const NO_JSON =
  `{"kind":"failure","error":{"name":"TypeError","message":"Cannot record the end of the task: ` +
  `what its realm sent is no JSON"},"job":null}`;

/** The outcome of a task whose realm cannot tell it. */
const BROKEN =
  `{"kind":"failure","error":{"name":"Error","message":"The task has broken its own realm: what it ` +
  `replaced of the language is needed to go on"},"job":null}`;

/** What a guest keeps of its platform for the tasks. */
export interface Platform {
  readonly language: Language;
  readonly setTimeout: typeof setTimeout;
  readonly clearTimeout: typeof clearTimeout;
  /** Sends a line to the agent. */
  readonly write: (line: string) => void;
}

/** The execution under way. */
export interface RealmRun {
  readonly id: number;
  readonly port: RealmPort;
  /** Platform timers by the realm's own numbers. */
  readonly timers: Map<number, ReturnType<typeof setTimeout>>;
  /** JSON text of the outcome, once the realm has sent it. */
  outcome: string | undefined;
}

/**
 * Calls into a realm. What comes out as an exception is an object of that realm: not looked at. It
 * means that the task has replaced what the realm itself works with, and cannot be ended by it.
 */
export function enter(call: () => void, broken: () => void): void {
  let whole = false;
  try {
    call();
    whole = true;
  } catch {
    // Handled below, out of reach of what was thrown.
  }
  if (!whole) broken();
}

/** Ends an execution whose realm has thrown, unless it has sent its outcome before. */
export function endBroken(run: RealmRun, end: (outcome: string) => void): void {
  if (run.outcome === undefined) end(BROKEN);
}

/**
 * The function that a realm calls. Short, since the realm may call it with its stack nearly used up.
 * After the outcome only log lines are still taken, until the run is no longer the current one.
 */
export function openRealmHost(
  platform: Platform,
  run: RealmRun,
  isCurrent: () => boolean,
  end: (outcome: string) => void,
): RealmHost {
  // Called without an object: older platforms refuse them as methods of another one.
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
    // A realm sends JSON, which has no line breaks: another text is an attempt to write lines of
    // its own. What the guest says itself comes last in a message, where nothing overrides it.
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

/** The platform warns of delays that are none, which a guest has no way to do. */
function delayOf(delayMs: number): number {
  if (!(delayMs > 0)) return 0;
  return delayMs < TIMER_MS_MAX ? delayMs : TIMER_MS_MAX;
}
