// The guest's end of one realm: does what the realm asks for while its execution is under way, and
// nothing before or after.

import { TIMERS_MAX } from "./protocol.ts";
import type { RealmHost, RealmPort } from "./realm_state.ts";

/** Longest delay that timers of the platform take, milliseconds; longer ones would fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** What a guest keeps of its platform for the tasks. */
export interface Platform {
  readonly setTimeout: typeof setTimeout;
  readonly clearTimeout: typeof clearTimeout;
  /** Sends a line to the agent. */
  readonly write: (line: string) => void;
}

/** The execution under way. */
export interface Run {
  readonly id: number;
  readonly port: RealmPort;
  /** Platform timers by the realm's own numbers. */
  readonly timers: Map<number, ReturnType<typeof setTimeout>>;
  /** JSON text of the outcome, once the realm has told it. */
  outcome: string | undefined;
}

/** Calls into a realm. What comes out as an exception is an object of that realm: not looked at. */
export function enter(call: () => void): void {
  try {
    call();
  } catch {
    // Only a stack overflow gets here; the task waits for its timeout then.
  }
}

/**
 * The function that a realm calls. Short, since the realm may call it with its stack nearly used up.
 * After the outcome only log lines are still taken, until the run is no longer the current one.
 */
export function openRealmHost(
  platform: Platform,
  run: Run,
  isCurrent: () => boolean,
  end: (outcome: string) => void,
): RealmHost {
  // Called without an object: older platforms refuse them as methods of another one.
  const { setTimeout, clearTimeout, write } = platform;
  const { id, port, timers } = run;
  const fire = (timer: number) => {
    timers.delete(timer);
    if (isCurrent()) enter(() => port.fire(timer));
  };
  const settle = () => {
    if (isCurrent()) enter(() => port.settle());
  };
  return (op, number, name, text) => {
    if (!isCurrent()) return;
    if (op === "log") return write(`{"type":"log","run":${id},"level":"${name}",${text}}`);
    if (run.outcome !== undefined) return;
    switch (op) {
      case "call":
        return write(
          `{"type":"call","run":${id},"call":${number},"name":"${name}","args":${text}}`,
        );
      case "end":
        return end(text);
      case "timer":
        if (timers.size > TIMERS_MAX) return;
        timers.set(number, setTimeout(fire, Math.min(+text, TIMER_MS_MAX), number));
        return;
      case "untimer":
        clearTimeout(timers.get(number));
        timers.delete(number);
        return;
      case "quiet":
        setTimeout(settle, 0);
        return;
    }
  };
}
