// The orphan killer of guests and decoders on illumos, with the shell of this host.

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { silentLog } from "../../src/metrics/log.ts";
import { openOrphanKiller } from "../../src/sandbox/orphaned_guests.ts";
import { spawnWalled, takeRest } from "../../src/sandbox/walled_process.ts";
import { isRunning, startPrinting } from "../support/processes.ts";
import { until, withFolder } from "../support/until.ts";

const TOOLS = { sh: "/bin/sh" };
const SLEEP = { program: "/bin/sleep", args: ["3600"], env: {}, cannotRefuse: [] };

/** The shells that a process has started and that run. */
function shells(parent = Deno.pid): number[] {
  const { stdout } = new Deno.Command("/usr/bin/ps", {
    args: ["-o", "pid=,stat=,comm=", "--ppid", `${parent}`],
  }).outputSync();
  const lines = new TextDecoder().decode(stdout).matchAll(/^ *(\d+) +[^Z\s]\S* +sh$/gm);
  return Array.from(lines, ([, pid]) => Number(pid));
}

/** Starts an agent that keeps two processes, of which one has ended. */
async function startKeptAgent(folder: string) {
  const { agent, ids: [kept = 0, ended = 0] } = await startPrinting(
    new URL("kept_agent.ts", import.meta.url),
    folder,
  );
  return { agent, kept, ended };
}

Deno.test("kept processes do not outlive a killed agent", async () => {
  await withFolder(async (folder) => {
    const { agent, kept, ended } = await startKeptAgent(folder);
    assertEquals([isRunning(kept), isRunning(ended)], [true, false]);
    agent.kill("SIGKILL");
    await agent.status;
    await until("the end of what was kept", () => !isRunning(kept));
  });
});

Deno.test("guests that outlive agent and orphan killer are ended by the next agent, and no other process", async () => {
  await withFolder(async (folder) => {
    const { agent, kept } = await startKeptAgent(folder);
    // Stopped, it cannot end anything before it is killed itself.
    const [orphanKiller = 0] = shells(agent.pid);
    Deno.kill(orphanKiller, "SIGSTOP");
    agent.kill("SIGKILL");
    await agent.status;
    Deno.kill(orphanKiller, "SIGKILL");
    assertEquals(isRunning(kept), true);
    const [note = ""] = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(note.split("-")[0], `${kept}`);
    // The ids of others: of one that leads no session, of one that began at another time, of none.
    const inOurSession = spawnWalled(SLEEP);
    const other = spawnWalled({ ...SLEEP, ownSession: true });
    const now = Date.now();
    const notes = [`${inOurSession.pid}-${now}`, `${other.pid}-${now - 60_000}`, `4194304-${now}`];
    for (const name of notes) {
      await Deno.mkdir(join(folder, name));
    }
    const next = await openOrphanKiller({ ...TOOLS, ps: "/usr/bin/ps" }, {
      log: silentLog,
      folder,
    });
    await until("the end of what was left", () => !isRunning(kept));
    assertEquals(Array.from(Deno.readDirSync(folder)), []);
    await next?.close();
    for (const { pid, status, stdin, stdout, stderr } of [inOurSession, other]) {
      assertEquals(isRunning(pid), true);
      Deno.kill(pid, "SIGKILL");
      await status;
      await Promise.all([stdin.close(), stdout.cancel(), stderr.cancel()]);
    }
  });
});

Deno.test("a killed orphan killer is replaced by another, which keeps the same processes", async () => {
  const before = shells();
  const orphanKiller = await openOrphanKiller(TOOLS, { log: silentLog });
  assert(orphanKiller !== undefined);
  const child = spawnWalled({ ...SLEEP, orphanKiller });
  const [first = 0] = shells().filter((pid) => !before.includes(pid));
  Deno.kill(first, "SIGKILL");
  await until(
    "another orphan killer",
    () => shells().some((pid) => pid !== first && !before.includes(pid)),
  );
  await orphanKiller.close();
  assertEquals((await child.status).signal, "SIGKILL");
  await Promise.all([child.stdin.close(), child.stdout.cancel(), child.stderr.cancel()]);
});

Deno.test("a closed orphan killer ends the processes that it still keeps", async () => {
  const orphanKiller = await openOrphanKiller(TOOLS, { log: silentLog });
  assert(orphanKiller !== undefined);
  const child = spawnWalled({ ...SLEEP, orphanKiller });
  await orphanKiller.close();
  assertEquals((await child.status).signal, "SIGKILL");
  await Promise.all([child.stdin.close(), child.stdout.cancel(), child.stderr.cancel()]);
});

Deno.test("no orphan killer is started where the kernel ends guests, or without a shell", async () => {
  const place = { log: silentLog };
  assertEquals(await openOrphanKiller({ ...TOOLS, setpriv: "/usr/bin/setpriv" }, place), undefined);
  assertEquals(await openOrphanKiller({}, place), undefined);
});

Deno.test("a guest of illumos leads a session of its own", async () => {
  const child = spawnWalled({ ...SLEEP, ownSession: true });
  const { stdout } = await new Deno.Command("/usr/bin/ps", {
    args: ["-o", "sid=", "-p", `${child.pid}`],
  }).output();
  child.kill("SIGKILL");
  await child.status;
  assertEquals(Number(new TextDecoder().decode(stdout)), child.pid);
  await Promise.all([child.stdin.close(), child.stdout.cancel(), child.stderr.cancel()]);
});

Deno.test("takeRest() reports why the remaining privileges of a process cannot be taken", async () => {
  const script = (text: string) => ["/bin/sh", "-c", text, "ppriv"];
  assertEquals(await takeRest({}, 4711), undefined);
  assertEquals(await takeRest({ takesRest: script('[ "$1" = 4711 ]') }, 4711), undefined);
  const words = await takeRest({ takesRest: script("echo not owner >&2; exit 1") }, 4711);
  assert(words?.endsWith("failed: not owner"), words);
});
