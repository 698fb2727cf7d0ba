// Makes realms. Each is a fresh context in which only the boot script below has run. An idle guest
// makes the next realm ahead of time, so that a task does not wait for it.

import { type Context, createContext, Script } from "node:vm";
import { runScript } from "./script.ts";
import type { Language } from "../../wall/language.ts";
import * as protocol from "../../wall/protocol.ts";
import type { RealmHost, RealmPort, RealmSettings } from "./state.ts";
import type { TaskLimits } from "../../wall/task_limits.ts";
import * as realm from "./body.ts";
import * as realmError from "./error.ts";
import * as realmGlobals from "./globals.ts";

const FIXED = {
  capabilities: capabilityGroups(),
  signals: protocol.SIGNALS,
  argsMax: protocol.ARGS_MAX,
  callsInFlightMax: protocol.CALLS_IN_FLIGHT_MAX,
  timersMax: protocol.TIMERS_MAX,
};

function settingsOf(limits: TaskLimits, rules: boolean): RealmSettings {
  const { resultCharsMax, jobLeftCharsMax, errorCharsMax, callCharsMax, ...log } = limits;
  return {
    ...FIXED,
    rules,
    resultCharsMax,
    jobCharsMax: jobLeftCharsMax,
    errorCharsMax,
    argsCharsMax: callCharsMax,
    taskLogLinesMax: log.taskLogLinesMax,
    taskLogCharsMax: log.taskLogCharsMax,
  };
}

/** A realm in which no task has run. */
interface FreshRealm {
  readonly context: Context;
  readonly port: RealmPort;
  /** From now on the realm's requests go to `host`; until then they are dropped. */
  connect(host: RealmHost): void;
}

/** Makes one realm at a time. */
export interface RealmMaker {
  /** The realm that was made ahead, or a new one. */
  take(): FreshRealm;
  /** Makes the next realm, unless one is ready. */
  makeAhead(): void;
}

/**
 * Opens a maker of realms, while node:vm still has everything it needs. With `foreign` the realms
 * have no rules, and each gets that object as a global, as if one of the guest's realm had leaked in.
 */
export function openRealmMaker(
  limits: TaskLimits,
  language: Language,
  foreign?: object,
): RealmMaker {
  const boot = new Script(realmSource(settingsOf(limits, foreign === undefined)), {
    filename: "realm",
  });
  const make = () => {
    const global: object = { __proto__: null };
    // Without prototypes: node:vm must read nothing but what is written here.
    const codeGeneration = {
      __proto__: null,
      strings: foreign !== undefined,
      wasm: foreign !== undefined,
    };
    const options = { __proto__: null, codeGeneration };
    const context = createContext(global, options);
    const open = runScript(boot, context) as (host: RealmHost) => RealmPort;
    return openRealmIn(context, open, language, foreign);
  };
  let ahead: FreshRealm | undefined;
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

function openRealmIn(
  context: Context,
  open: (host: RealmHost) => RealmPort,
  { define, keysOf }: Language,
  foreign: object | undefined,
): FreshRealm {
  let connected: RealmHost | undefined;
  const port = open((op, id, name, text) => connected?.(op, id, name, text));
  // On the sandbox object behind the global: defined from inside, each would go through an interceptor.
  const names = keysOf(port.globals);
  for (let at = 0; at < names.length; at++) {
    const name = names[at] ?? "";
    define(context, name, port.globals[name]);
  }
  if (foreign !== undefined) define(context, "foreign", foreign);
  return { context, port, connect: (host) => connected = host };
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

// The program that opens a realm, as text: the functions of body.ts, globals.ts and error.ts, side by
// side in one strict function. They are written as functions so that the compiler, the linter and the
// formatter check them like all other code.

/**
 * The source of an expression. Its value is a function that takes the guest's function and opens the
 * realm it runs in. The settings are a literal in it, so they are an object of that realm.
 */
function realmSource(settings: RealmSettings): string {
  const functions = [realm, realmGlobals, realmError].flatMap((part) => Object.values(part));
  return `(function () {\n"use strict";\n${functions.map(String).join("\n")}\n` +
    `return (host) => ${realm.openRealm.name}(host, ${JSON.stringify(settings)});\n})()`;
}
