// The pool: what it does with guests that cannot start, break the protocol, or are lost, and that
// it leaves nothing behind.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { DEFAULT_LIMITS } from "../../src/config/limits.ts";
import { AgentError } from "../../src/domain/error.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { makeGuestFolder, openGuestSocket } from "../../src/sandbox/guest_socket.ts";
import { writeAll } from "../../src/wall/lines.ts";
import { openPool } from "../../src/sandbox/pool.ts";
import { ProcessOutput } from "../../src/sandbox/walled_process.ts";
import type { TaskOutcome } from "../../src/sandbox/run_task.ts";
import { isRunning } from "../support/processes.ts";
import { heldTimers } from "../support/timers.ts";
import { until, withFolder } from "../support/until.ts";
import { endless, hostile, meet, ownerNamed, runBody, withPool } from "./bodies.ts";
import { sourceChecksHere } from "../support/parsed_workflow.ts";
import { selfOfRun } from "../support/agent_process.ts";

const OK = "(job, cb) => cb()";
const checkSource = sourceChecksHere().runnable;

function errorMessage(outcome: TaskOutcome): string {
  if (outcome.kind !== "failure") throw new Error(`Expected a failure: ${JSON.stringify(outcome)}`);
  return JSON.stringify(outcome.error);
}

Deno.test("a pool starts with a spare, and has one guest more than tasks at work", async () => {
  await withPool(async (run, pool) => {
    assertEquals(pool.pids().length, 1);
    await run(OK);
    assertEquals(pool.pids().length, 2);
    const both = Promise.withResolvers<null>();
    let calls = 0;
    const perform = () => {
      if (++calls === 2) both.resolve(null);
      return both.promise;
    };
    const body = "async () => { await info({}); }";
    await Promise.all([1, 2].map(() => runBody(pool, body, { perform })));
    assertEquals(pool.pids().length, 3);
  }, { slots: 2 });
});

Deno.test("a pool that waits with its spare starts guests for tasks only", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await withPool(async (run, pool) => {
    assertEquals(pool.pids().length, 0);
    assertEquals((await run(OK)).kind, "success");
    await until("a spare is ready", () => pool.counts().spare === 1);
  }, { spareAfter: promise });
  await withPool(async (_run, pool) => {
    assertEquals(pool.pids().length, 0);
    resolve();
    await until("a spare is ready", () => pool.counts().spare === 1);
  }, { spareAfter: promise });
});

Deno.test("close() leaves no process and no socket behind", async () => {
  await withFolder(async (runtimeDir) => {
    const log = silentLog;
    const pool = await openPool({
      self: selfOfRun(),
      limits: DEFAULT_LIMITS,
      slots: 2,
      runtimeDir,
      log,
      checkSource,
    });
    await runBody(pool, OK, {});
    const running = Promise.withResolvers<void>();
    const perform = () => Promise.resolve(running.resolve()).then(() => null);
    const busy = runBody(pool, "async () => { await info({}); for (;;); }", { perform });
    await running.promise;
    const pids = pool.pids();
    assertEquals(pids.length, 2);
    await pool.close();
    for (const pid of pids) assertEquals(isRunning(pid), false);
    assertEquals([...Deno.readDirSync(runtimeDir)], []);
    assertMatch(errorMessage(await busy), /was ended with its pool/);
    assertEquals(await runBody(pool, OK, {}), { kind: "aborted" });
  });
});

Deno.test("a pool replaces a guest that was killed from outside, busy or idle", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const before = pool.pids();
    for (const pid of before) Deno.kill(pid, "SIGKILL");
    await until("new guests", () => pool.pids().every((pid) => !before.includes(pid)));
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("a pool replaces a guest after its share of executions", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const guest = await pool.acquire(ownerNamed("a test"), new AbortController().signal);
    guest.runs = 4999;
    pool.release(guest);
    assertEquals(pool.pids().includes(guest.pid), true);
    assertEquals((await run(OK)).kind, "success");
    await until("its replacement", () => !pool.pids().includes(guest.pid));
    assertEquals((await run(OK)).kind, "success");
  });
});

