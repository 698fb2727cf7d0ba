// The globals of a task, inside its realm: timers, capabilities, log and console. The head of body.ts
// says how this text is run.

import { reasonOf } from "./error.ts";
import type { Realm, RealmSettings } from "./execution.ts";
import type { TaskLogLevel } from "../../wall/protocol.ts";

type Callback = (...args: unknown[]) => unknown;

/**
 * What a task gets besides the language, by name. Each is made when a task names it: most tasks use few, and making
 * all of them took a fifth of the time of a task that does nothing.
 */
export function openGiven(
  { capabilities }: RealmSettings,
): Record<string, (realm: Realm) => unknown> {
  const given: Record<string, (realm: Realm) => unknown> = {
    setTimeout: openSetTimeout,
    clearTimeout: openClearTimeout,
    sleep: openSleep,
  };
  for (const [group, verbs] of Object.entries(capabilities)) {
    given[group] = (realm) => openCapability(realm, group, verbs);
  }
  given.log = openLog;
  given.console = openConsole;
  return given;
}

/** `setTimeout`; the guest keeps the time. */
export function openSetTimeout(realm: Realm): unknown {
  return (callback: Callback, delayMs?: unknown, ...args: unknown[]) => {
    if (typeof callback !== "function") throw new TypeError("setTimeout() takes a function");
    return addTimer(realm, () => callback(...args), delayMs);
  };
}

/** `clearTimeout`, by the number that `setTimeout` returned. */
export function openClearTimeout(realm: Realm): unknown {
  return (timer?: unknown) => {
    if (realm.timers.delete(Number(timer))) realm.send("untimer", Number(timer), "", "");
  };
}

/** `sleep`: a promise that is kept after some milliseconds. */
export function openSleep(realm: Realm): unknown {
  return (delayMs?: unknown) =>
    new Promise<void>((resolve) => {
      addTimer(realm, resolve, delayMs);
    });
}

/**
 * Sets a timer and returns its id; the delay is in milliseconds.
 * @throws {RangeError} when `timersMax` timers are pending
 */
export function addTimer(realm: Realm, run: () => void, delayMs: unknown): number {
  const { timersMax } = realm.settings;
  if (realm.timers.size >= timersMax) {
    throw new RangeError(`Cannot set a timer: ${timersMax} timers of this task are pending`);
  }
  const id = ++realm.lastId;
  if (isLate(realm, "set a timer")) return id;
  realm.timers.set(id, run);
  realm.send("timer", id, "", `${Number(delayMs) || 0}`);
  return id;
}

/** Whether the task has ended: then nothing is done, and the log says what was asked for. */
export function isLate(realm: Realm, asked: string): boolean {
  if (realm.ended) writeLog(realm, "warn", `Cannot ${asked}: the task has ended`, {});
  return realm.ended;
}

/**
 * A capability, such as `info`, or a group of them, such as `vmadm`: functions that return a promise of the agent's
 * answer.
 */
export function openCapability(realm: Realm, group: string, verbs: readonly string[]): unknown {
  if (verbs.length === 0) return openCall(realm, group);
  const calls: Record<string, unknown> = {};
  for (const verb of verbs) calls[verb] = openCall(realm, `${group}.${verb}`);
  return Object.freeze(calls);
}

/**
 * One function of a capability. V8 puts a function that is written where it is assigned to a property into the old
 * space, where it holds all that its task had until the whole heap is collected; one that is returned here does not.
 */
export function openCall(realm: Realm, name: string): unknown {
  return (...args: unknown[]) => callAgent(realm, name, args);
}

/** Calls a capability. Rejects with the agent's refusal, or when a limit of calls is reached. */
export function callAgent(realm: Realm, name: string, args: unknown[]): Promise<unknown> {
  const { callsInFlightMax, argsMax, argsCharsMax } = realm.settings;
  return new Promise((resolve, reject) => {
    const place = {};
    Error.captureStackTrace(place);
    if (args.length > argsMax) throw new RangeError(`${name}() takes at most ${argsMax} arguments`);
    let text: string;
    try {
      text = realm.stringify(args) ?? "";
    } catch (thrown) {
      throw new TypeError(`Cannot call ${name} with these arguments: ${reasonOf(thrown)}`);
    }
    if (text.length > argsCharsMax) {
      throw new RangeError(
        `Cannot call ${name}: its arguments are over ${argsCharsMax} characters`,
      );
    }
    if (realm.calls.size >= callsInFlightMax) {
      throw new RangeError(`Cannot call ${name}: ${callsInFlightMax} calls are under way`);
    }
    // Its promise stays pending: nothing waits for it any more.
    if (isLate(realm, `call ${name}`)) return;
    const id = ++realm.lastId;
    realm.calls.set(id, { resolve, reject, place });
    realm.send("call", id, name, text);
  });
}

