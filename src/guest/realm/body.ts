// The life of one execution, inside its realm. The functions of this file, globals.ts and error.ts
// never run as part of these modules: context.ts takes their text, and a guest runs it in every fresh
// realm before the task. They may therefore use only each other, the ECMAScript library and their
// arguments. Only strings and numbers pass through `send`.

import { errorFromCallback, errorFromThrow, reasonOf, stackOf } from "./error.ts";
import { openGiven, taskLog, writeLog } from "./globals.ts";
import { freezeRealm } from "./freeze.ts";
import type {
  Realm,
  RealmHost,
  RealmPlace,
  RealmPort,
  RealmSettings,
  RealmSpace,
  StackPlace,
} from "./execution.ts";

/** Opens a realm; the entry point of its source. `random` is used in a shared realm only. */
export function openRealm(settings: RealmSettings, random: () => number): RealmSpace {
  const place: RealmPlace = { file: "" };
  if (settings.rules) removeGlobals(place, settings);
  if (settings.shared) freezeRealm(random);
  const global = globalThis;
  const language = settings.shared ? takeGlobals(global) : {};
  const given = openGiven(settings);
  return {
    language,
    open: (host) => openTask(host, settings, place, { language, given }),
    restore: settings.shared ? watchRealm(global, settings) : () => false,
  };
}

/**
 * Looks at all that a task could change in a frozen realm. The function returned takes off the names
 * that were added, and answers whether the realm is the same again.
 */
export function watchRealm(global: object, { addedNamesMax }: RealmSettings): () => boolean {
  const { ownKeys, getPrototypeOf, getOwnPropertyDescriptor, deleteProperty, isExtensible } =
    Reflect;
  const names = ownKeys(global);
  const above = getPrototypeOf(global);
  return () => {
    let found = ownKeys(global);
    const added = found.length - names.length;
    if (added > 0 && added <= addedNamesMax) {
      for (const name of found) if (!names.includes(name)) deleteProperty(global, name);
      found = ownKeys(global);
    }
    return found.length === names.length && getPrototypeOf(global) === above &&
      isExtensible(global) &&
      // A task that freezes Error would keep the next one from starting.
      getOwnPropertyDescriptor(Error, "stackTraceLimit")?.writable === true;
  };
}

/**
 * Takes every name off the global object of a shared realm. The guest puts them behind that object,
 * where no task can change them; what a task adds is then easily seen.
 */
export function takeGlobals(global: object): Record<string, unknown> {
  const { ownKeys, get, deleteProperty } = Reflect;
  const language: Record<PropertyKey, unknown> = {};
  for (const name of ownKeys(global)) {
    const value: unknown = get(global, name);
    // What cannot be deleted cannot be changed either: undefined, NaN and Infinity.
    if (deleteProperty(global, name)) language[name] = value;
  }
  return language;
}

/** What the names of a shared realm stand for. */
interface RealmNames {
  readonly language: Readonly<Record<string, unknown>>;
  /** What makes each thing that a task gets besides. */
  readonly given: Readonly<Record<string, (realm: Realm) => unknown>>;
}

/** Opens an execution in a realm. */
export function openTask(
  host: RealmHost,
  settings: RealmSettings,
  place: RealmPlace,
  { language, given }: RealmNames,
): RealmPort {
  const { parse, stringify } = JSON;
  const realm: Realm = {
    send: settings.rules ? sender(host) : host,
    settings,
    parse,
    stringify,
    defineProperties: Object.defineProperties,
    calls: new Map(),
    timers: new Map(),
    lastId: 0,
    logLines: 0,
    name: "",
    file: "",
    job: {},
    engineFields: [],
    ended: false,
    returned: false,
  };
  return {
    given,
    give: (name) => given[name]?.(realm),
    start: (define, names, kind, name, file, engineFields, jobText, errorText) => {
      place.file = file;
      realm.name = name;
      realm.file = file;
      realm.engineFields = engineFields.split(" ");
      let body = define;
      if (settings.shared) {
        // All that one task could change for the next of the same source.
        Object.freeze(define);
        Error.stackTraceLimit = settings.stackFrames;
        const values = names.split(" ").map((one) => given[one]?.(realm) ?? language[one]);
        body = () => define(...values);
      }
      startTask(realm, body, kind, jobText, errorText);
    },
    reply: (call, ok, text, code) => takeReply(realm, call, ok, text, code),
    fire: (timer) => fireTimer(realm, timer),
    settle: () => settle(realm),
    rejected: (reason) => failThrown(realm, reason),
  };
}