Deno.test("a pool ends a used guest once nothing has run for a while", async () => {
  const timers = heldTimers();
  await withPool(async (run, pool) => {
    for (let count = 0; count < 50; count++) assertEquals((await run(OK)).kind, "success");
    const guest = await pool.acquire(ownerNamed("a test"), new AbortController().signal);
    await until("the spare", () => pool.counts().spare === 1);
    pool.release(guest);
    timers.advance(5000);
    await until("the spare alone", () => !pool.pids().includes(guest.pid));
    assertEquals(pool.pids().length, 1);
    assertEquals((await run(OK)).kind, "success");
  }, { timers });
});

Deno.test("a guest has no capability, no new privileges, and limits, on Linux", async () => {
  await withPool(async (run, pool) => {
    await run(OK);
    const [pid] = pool.pids();
    const status = await Deno.readTextFile(`/proc/${pid}/status`);
    assertMatch(status, /^NoNewPrivs:\t1$/m);
    if (Deno.uid() === 0) assertMatch(status, /^CapEff:\t0+$/m);
    assertMatch(status, /^CapBnd:\t0+$/m);
    const limits = await Deno.readTextFile(`/proc/${pid}/limits`);
    assertMatch(limits, /^Max data size +828435456 /m);
    assertMatch(limits, /^Max open files +64 /m);
    assertMatch(limits, /^Max core file size +0 /m);
    const environment = await Deno.readTextFile(`/proc/${pid}/environ`);
    assertEquals(environment.includes("PATH="), false);
    assertEquals(await Deno.readLink(`/proc/${pid}/cwd`), "/");
    const line = await Deno.readTextFile(`/proc/${pid}/cmdline`);
    assertEquals(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}/.test(line), false);
  });
});

Deno.test("guests ignore the signals that stop a whole process group", async () => {
  await withPool(async (run, pool) => {
    // One that is still being started would be ended.
    const before = pool.pids();
    await meet(run);
    for (const pid of before) {
      for (const signal of ["SIGUSR1", "SIGINT", "SIGTERM", "SIGHUP"] as const) {
        Deno.kill(pid, signal);
      }
    }
    assertEquals(await run("async (job, cb) => { await sleep(50); cb(null, 1) }"), {
      kind: "success",
      result: 1,
      job: {},
    });
    assertEquals(pool.pids().filter((pid) => before.includes(pid)), before);
  });
});

Deno.test("a pool with too long a folder puts its socket into the temporary folder", async () => {
  await withFolder(async (folder) => {
    const runtimeDir = join(folder, "x".repeat(100));
    await Deno.mkdir(runtimeDir);
    await withPool(async (run) => {
      assertEquals((await run(OK)).kind, "success");
      assertEquals(Array.from(Deno.readDirSync(runtimeDir), ({ name }) => name), ["guests.folder"]);
    }, { runtimeDir });
  });
});

Deno.test("openPool() refuses another user for guests when the agent is not root", async () => {
  if (Deno.uid() === 0) return;
  await withFolder(async (runtimeDir) => {
    const self = selfOfRun();
    const user = { uid: 65534, gid: 65534 };
    await assertRejects(
      () =>
        openPool({
          self,
          limits: DEFAULT_LIMITS,
          slots: 1,
          runtimeDir,
          log: silentLog,
          user,
          checkSource,
        }),
      AgentError,
      "the agent is not root",
    );
  });
});

function whyNotStarted(outcome: TaskOutcome): string {
  return outcome.kind === "not_started" ? outcome.why : JSON.stringify(outcome);
}