/** Writes to the log of the job, by level: `log`. */
export function openLog(realm: Realm): unknown {
  const level = (level: TaskLogLevel) => (message?: unknown, fields?: unknown) => {
    writeLog(realm, level, format([message]), fields);
    return Promise.resolve(null);
  };
  return Object.freeze({
    debug: level("debug"),
    info: level("info"),
    warn: level("warn"),
    error: level("error"),
  });
}

/** Prints to the log of the job: `console`. */
export function openConsole(realm: Realm): unknown {
  const print = (level: TaskLogLevel) => (...args: unknown[]) => {
    writeLog(realm, level, format(args), {});
  };
  return {
    trace: print("debug"),
    debug: print("debug"),
    log: print("info"),
    info: print("info"),
    warn: print("warn"),
    error: print("error"),
  };
}

/** Writes one log line. The last one allowed says that further lines are dropped. */
export function writeLog(
  realm: Realm,
  level: TaskLogLevel,
  message: string,
  fields: unknown,
): void {
  const { taskLogLinesMax, taskLogCharsMax } = realm.settings;
  if (realm.logLines >= taskLogLinesMax) return;
  realm.logLines += 1;
  const last = realm.logLines === taskLogLinesMax;
  const words = last ? `Further log lines are dropped: ${taskLogLinesMax} were written` : message;
  let fieldsText = "{}";
  try {
    const text = realm.stringify(fields);
    if (text?.[0] === "{") fieldsText = text;
    if (fieldsText.length > taskLogCharsMax) {
      fieldsText = `{"fields":"over ${taskLogCharsMax} characters"}`;
    }
  } catch {
    fieldsText = `{"fields":"cannot be written as JSON"}`;
  }
  const text = realm.stringify(words.slice(0, taskLogCharsMax));
  realm.send("log", 0, level, `"message":${text},"fields":${fieldsText}`);
}

/** `job.log`: the methods of a bunyan logger, `log.info([fields | error,] format, ...values)`. */
export function taskLog(realm: Realm, bound: object): Record<string, unknown> {
  const write = (level: TaskLogLevel) => (...args: unknown[]) => {
    if (args.length === 0) return true;
    const [first, ...rest] = args;
    const structured = typeof first === "object" && first !== null;
    const error = first instanceof Error ? { error: `${first.name}: ${first.message}` } : undefined;
    const fields = structured ? { ...bound, ...(error ?? first) } : bound;
    const words = structured ? rest : args;
    writeLog(realm, level, format(words.length > 0 ? words : [error?.error ?? ""]), fields);
    return undefined;
  };
  return {
    trace: write("debug"),
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    fatal: write("error"),
    child: (fields?: object) => taskLog(realm, { ...bound, ...fields }),
  };
}

/** Formats values as consoles do, with %s, %d, %i, %f, %j, %o and %%. */
export function format(values: readonly unknown[]): string {
  const [first, ...rest] = values;
  if (typeof first !== "string") return values.map(shown).join(" ");
  const words = first.replace(/%([sdifjoO%])/g, (all, kind: string) => {
    if (kind === "%") return "%";
    if (rest.length === 0) return all;
    const value = rest.shift();
    if (kind === "s") return shown(value);
    if (kind === "j" || kind === "o" || kind === "O") return JSON.stringify(value) ?? shown(value);
    return String(kind === "i" ? Math.trunc(Number(value)) : Number(value));
  });
  return [words, ...rest.map(shown)].join(" ");
}

/** A value as `console` writes it. */
export function shown(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (typeof value !== "object" || value === null) return String(value);
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}