/** Wraps the guest's function so that no exception of the guest's realm reaches this one. */
export function sender(host: RealmHost): RealmHost {
  return (op, id, name, text) => {
    let sent = false;
    try {
      host(op, +id, `${name}`, `${text}`);
      sent = true;
    } catch {
      // A foreign exception, such as a stack overflow in the guest's function: never inspected.
    }
    if (!sent) throw new RangeError("Maximum call stack size exceeded");
  };
}

/** Removes everything that would let a task escape, run after its end, or share memory. */
export function removeGlobals(place: RealmPlace, { shared }: RealmSettings): void {
  const removed = ["WebAssembly", "SharedArrayBuffer", "Atomics", "FinalizationRegistry", "eval"];
  // V8's own console; each task gets one of the agent's.
  for (const name of [...removed, "queueMicrotask", "console"]) {
    Reflect.deleteProperty(globalThis, name);
  }
  const fixed = { writable: false, enumerable: false, configurable: false };
  // V8 passes foreign objects to `prepareStackTrace` of the current global Error.
  const prepareStackTrace = (error: unknown, sites: StackPlace[]) => stackOf(place, error, sites);
  Object.defineProperty(Error, "prepareStackTrace", {
    value: Object.freeze(prepareStackTrace),
    ...fixed,
  });
  if (!shared) Object.defineProperty(globalThis, "Error", { value: Error, ...fixed });
}

/** Calls the body, or the fallback, with the job and the callback. */
export function startTask(
  realm: Realm,
  define: () => unknown,
  kind: "body" | "fallback",
  jobText: string,
  errorText: string,
): void {
  try {
    const job = realm.parse(jobText) as Record<string, unknown>;
    realm.job = job;
    Object.defineProperty(job, "log", {
      value: taskLog(realm, {}),
      enumerable: false,
      writable: true,
      configurable: true,
    });
    const body = define();
    if (typeof body !== "function") throw new TypeError("The source is not a function");
    const cb = (given: unknown, result: unknown) => takeCallback(realm, given, result);
    const returned = kind === "body" ? body(job, cb) : body(realm.parse(errorText), job, cb);
    if (typeof returned?.then === "function") watch(realm, returned);
  } catch (thrown) {
    failThrown(realm, thrown);
  }
}

/** Follows the promise of an async body: a rejection fails the task, the value is ignored. */
export async function watch(realm: Realm, returned: unknown): Promise<void> {
  try {
    await returned;
  } catch (thrown) {
    failThrown(realm, thrown);
    return;
  }
  realm.returned = true;
  sayWhenQuiet(realm);
}

/** Reports that an async body has returned and nothing is pending that could call the callback. */
export function sayWhenQuiet(realm: Realm): void {
  const pending = realm.calls.size + realm.timers.size;
  if (realm.returned && !realm.ended && pending === 0) realm.send("quiet", 0, "", "");
}

/** Fails a task that can no longer end by itself; the guest calls this one turn after `quiet`. */
export function settle(realm: Realm): void {
  if (realm.ended || realm.calls.size + realm.timers.size > 0) return;
  const name = realm.stringify(realm.name);
  fail(realm, `Task ${name} returned without calling cb, and nothing of it is pending`);
}

/** Hands the agent's answer to the capability call that waits for it. */
export function takeReply(
  realm: Realm,
  id: number,
  ok: boolean,
  text: string,
  code: string,
): void {
  const call = realm.calls.get(id);
  if (call === undefined) return;
  realm.calls.delete(id);
  if (ok) call.resolve(realm.parse(text));
  else {
    const error = new Error(text);
    const frames = `${call.place.stack}`.split("\n").slice(1).join("\n");
    const stack = { value: `Error: ${text}\n${frames}`, writable: true };
    call.reject(realm.defineProperties(error, { stack, code: { value: code, enumerable: true } }));
  }
  sayWhenQuiet(realm);
}