Deno.test("a task is not started when no guest starts, and the pool says why until one does", async (t) => {
  const ways: Record<string, RegExp> = {
    open: /is not closed: it can read a file/,
    untried: /is not closed: it did not try "read", .*"import"/,
    early: /spoke before it was ready/,
    nothing: /there is no way named nothing/,
  };
  for (const [way, why] of Object.entries(ways)) {
    await t.step(way, async () => {
      await withPool(async (run) => {
        assertMatch(whyNotStarted(await run(OK)), why);
      }, { self: hostile(way) });
    });
  }
  await t.step("a program that is not there", async () => {
    const self = { program: "/nothing/here", args: [], env: {}, compiled: true };
    await withPool(async (run, pool) => {
      assertEquals(pool.startProblem, undefined);
      const words = /^Cannot start a guest for the task: (its process .+)$/s;
      const [, why] = words.exec(whyNotStarted(await run(OK))) ?? [];
      assertEquals(why, pool.startProblem);
    }, { self });
  });
  await t.step("a program that is put there later", async () => {
    await withFolder(async (folder) => {
      const self = selfOfRun();
      const program = join(folder, "program");
      await withPool(async (run, pool) => {
        assertMatch(whyNotStarted(await run(OK)), /Cannot start a guest/);
        await Deno.symlink(self.program, program);
        await until("a guest", () => pool.counts().spare > 0 || undefined);
        assertEquals(pool.startProblem, undefined);
        assertEquals((await run(OK)).kind, "success");
      }, { self: { ...self, program } });
    });
  });
});

Deno.test("the last words of a process are kept without their colors", async () => {
  const output = new ProcessOutput(silentLog, () => {});
  await output.take(new Blob(["\x1b[0m\x1b[1m\x1b[31merror\x1b[0m: no file"]).stream());
  assertEquals(output.tail, "error: no file");
});

Deno.test("a task can be given up while it waits for a guest", async () => {
  await withPool(async (run) => {
    const signal = AbortSignal.timeout(200);
    assertEquals(await run(OK, { signal }), { kind: "aborted" });
  }, { self: hostile("token") });
});

Deno.test("a guest that breaks the protocol is killed, and its task fails with the reason", async (t) => {
  const ways: Record<string, RegExp> = {
    garbage: /broke the protocol: .*it is not JSON/,
    bytes: /broke the protocol/,
    flood: /longer than 16777216 bytes/,
    other_run: /spoke out of turn/,
    unknown_call: /name is not one of the known words/,
    same_call: /used the number of a call twice/,
    many_calls: /made too many calls/,
    many_logs: /wrote too many log lines/,
    ready_again: /spoke out of turn/,
    closed_first: /spoke out of turn/,
    output: /wrote more than 1048576 bytes to its output/,
    errors: /wrote more than 1048576 bytes to its output/,
    gone: /ended with exit code 3/,
    hangs_up: /closed its connection/,
  };
  for (const [way, why] of Object.entries(ways)) {
    await t.step(way, async () => {
      await withPool(async (run, pool) => {
        assertMatch(errorMessage(await run(OK, { perform: endless })), why);
        const [pid] = pool.pids();
        assert(pid !== undefined);
      }, { self: hostile(way) });
    });
  }
});

Deno.test("a guest that takes no answers is killed before they fill the agent", async () => {
  await withPool(async (run) => {
    const perform = () => Promise.resolve("x".repeat(1024 * 1024));
    const outcome = await run(OK, { perform });
    assertMatch(errorMessage(outcome), /left over 50331648 characters unread|too many calls/);
  }, { self: hostile("deaf") });
});

Deno.test("connections to the guests' socket without a token are closed, however many", async () => {
  await withFolder(async (runtimeDir) => {
    const guestSocket = await openGuestSocket({ runtimeDir });
    const knock = async (text: string) => {
      const socket = await Deno.connect({ transport: "unix", path: guestSocket.path });
      try {
        await writeAll(socket, new TextEncoder().encode(text));
        return await socket.read(new Uint8Array(1));
      } catch {
        return null; // The socket was closed while we wrote.
      } finally {
        socket.close();
      }
    };
    assertEquals(await knock("nobody knows this\n"), null);
    // Longer than any token: turned away before the line ends.
    assertEquals(await knock("x".repeat(1000)), null);
    const silent = await Promise.all(
      Array.from(
        { length: 128 },
        () => Deno.connect({ transport: "unix", path: guestSocket.path }),
      ),
    );
    // The silent ones wait for their time to be up, and this one finds no room beside them.
    assertEquals(await knock(""), null);
    for (const socket of silent) socket.close();
    await guestSocket.close();
  });
});

