// Commands that change the files of one folder, one at a time.

import { assertEquals, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { aloneIn } from "../../src/runtime/folder_lock.ts";
import { quickTimers } from "../support/timers.ts";
import { withFolder } from "../support/until.ts";

Deno.test("a command does not wait forever for a folder that another process has locked", () =>
  withFolder(async (folder) => {
    // As flock(1) has it, which may have begun the command.
    const other = await Deno.open(folder);
    await other.lock(true);
    const error = await assertRejects(
      () => aloneIn(folder, () => Promise.resolve(), { timers: quickTimers(1000) }),
      AgentError,
    );
    assertEquals([error.code, error.message], [
      "conflict",
      `Cannot change files in ${folder}: process ${Deno.pid} has locked it`,
    ]);
    const noted = Promise.withResolvers<string>();
    const waiting = aloneIn(folder, () => Promise.resolve("done"), { note: noted.resolve });
    assertEquals(await noted.promise, `waiting until process ${Deno.pid} is done with ${folder}`);
    other.close();
    assertEquals(await waiting, "done");
  }));
