// Makes realms: contexts in which only the boot script below has run. Either each task gets a fresh one,
// made ahead of time by an idle guest, or all tasks of the guest share one whose language is frozen.
// What a task has added to the global object of the shared one is taken off again; a task that has
// added what stays is the last in it.

import { type Context, createContext, Script } from "node:vm";
import { runScript, type TaskScript } from "./script.ts";
import type { Language } from "../../wall/language.ts";
import * as protocol from "../../wall/protocol.ts";
import type { RealmHost, RealmPort, RealmSettings, RealmSpace } from "./execution.ts";
import {
  CALL_CHARS_MAX,
  ERROR_CHARS_MAX,
  JOB_LEFT_CHARS_MAX,
  LOG_CHARS_MAX,
  LOG_LINES_MAX,
  type TaskLimits,
} from "../../wall/task_limits.ts";
import * as realm from "./body.ts";
import * as realmError from "./error.ts";
import * as realmFreeze from "./freeze.ts";
import * as realmGlobals from "./globals.ts";

const FIXED_SETTINGS = {
  capabilities: capabilityGroups(),
  signals: protocol.SIGNALS,
  jobCharsMax: JOB_LEFT_CHARS_MAX,
  errorCharsMax: ERROR_CHARS_MAX,
  argsCharsMax: CALL_CHARS_MAX,
  taskLogLinesMax: LOG_LINES_MAX,
  taskLogCharsMax: LOG_CHARS_MAX,
  argsMax: protocol.ARGS_MAX,
  callsInFlightMax: protocol.CALLS_IN_FLIGHT_MAX,
  timersMax: protocol.TIMERS_MAX,
  stackFrames: 10,
  addedNamesMax: 1000,
};

/** Names that the functions of a realm use while a task runs. */
const TAKEN = [
  ..."Array Error JSON Map Math Number Object Promise RangeError Reflect Set String".split(" "),
  ..."TypeError parseInt".split(" "),
];
/** Random words fetched at once; a number takes two. */
const RANDOM_WORDS = 1024;

interface TaskRealm {
  readonly port: RealmPort;
  /** From now on the realm's requests go to `host`; until then they are dropped. */
  connect(host: RealmHost): void;
  /** The value of a script in this realm. */
  define(script: TaskScript): (...values: unknown[]) => unknown;
}

/** Where a guest gets the realm of each task. */
export interface RealmMaker {
  /** The names that the scripts of shared realms take; undefined when no realm is shared. */
  readonly sharedNames: readonly string[] | undefined;
  /** A place in the shared realm, or in one of its own. */
  take(shared: boolean): TaskRealm;
  /** Makes the next realm, unless one is ready. */
  makeAhead(): void;
  /** Restores the shared realm after a task has ended, or gives it up. */
  leave(whole: boolean): void;
}

interface RealmOptions {
  readonly limits: TaskLimits;
  readonly language: Language;
  /** Whether each task gets a fresh realm. */
  readonly fresh: boolean;
  /**
   * With it the realms have no rules and are not shared, and each gets that object as a global, as if
   * one of the guest's realm had leaked in.
   */
  readonly foreign: object | undefined;
}

/** Opens a maker of realms, while node:vm still has everything it needs. */
export function openRealmMaker({ limits, language, fresh, foreign }: RealmOptions): RealmMaker {
  const rules = foreign === undefined;
  const script = (shared: boolean) =>
    new Script(
      realmSource({ ...FIXED_SETTINGS, resultCharsMax: limits.resultCharsMax, rules, shared }),
      {
        filename: "realm",
      },
    );
  const own = openOwnRealms(script(false), language, foreign);
  if (fresh || !rules) {
    const { take, makeAhead } = own;
    return { sharedNames: undefined, take, makeAhead, leave: () => {} };
  }
  const boot = script(true);
  const random = openRandom();
  let shared: SharedRealm | undefined = new SharedRealm(boot, language, random);
  const current = () => shared ??= new SharedRealm(boot, language, random);
  return {
    sharedNames: shared.names,
    take: (inShared) => inShared ? current().take() : own.take(),
    makeAhead: () => void current(),
    leave(whole) {
      if (!whole || shared?.restore() !== true) shared = undefined;
    },
  };
}

/** Realms that serve one task each. */
function openOwnRealms(
  boot: Script,
  { define, keysOf }: Language,
  foreign: object | undefined,
): { take: () => TaskRealm; makeAhead: () => void } {
  const make = (): TaskRealm => {
    const context = newContext({ __proto__: null }, foreign !== undefined);
    let connected: RealmHost | undefined;
    const port = openSpace(boot, context).open((op, id, name, text) =>
      connected?.(op, id, name, text)
    );
    // On the sandbox object behind the global: defined from inside, each would go through an interceptor.
    const names = keysOf(port.given);
    for (let at = 0; at < names.length; at++) {
      const name = names[at] ?? "";
      define(context, name, port.give(name));
    }
    if (foreign !== undefined) define(context, "foreign", foreign);
    return {
      port,
      connect: (host) => connected = host,
      define: ({ script }) => runScript(script, context) as () => unknown,
    };
  };
  let ahead: TaskRealm | undefined;
  return {
    take() {
      const realm = ahead ?? make();
      ahead = undefined;
      return realm;
    },
    makeAhead() {
      ahead ??= make();
    },
  };
}

