// What one task could leave for the next task of the same workflow, in the same guest: by each way of
// leaks.ts, and by code that runs on after the end.

import { assert, assertEquals } from "@std/assert";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import type { GuestLayer } from "../../src/guest/guest.ts";
import { type RunBody, withPool } from "./bodies.ts";
import { REALMS } from "./corpus.ts";
import { LEAKS } from "./leaks.ts";
import { withOpenGuest } from "./open_pool.ts";
import { eachProgram } from "../support/each_program.ts";

/** A body that does one thing, whether it is refused or not, and answers another. */
function body(leave: string, look: string): string {
  return `function (job, cb) {
    try { ${leave} } catch {}
    let found;
    try { found = ${look} } catch (error) { found = error.message }
    cb(null, { found: found === undefined ? "nothing" : found });
  }`;
}

async function resultOf(outcome: Promise<TaskOutcome>): Promise<unknown> {
  const ended = await outcome;
  assert(ended.kind === "success", JSON.stringify(ended));
  return ended.result;
}

async function assertNothingLeft(run: RunBody): Promise<void> {
  for (const { name, leave, look } of LEAKS) {
    const before = await resultOf(run(body("", look)));
    await run(body(leave, "0"));
    assertEquals(await resultOf(run(body("", look))), before, name);
    assertEquals(await resultOf(run(body("", look))), before, `${name}, later`);
  }
}

for (const realm of REALMS) {
  eachProgram(`nothing of a task is left in a ${realm} realm`, async ({ name, ...program }) => {
    const self = { ...program, compiled: name !== "source" };
    await withPool(async (run, pool) => {
      await run(body("", "0"));
      const before = pool.pids();
      await assertNothingLeft(run);
      assertEquals(pool.pids(), before);
    }, { self, freshRealm: realm === "fresh" });
  });

  eachProgram(
    `nothing of a task is left in a ${realm} realm without the other layers`,
    async ({ name, ...program }) => {
      const self = { ...program, compiled: name !== "source" };
      const others: GuestLayer[] = ["permissions", "primordials", "protocol"];
      const run = ({ run }: { run: RunBody }) => assertNothingLeft(run);
      await withOpenGuest(self, others, run, realm === "fresh");
    },
  );
}

Deno.test("each check of these tests finds the leak that it is made for, within one task", async () => {
  await withPool(async (run) => {
    const unseen: string[] = [];
    for (const { name, leave, look } of LEAKS) {
      const before = JSON.stringify(await resultOf(run(body("", look))));
      const after = JSON.stringify(await resultOf(run(body(leave, look))));
      if (before === after) unseen.push(name);
    }
    assertEquals(unseen, []);
  }, { freshRealm: true });
});

for (const realm of REALMS) {
  const name = `what a task asks for after its end is refused and logged, in a ${realm} realm`;
  eachProgram(name, async ({ name, ...program }) => {
    const self = { ...program, compiled: name !== "source" };
    await withPool(async (run) => {
      const calls: string[] = [];
      const lines: unknown[] = [];
      const perform: Perform = (name, args) => {
        if (name.startsWith("log.")) lines.push(args[0]);
        else calls.push(name);
        return Promise.resolve(null);
      };
      const late = `(job, cb) => {
        cb();
        info({});
        setTimeout(() => info({}), 0);
      }`;
      await run(late, { perform });
      // What was set late does not fire in the next task either.
      await run("async (job, cb) => { await sleep(5); cb() }", { perform });
      assertEquals(calls, []);
      assertEquals(lines, [
        "Cannot call info: the task has ended",
        "Cannot set a timer: the task has ended",
      ]);
    }, { self, freshRealm: realm === "fresh" });
  });
}
