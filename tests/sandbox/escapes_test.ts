// The corpus with every layer closed: no body gets out, and each leaves the next one as it was.

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { SelfCommand } from "../../src/runtime/executable.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { findGuestUser } from "../../src/sandbox/user.ts";
import type { PoolOptions } from "../../src/sandbox/pool.ts";
import { withPool } from "./bodies.ts";
import { assertEnd, errorText, LOOP_MS, perform, readEscapes, REALMS } from "./corpus.ts";
import { IMPORTS } from "./import_disguises.ts";
import { eachProgram } from "../support/each_program.ts";

/** What is run after each body: looks for what it has left, and uses what it may have broken. */
const NEXT = `async (job, cb) => {
  const { name } = await vmadm.get("x");
  await sleep(0);
  log.info(name, { name });
  const keys = [Object, Array, Map].map(({ prototype }) => Object.keys(prototype).length);
  cb(null, [typeof probe, typeof Deno, name, ...keys]);
}`;
const NEXT_RESULT = ["undefined", "undefined", "vmadm.get", 0, 0, 0];
/** The user as an agent of this program would have it. */
async function guestUser(self: SelfCommand): Promise<Pick<PoolOptions, "user">> {
  const { os } = Deno.build;
  const place = { self, os, root: Deno.uid() === 0, log: silentLog };
  const user = await findGuestUser("auto", place);
  return user === undefined ? {} : { user };
}

for (const realm of REALMS) {
  const name = `no body of the corpus gets out of a ${realm} realm, and the next one is served`;
  eachProgram(name, async ({ name: kind, ...program }, t) => {
    const self = { ...program, compiled: kind !== "source" };
    const escapes = await readEscapes(realm, kind);
    await withPool(async (run) => {
      for (const { name, source, ends } of escapes) {
        await t.step(name, async () => {
          const limit = ends.kind === "timeout" ? { timeoutMs: LOOP_MS } : {};
          assertEnd(await run(source, { perform, ...limit }), ends);
          const next = await run(NEXT, { perform });
          assertEquals(next, { kind: "success", result: NEXT_RESULT, job: {} });
        });
      }
    }, { self, freshRealm: realm === "fresh", ...await guestUser(self) });
  });
}

eachProgram("nothing is imported, however the word is disguised", async ({ name, ...program }) => {
  const self = { ...program, compiled: name !== "source" };
  await withPool(async (run) => {
    for (const { name, source } of IMPORTS) {
      const outcome = await run(source);
      assert(outcome.kind === "failure", `${name}: ${JSON.stringify(outcome)}`);
      assertMatch(
        errorText(outcome),
        /may use import as code|SyntaxError|is not one function/,
        name,
      );
    }
  }, { self, ...await guestUser(self) });
});
