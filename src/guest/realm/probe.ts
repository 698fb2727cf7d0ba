// The check that a guest runs at each start, in a realm like those of tasks: no error, promise or value
// in it leads to an object of another realm, and nothing can be imported.

import type { Language } from "../../wall/language.ts";
import type { GuestCheck } from "../../wall/protocol.ts";
import type { RealmMaker } from "./context.ts";
import { enter } from "./host.ts";
import * as probe from "./probe_body.ts";
import { type Compiler, fileOf } from "./script.ts";

/**
 * The functions of probe_body.ts as the source of one task. The names of what the task is given are in
 * it, and `this` is the global object.
 */
function probeSource(names: readonly string[]): string {
  return `(() => {\n"use strict";\n${Object.values(probe).map(String).join("\n")}\n` +
    `return (job, cb) => ${probe.probeBody.name}({ ${names.join(", ")} }, this, cb);\n})()`;
}

/** The refusal of an import must be an error of the same realm. */
const IMPORT = `async (job, cb) => {
  try {
    await import("node:fs");
    cb(null, ["a module can be imported"]);
  } catch (error) {
    cb(null, error instanceof Error ? [] : ["an import is refused by an error of another realm"]);
  }
}`;

interface RealmProof {
  readonly realms: RealmMaker;
  readonly compiler: Compiler;
  readonly language: Language;
}

/** The check `realm`: reports what a realm must not contain. */
export async function realmCheck(proof: RealmProof): Promise<GuestCheck> {
  const body = await findings(proof, probeSource) ?? ["its proof does not compile"];
  // An import that does not even compile needs no realm.
  const imports = await findings(proof, () => IMPORT) ?? [];
  const found = [...body, ...imports];
  return found.length === 0
    ? { check: "realm", ok: true, detail: "shares nothing with another" }
    : { check: "realm", ok: false, detail: `has in its realm: ${found.join(", ")}` };
}

/**
 * What a source finds in a realm such as tasks have.
 * @param names makes the source, given the names of what a task gets
 * @returns undefined when the source does not compile
 */
function findings(
  { realms, compiler, language }: RealmProof,
  sourceOf: (names: readonly string[]) => string,
): Promise<string[]> | undefined {
  const { port, connect, define } = realms.take(realms.sharedNames !== undefined);
  const file = fileOf(language, "probe");
  const script = compiler.compile(file, sourceOf(Object.keys(port.given)));
  if (typeof script === "string") return undefined;
  const { promise, resolve } = Promise.withResolvers<string[]>();
  // The proof needs no answers to its calls, and its timers never fire.
  connect((op, _id, _name, text) => {
    if (op === "end") resolve(findingsIn(text));
  });
  const { names = "" } = script;
  enter(
    () => port.start(define(script), names, "body", "probe", file, "", "{}", "null"),
    () => resolve(["an exception of another realm"]),
  );
  return promise;
}

function findingsIn(outcome: string): string[] {
  const { kind, result } = JSON.parse(outcome);
  // An undefined result is reported as "OK".
  if (kind !== "success" || result === "OK") return [`no end of the proof: ${outcome}`];
  return result;
}