Deno.test("a guest that breaks the protocol after its task is killed, and the outcome stays", async (t) => {
  for (const way of ["end_twice", "end_open", "call_after_end"]) {
    await t.step(way, async () => {
      await withPool(async (run, pool) => {
        for (const gone of [1, 2]) {
          assertEquals(await run(OK), { kind: "success", result: 1, job: {} });
          assertEquals(pool.counts().started - pool.pids().length, gone);
        }
      }, { self: hostile(way) });
    });
  }
});

Deno.test("makeGuestFolder() sweeps the temporary folder of what dead agents left there", async () => {
  await withFolder(async (folder) => {
    const temporaryDir = join(folder, "tmp");
    const runtimeDir = join(folder, "x".repeat(100));
    const make = async (name: string, withSocket: boolean, ageMs: number) => {
      const path = join(temporaryDir, name);
      await Deno.mkdir(path, { recursive: true });
      const socket = join(path, "s");
      const listener = withSocket ? Deno.listen({ transport: "unix", path: socket }) : undefined;
      await setAge(path, ageMs);
      return { path, listener };
    };
    const old = 3_600_000;
    const dead = await make("zonewright-guests-dead", true, old);
    // Under another name Deno does not find it to remove it when it stops to listen.
    await Deno.rename(join(dead.path, "s"), join(folder, "s"));
    dead.listener?.close();
    await Deno.rename(join(folder, "s"), join(dead.path, "s"));
    await setAge(dead.path, old);
    const live = await make("zonewright-guests-live", true, old);
    await make("zonewright-guests-empty", false, old);
    await make("zonewright-guests-young", false, 0);
    await make("guests-of-others", false, old);
    const filled = await make("zonewright-guests-filled", false, old);
    await Deno.writeTextFile(join(filled.path, "file"), "");
    await setAge(filled.path, old);
    await Deno.mkdir(runtimeDir);
    const before = Deno.env.get("TMPDIR");
    Deno.env.set("TMPDIR", temporaryDir);
    const ours = await makeGuestFolder({ runtimeDir }).finally(() =>
      before === undefined ? Deno.env.delete("TMPDIR") : Deno.env.set("TMPDIR", before)
    );
    try {
      const kept = Array.from(Deno.readDirSync(temporaryDir), ({ name }) => name)
        .filter((name) => !ours.socketPath.includes(name));
      assertEquals(kept.sort(), [
        "guests-of-others",
        "zonewright-guests-filled",
        "zonewright-guests-live",
        "zonewright-guests-young",
      ]);
    } finally {
      live.listener?.close();
      await ours.remove();
    }
  });
});

/** Makes a folder look as if it had been made so long ago. */
async function setAge(path: string, ms: number): Promise<void> {
  const then = new Date(Date.now() - ms);
  await Deno.utime(path, then, then);
}

Deno.test("a pool whose socket was removed opens another, and no task fails", async () => {
  await withFolder(async (runtimeDir) => {
    const options = { limits: DEFAULT_LIMITS, self: selfOfRun(), slots: 1, runtimeDir };
    const pool = await openPool({ ...options, log: silentLog, checkSource });
    try {
      await until("a spare", () => pool.counts().spare === 1);
      const note = join(runtimeDir, "guests.folder");
      const folder = await Deno.readTextFile(note);
      await Deno.remove(folder, { recursive: true });
      // Both need a guest of their own.
      for (const name of ["first", "second"]) {
        const outcome = await runBody(pool, OK, { owner: ownerNamed(name) });
        assertEquals([name, outcome.kind], [name, "success"]);
      }
      assert(await Deno.readTextFile(note) !== folder);
    } finally {
      await pool.close();
    }
    assertEquals([...Deno.readDirSync(runtimeDir)], []);
  });
});

Deno.test("openPool() removes the folder that a killed agent has left", async () => {
  await withFolder(async (runtimeDir) => {
    const left = join(runtimeDir, "guests-left");
    await Deno.mkdir(left);
    await Deno.writeTextFile(join(left, "s"), "");
    await Deno.writeTextFile(join(runtimeDir, "guests.folder"), left);
    const pool = await openPool({
      limits: DEFAULT_LIMITS,
      self: selfOfRun(),
      slots: 1,
      runtimeDir,
      log: silentLog,
      checkSource,
    });
    await pool.close();
    assertEquals([...Deno.readDirSync(runtimeDir)], []);
  });
});