/** A realm that serves one task after the other. */
class SharedRealm {
  readonly #language: Language;
  readonly #context: Context;
  readonly #space: RealmSpace;
  /** The names that a script takes: those of the language, and what a task gets besides. */
  readonly names: readonly string[];
  /** The values of the scripts used here. */
  #defined = new Map<TaskScript, (...values: unknown[]) => unknown>();

  constructor(boot: Script, language: Language, random: () => number) {
    this.#language = language;
    // What a task adds to the global object appears on the context; the language is behind it.
    const behind = { __proto__: null };
    this.#context = newContext({ __proto__: behind }, false);
    this.#space = openSpace(boot, this.#context, random);
    const { keysOf, fix } = language;
    const known = keysOf(this.#space.language);
    const names: string[] = [];
    for (let at = 0; at < known.length; at++) {
      const name = known[at] ?? "";
      fix(behind, name, this.#space.language[name]);
      if (name !== "globalThis") names[names.length] = name;
    }
    language.freeze(behind);
    const given = keysOf(this.#space.open(() => {}).given);
    for (let at = 0; at < given.length; at++) names[names.length] = given[at] ?? "";
    this.names = names;
  }

  take(): TaskRealm {
    let connected: RealmHost | undefined;
    return {
      port: this.#space.open((op, id, name, text) => connected?.(op, id, name, text)),
      connect: (host) => connected = host,
      define: (script) => this.#define(script),
    };
  }

  /** Takes off what a task has added to the global object. @returns false when something cannot be taken off */
  restore(): boolean {
    const { ownKeyCount } = this.#language;
    return this.#space.restore() && ownKeyCount(this.#context) === 0;
  }

  #define(task: TaskScript): (...values: unknown[]) => unknown {
    const { mapGet, mapSet, mapSize } = this.#language;
    const known = mapGet(this.#defined, task);
    if (known !== undefined) return known;
    const defined = runScript(task.script, this.#context) as (...values: unknown[]) => unknown;
    if (mapSize(this.#defined) >= protocol.SCRIPTS_MAX) this.#defined = new Map();
    mapSet(this.#defined, task, defined);
    return defined;
  }
}

function newContext(global: object, open: boolean): Context {
  // Without prototypes: node:vm must read nothing but these options.
  const codeGeneration = { __proto__: null, strings: open, wasm: open };
  const options = { __proto__: null, codeGeneration };
  return createContext(global, options);
}

function openSpace(boot: Script, context: Context, random?: () => number): RealmSpace {
  const open = runScript(boot, context) as (random?: () => number) => RealmSpace;
  return open(random);
}

/** Random numbers from the system, so that no task can know those of the next. */
function openRandom(): () => number {
  const words = new Uint32Array(RANDOM_WORDS);
  const fill = crypto.getRandomValues.bind(crypto);
  let at = RANDOM_WORDS;
  return () => {
    if (at >= RANDOM_WORDS) {
      fill(words);
      at = 0;
    }
    const high = words[at++] ?? 0;
    const low = words[at++] ?? 0;
    // 53 bits, the precision of a number.
    return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
  };
}

/** The capabilities as a task sees them; `log` is made in the realm. */
function capabilityGroups(): Record<string, string[]> {
  const groups: Record<string, string[]> = {};
  for (const name of protocol.CAPABILITIES) {
    const [group = "", verb] = name.split(".");
    if (group === "log") continue;
    const verbs = groups[group] ??= [];
    if (verb !== undefined) verbs.push(verb);
  }
  return groups;
}

/**
 * The program that opens a realm, as text: an expression whose value is a function that opens the realm it runs in. It is
 * the functions of body.ts, globals.ts, error.ts and freeze.ts, side by side in one strict function; so the compiler, the
 * linter and the formatter check them like all other code. The settings are a literal in it, so they are an object of
 * that realm.
 */
function realmSource(settings: RealmSettings): string {
  const parts = [realm, realmGlobals, realmError, realmFreeze];
  const functions = parts.flatMap((part) => Object.values(part));
  // A lookup in the global object of a realm goes through its guest each time.
  const taken = settings.shared ? `const { ${TAKEN.join(", ")} } = globalThis;\n` : "";
  return `(function () {\n"use strict";\n${taken}${functions.map(String).join("\n")}\n` +
    `return (random) => ${realm.openRealm.name}(${JSON.stringify(settings)}, random);\n})()`;
}
