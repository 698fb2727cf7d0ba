// What a guest proves of its realms at each start, in one as tasks have it: that no error, no promise
// and no value in it leads to the objects of another realm, and that nothing can be imported there.

import type { Language } from "../language.ts";
import type { GuestCheck } from "../../protocol.ts";
import type { RealmMaker } from "./context.ts";
import { enter } from "./host.ts";
import * as probe from "./probe_body.ts";
import { type Compiler, fileOf, runScript } from "./script.ts";

/** A function as the source of a task: those of probe_body.ts, which see each other. */
const BODY = `(() => {\n"use strict";\n${Object.values(probe).map(String).join("\n")}\n` +
  `return ${probe.probeBody.name};\n})()`;

/** Where it can be refused, it is refused by an error of the realm. */
const IMPORT = `async (job, cb) => {
  try {
    await import("node:fs");
    cb(null, ["a module can be imported"]);
  } catch (error) {
    cb(null, error instanceof Error ? [] : ["an import is refused by an error of another realm"]);
  }
}`;

/** What the proof takes of a guest. */
export interface RealmProof {
  readonly realms: RealmMaker;
  readonly compiler: Compiler;
  readonly language: Language;
}

/** The check `realm`: what was found in a fresh one that must not be there. */
export async function realmCheck(proof: RealmProof): Promise<GuestCheck> {
  const body = await findings(proof, BODY) ?? ["its proof does not compile"];
  // An import that V8 takes for none is refused before there is a realm.
  const imports = await findings(proof, IMPORT) ?? [];
  const found = [...body, ...imports];
  return found.length === 0
    ? { check: "realm", ok: true, detail: "has nothing of another" }
    : { check: "realm", ok: false, detail: `has in its realm: ${found.join(", ")}` };
}

/** What a source finds in a realm of its own; undefined when it does not compile. */
function findings(
  { realms, compiler, language }: RealmProof,
  source: string,
): Promise<string[]> | undefined {
  const file = fileOf(language, "probe");
  const script = compiler.compile(file, source);
  if (typeof script === "string") return undefined;
  const { context, port, connect } = realms.take();
  const { promise, resolve } = Promise.withResolvers<string[]>();
  // A proof asks for nothing: its calls have no answers, its timers never fire.
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
  // A result that is false counts as none.
  if (kind !== "success" || result === "OK") return [`no end of the proof: ${outcome}`];
  return result;
}
