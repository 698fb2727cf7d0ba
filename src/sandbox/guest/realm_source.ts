// The program that opens a realm, as text: the functions of realm.ts, realm_globals.ts and
// realm_error.ts, side by side in one strict function of the realm. They are written as functions
// so that the compiler, the linter and the formatter read them like everything else.

import * as realm from "./realm.ts";
import * as realmError from "./realm_error.ts";
import * as realmGlobals from "./realm_globals.ts";
import type { RealmSettings } from "./realm_state.ts";

/**
 * The source of an expression whose value takes the guest's function and opens the realm in which it
 * is run. The settings are a part of it: an object of the realm's own, made without parsing.
 */
export function realmSource(settings: RealmSettings): string {
  const functions = [realm, realmGlobals, realmError].flatMap((part) => Object.values(part));
  return `(function () {\n"use strict";\n${functions.map(String).join("\n")}\n` +
    `return (host) => ${realm.openRealm.name}(host, ${JSON.stringify(settings)});\n})()`;
}