/** Runs the function of a timer. */
export function fireTimer(realm: Realm, id: number): void {
  const timer = realm.timers.get(id);
  realm.timers.delete(id);
  try {
    timer?.();
  } catch (thrown) {
    failThrown(realm, thrown);
  }
  sayWhenQuiet(realm);
}

/** The callback of the task. @see document 2, Task */
export function takeCallback(realm: Realm, given: unknown, result: unknown): void {
  if (realm.ended) {
    writeLog(realm, "warn", "The callback was called again: only the first call counts", {});
    return;
  }
  if (!given) return succeed(realm, `"kind":"success"`, result);
  // Without a built-in method, which the task may have replaced: the word is sent as it is.
  for (let { signals } = realm.settings, at = 0; at < signals.length; at++) {
    if (signals[at] !== given) continue;
    return succeed(realm, `"kind":"signal","word":"${signals[at]}"`, result);
  }
  fail(realm, errorFromCallback(realm, given));
}

/** Ends the task with a result that is not an error; `head` holds its kind. */
export function succeed(realm: Realm, head: string, result: unknown): void {
  let resultText: string;
  let jobText: string;
  try {
    resultText = textOf(realm, result, "result", realm.settings.resultCharsMax) ?? `"OK"`;
    jobText = jobTextOf(realm);
  } catch (thrown) {
    fail(realm, errorFromThrow(realm, thrown));
    return;
  }
  finish(realm, `{${head},"result":${resultText},"job":${jobText}}`);
}

/** Ends the task with an error, and with the job if it can be written as JSON. */
export function fail(realm: Realm, error: unknown): void {
  let jobText = "null";
  try {
    jobText = jobTextOf(realm);
  } catch { /* The error of the task is reported; that its job cannot be written is not. */ }
  finish(realm, `{"kind":"failure","error":${realm.stringify(error)},"job":${jobText}}`);
}

/** An error after the end cannot change the outcome, so it is only logged. */
export function failThrown(realm: Realm, thrown: unknown): void {
  const error = errorFromThrow(realm, thrown);
  if (!realm.ended) fail(realm, error);
  else writeLog(realm, "warn", "An error came after the callback", { error });
}

/** Sends the outcome of the task once; a getter of the job may have sent one already. */
export function finish(realm: Realm, outcome: string): void {
  if (realm.ended) return;
  realm.ended = true;
  let sent = false;
  try {
    realm.send("end", 0, "", outcome);
    sent = true;
  } finally {
    // When the stack ran out here, a frame further up may still end the task.
    realm.ended = sent;
  }
}

/**
 * The job as the task left it, as JSON text.
 * @throws {TypeError} when the job is not an object or has no JSON; {RangeError} when it is too long
 */
export function jobTextOf(realm: Realm): string {
  let left: Record<string, unknown>;
  try {
    left = { ...realm.job };
  } catch (thrown) {
    throw new TypeError(`Cannot record the job: ${reasonOf(thrown)}`);
  }
  for (const name of realm.engineFields) Reflect.deleteProperty(left, name);
  const text = textOf(realm, left, "job", realm.settings.jobCharsMax);
  if (text?.[0] !== "{") throw new TypeError("Cannot record the job: it is not an object");
  return text;
}

/**
 * A value as JSON text. The message of an error calls it `noun`.
 * @throws {TypeError} for a value without JSON; {RangeError} for one that is too long
 */
export function textOf(
  realm: Realm,
  value: unknown,
  noun: string,
  charsMax: number,
): string | undefined {
  const tooLarge = `Cannot record the ${noun}: its JSON is over ${charsMax} characters`;
  // Writing a string of this size as JSON could exhaust the guest's memory.
  if (typeof value === "string" && value.length > charsMax) throw new RangeError(tooLarge);
  let text: string | undefined;
  try {
    text = realm.stringify(value);
  } catch (thrown) {
    throw new TypeError(`Cannot record the ${noun}: ${reasonOf(thrown)}`);
  }
  if (text !== undefined && text.length > charsMax) throw new RangeError(tooLarge);
  return text;
}
