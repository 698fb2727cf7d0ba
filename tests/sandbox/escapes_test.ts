// Bodies that try to get out, each a file of escapes/ whose second line says how it must end:
// `success` with the JSON of its result, `failure` with a pattern of its error, or `timeout`.

import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { Perform, TaskOutcome } from "../../src/sandbox/run_task.ts";
import type { SelfCommand } from "../../src/executable.ts";
import { silentLog } from "../../src/log.ts";
import { findGuestUser } from "../../src/sandbox/guest_user.ts";
import type { PoolOptions } from "../../src/sandbox/pool.ts";
import { echo, withPool } from "./bodies.ts";
import { eachProgram } from "./programs.ts";

const FOLDER = fromFileUrl(new URL("escapes", import.meta.url));
/** What is run after each body: looks for what it has left, and uses what it may have broken. */
const NEXT = `async (job, cb) => {
  const { name } = await vmadm.get("x");
  await sleep(0);
  log.info(name, { name });
  const keys = [Object, Array, Map].map(({ prototype }) => Object.keys(prototype).length);
  cb(null, [typeof probe, typeof Deno, name, ...keys]);
}`;
const NEXT_RESULT = ["undefined", "undefined", "vmadm.get", 0, 0, 0];
/** For the bodies that must run into their timeout. */
const LOOP_MS = 300;

interface Escape {
  readonly name: string;
  readonly source: string;
  /** The word and what belongs to it. */
  readonly ends: { readonly kind: string; readonly detail: string };
}

async function readEscapes(): Promise<Escape[]> {
  const escapes: Escape[] = [];
  for await (const { name } of Deno.readDir(FOLDER)) {
    const text = await Deno.readTextFile(join(FOLDER, name));
    const [, kind = "", detail = ""] = /^\/\/ ends: (\w+) ?(.*)$/m.exec(text) ?? [];
    // The formatter ends a statement where a source is an expression.
    escapes.push({ name, source: text.trimEnd().replace(/;$/, ""), ends: { kind, detail } });
  }
  return escapes.sort((a, b) => a.name < b.name ? -1 : 1);
}

/** Refuses what is deleted, never answers vnc.wait, and echoes the rest. */
const perform: Perform = (name, args, signal) => {
  if (name === "vmadm.delete") return Promise.reject(new Error("refused"));
  if (name !== "vnc.wait") return echo(name, args, signal);
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
};

function assertEnd(outcome: TaskOutcome, { kind, detail }: Escape["ends"]): void {
  assertEquals(outcome.kind, kind, JSON.stringify(outcome));
  if (outcome.kind === "success") assertEquals(outcome.result, JSON.parse(detail));
  if (outcome.kind === "signal") {
    const { word, result } = outcome;
    assertEquals({ word, result }, JSON.parse(detail));
  }
  if (outcome.kind !== "failure") return;
  const { error } = outcome;
  const text = typeof error === "string"
    ? error
    : Object.values(error ?? {}).slice(0, 2).join(": ");
  assertMatch(text, new RegExp(detail.slice(1, -1)));
}

/** The user as an agent of this program would have it. */
async function guestUser(self: SelfCommand): Promise<Pick<PoolOptions, "user">> {
  const { os } = Deno.build;
  const place = { self, os, root: Deno.uid() === 0, log: silentLog };
  const user = await findGuestUser("auto", place);
  return user === undefined ? {} : { user };
}

const NAME = "no body of the corpus gets out, and the next one is served each time";
eachProgram(NAME, async ({ name, ...program }, t) => {
  const self = { ...program, compiled: name === "binary" };
  const escapes = await readEscapes();
  await withPool(async (run) => {
    for (const { name, source, ends } of escapes) {
      await t.step(name, async () => {
        const limit = ends.kind === "timeout" ? { timeoutMs: LOOP_MS } : {};
        assertEnd(await run(source, { perform, ...limit }), ends);
        const next = await run(NEXT, { perform });
        assertEquals(next, { kind: "success", result: NEXT_RESULT, job: {} });
      });
    }
  }, { self, ...await guestUser(self) });
});
