// Makes realms: a fresh context each, with the boot script of realm_source.ts run in it and nothing
// else. One is made ahead while its guest has nothing to do, so that a task does not wait for it.

import { type Context, createContext, Script } from "node:vm";
import * as protocol from "./protocol.ts";
import { realmSource } from "./realm_source.ts";
import type { RealmHost, RealmPort, RealmSettings } from "./realm_state.ts";
import type { TaskLimits } from "./task_limits.ts";

const FIXED = {
  capabilities: capabilityGroups(),
  signals: protocol.SIGNALS,
  argsMax: protocol.ARGS_MAX,
  callsInFlightMax: protocol.CALLS_IN_FLIGHT_MAX,
  timersMax: protocol.TIMERS_MAX,
};

function settingsOf(limits: TaskLimits): RealmSettings {
  const { resultCharsMax, jobLeftCharsMax, errorCharsMax, callCharsMax, ...log } = limits;
  return {
    ...FIXED,
    resultCharsMax,
    jobCharsMax: jobLeftCharsMax,
    errorCharsMax,
    argsCharsMax: callCharsMax,
    logLinesMax: log.logLinesMax,
    logCharsMax: log.logCharsMax,
  };
}

/** A realm in which no task has run. */
export interface FreshRealm {
  readonly context: Context;
  readonly port: RealmPort;
  /** From now on the realm's wishes go to `host`; before, it has none. */
  connect(host: RealmHost): void;
}

/** Makes realms one by one. */
export interface RealmMaker {
  /** The realm that was made ahead, or else a new one. */
  take(): FreshRealm;
  /** Makes the next realm, unless it is there. */
  makeAhead(): void;
}

/** Opens the making of realms, while node:vm still has all that it needs. */
export function openRealmMaker(limits: TaskLimits): RealmMaker {
  const boot = new Script(realmSource(settingsOf(limits)), { filename: "realm" });
  let ahead: FreshRealm | undefined;
  return {
    take() {
      const realm = ahead ?? makeRealm(boot);
      ahead = undefined;
      return realm;
    },
    makeAhead() {
      ahead ??= makeRealm(boot);
    },
  };
}

function makeRealm(boot: Script): FreshRealm {
  const global = Object.create(null);
  const context = createContext(global, { codeGeneration: { strings: false, wasm: false } });
  let connected: RealmHost | undefined;
  const port: RealmPort = boot.runInContext(context)(
    ((op, id, name, text) => connected?.(op, id, name, text)) satisfies RealmHost,
  );
  // On the object behind the global one: defined from inside, each would go through an interceptor.
  for (const name of Object.keys(port.globals)) {
    Object.defineProperty(global, name, {
      value: port.globals[name],
      writable: true,
      enumerable: false,
      configurable: true,
    });
  }
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
