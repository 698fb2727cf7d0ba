// The check that a guest runs at each start, in a realm like those of tasks: no error, promise or value
// in it leads to an object of another realm, and nothing can be imported.

import type { Language } from "../../wall/language.ts";
import type { GuestCheck } from "../../wall/protocol.ts";
import type { RealmMaker } from "./context.ts";
import { enter } from "./host.ts";
import * as probe from "./probe_body.ts";
import { type Compiler, fileOf, runScript } from "./script.ts";

/** The functions of probe_body.ts as the source of one task. */
const BODY = `(() => {\n"use strict";\n${Object.values(probe).map(String).join("\n")}\n` +
  `return ${probe.probeBody.name};\n})()`;

/** The refusal of an import must be an error of the same realm. */
const IMPORT = `async (job, cb) => {
  try {
    await import("node:fs");
    cb(null, ["a module can be imported"]);
  } catch (error) {
    cb(null, error instanceof Error ? [] : ["an import is refused by an error of another realm"]);
  }
}`;

/** The parts of a guest that the proof needs. */
interface RealmProof {
  readonly realms: RealmMaker;
  readonly compiler: Compiler;
  readonly language: Language;
}

/** The check `realm`: reports what a fresh realm must not contain. */
export async function realmCheck(proof: RealmProof): Promise<GuestCheck> {
  const body = await findings(proof, BODY) ?? ["its proof does not compile"];
  // An import that does not even compile needs no realm.
  const imports = await findings(proof, IMPORT) ?? [];
  const found = [...body, ...imports];
  return found.length === 0
    ? { check: "realm", ok: true, detail: "has nothing of another" }
    : { check: "realm", ok: false, detail: `has in its realm: ${found.join(", ")}` };
}

/** What a source finds when it runs in a fresh realm; undefined when it does not compile. */
function findings(
  { realms, compiler, language }: RealmProof,
  source: string,
): Promise<string[]> | undefined {
  const file = fileOf(language, "probe");
  const script = compiler.compile(file, source);
  if (typeof script === "string") return undefined;
  const { context, port, connect } = realms.take();
  const { promise, resolve } = Promise.withResolvers<string[]>();
  // The proof needs no answers to its calls, and its timers never fire.
  connect((op, _id, _name, text) => {
    if (op === "end") resolve(findingsIn(text));
  });
  enter(
    () => {
      const define = runScript(script, context) as () => unknown;
      const job = JSON.stringify({ given: Object.keys(port.globals) });
      port.start(define, "body", "probe", file, "", job, "null");
    },
    () => resolve(["an exception of another realm"]),
  );
  return promise;
}

function findingsIn(outcome: string): string[] {
  const { kind, result } = JSON.parse(outcome);
  // A falsy result is reported as "OK".
  if (kind !== "success" || result === "OK") return [`no end of the proof: ${outcome}`];
  return result;
}
