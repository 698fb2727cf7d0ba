// A restore that is killed at each of its steps: the old database or the new one is there, whole, and
// the next restore and the next start know nothing of it.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { backupState, inspectFile, inspectState } from "../../src/state_dir/state_dir.ts";
import { removeUnfinishedRestore, restoreState } from "../../src/state_dir/database_restore.ts";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { systemNow } from "../../src/domain/instant.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { expectWholeDatabase } from "../chaos/database.ts";
import { programOfRun, runProgram } from "../support/agent_process.ts";
import { workflowOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** Workflows in the database that stands in the state folder, and in the backup. */
const OLD = 7;
const NEW = 3;
const STEPS = ["restore_copy", "restore_settle", "restore_keep", "restore_replace"] as const;

/** The files of a database whose agent was killed: its rows are still in the log. */
async function leaveDatabase(state: string, workflows: number): Promise<void> {
  const live = `${state}.live`;
  await Deno.mkdir(live);
  await Deno.mkdir(state);
  const store = await openSqliteStore(join(live, "zonewright.db"));
  try {
    for (let n = 0; n < workflows; n++) {
      await store.workflows.create(workflowOf({ uuid: randomUuid() }), { max: NO_LIMIT });
    }
    for (const name of ["zonewright.db", "zonewright.db-wal"]) {
      await Deno.copyFile(join(live, name), join(state, name));
    }
  } finally {
    await store.close();
  }
  assert((await Deno.stat(join(state, "zonewright.db-wal"))).size > 0);
}

/** A state folder with OLD workflows, and a backup with NEW of them. */
async function withBoth(
  run: (state: string, copy: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    await leaveDatabase(join(folder, "other"), NEW);
    await backupState(join(folder, "other"), join(folder, "copy.db"));
    await leaveDatabase(join(folder, "state"), OLD);
    await run(join(folder, "state"), join(folder, "copy.db"));
  });
}

/** Restores in a process of its own, which kills itself at a step. */
async function restoreAndDie(state: string, copy: string, failpoint: string): Promise<void> {
  const { program, args, env } = programOfRun();
  const { signal, stderr } = await new Deno.Command(program, {
    args: [...args, "db", "restore", copy, "--yes", "--dev", "--state-dir", state],
    env: { ...env, ZONEWRIGHT_FAILPOINT: failpoint },
    clearEnv: true,
    cwd: "/",
    stdin: "null",
  }).output();
  assertEquals(signal, "SIGKILL", `${failpoint}: ${new TextDecoder().decode(stderr)}`);
}

function namesIn(state: string): string[] {
  return Array.from(Deno.readDirSync(state), ({ name }) => name)
    .filter((name) => name.startsWith("zonewright.db")).sort();
}

async function workflowsIn(state: string): Promise<number> {
  const { workflows, problems } = await inspectState(state);
  assertEquals(problems, []);
  return workflows;
}

for (const step of STEPS) {
  for (const when of ["before", "after"] as const) {
    Deno.test(`a restore that is killed ${when} ${step} leaves a whole database, and is done by the next`, () =>
      withBoth(async (state, copy) => {
        await restoreAndDie(state, copy, `${step}:1:${when}`);
        const isNew = step === "restore_replace" && when === "after";
        expectWholeDatabase(state);
        assertEquals(await workflowsIn(state), isNew ? NEW : OLD);

        // The agent starts as if nothing had been.
        const path = join(state, "zonewright.db");
        removeUnfinishedRestore(path);
        const store = await openSqliteStore(path);
        await store.workflows.create(workflowOf({ uuid: randomUuid() }), { max: NO_LIMIT });
        await store.close();
        assertEquals(namesIn(state).filter((name) => name.includes(".restoring")), []);
        assertEquals(
          namesIn(state).filter((name) => name.includes(".before-restore-")).length,
          isNew ? 1 : 0,
        );
        assertEquals(await workflowsIn(state), (isNew ? NEW : OLD) + 1);

        const { restored, replaced } = await restoreState(copy, state, { now: systemNow });
        assertEquals([restored.workflows, await workflowsIn(state)], [NEW, NEW]);
        const kept = await inspectFile(replaced ?? "");
        assertEquals([kept.problems, kept.workflows], [[], (isNew ? NEW : OLD) + 1]);
      }));
  }
}

/** Leaves a file that is no database, and a log in which there is no whole commit. */
async function ruin(path: string): Promise<void> {
  const bytes = await Deno.readFile(path);
  await Deno.writeFile(path, bytes.fill(0x5a));
  await Deno.truncate(`${path}-wal`, 2000);
}

for (const when of ["before", "after"] as const) {
  Deno.test(`a restore over a damaged database, killed ${when} its log is moved, never mixes the two`, () =>
    withBoth(async (state, copy) => {
      const path = join(state, "zonewright.db");
      await ruin(path);
      const log = await Deno.readFile(`${path}-wal`);
      await restoreAndDie(state, copy, `restore_part:1:${when}`);
      await restoreState(copy, state, { now: systemNow });
      assertEquals(await workflowsIn(state), NEW);
      // Whatever could be saved from the ruins is kept, once, with its log.
      const logs = namesIn(state).filter((name) => /before-restore-.*-wal$/.test(name));
      assert(logs.length >= 1, namesIn(state).join());
      assertEquals(await Deno.readFile(join(state, logs[0] ?? "")), log);
    }));
}

Deno.test("a restore is refused at once, without changes, while another process has the database open", () =>
  withBoth(async (state, copy) => {
    const reader = new Database(join(state, "zonewright.db"));
    try {
      reader.exec("BEGIN; SELECT count(*) FROM workflows");
      reader.prepare("SELECT count(*) FROM workflows").get();
      const error = await assertRejects(
        () => restoreState(copy, state, { now: systemNow }),
        AgentError,
      );
      assertEquals(error.code, "conflict");
      assertStringIncludes(error.message, "another process has it open");
    } finally {
      reader.close();
    }
    assertEquals(await workflowsIn(state), OLD);
    assertEquals((await restoreState(copy, state, { now: systemNow })).restored.workflows, NEW);
  }));

Deno.test("a restore into a folder without a database removes the log of the missing one", () =>
  withBoth(async (state, copy) => {
    await Deno.remove(join(state, "zonewright.db"));
    const { replaced } = await restoreState(copy, state, { now: systemNow });
    assertEquals([replaced, await workflowsIn(state)], [null, NEW]);
    assertEquals(namesIn(state).filter((name) => name === "zonewright.db-wal"), []);
  }));

Deno.test({
  name: "files that root restores belong to the user of the agent",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withBoth(async (state, copy) => {
      const user = 12_345;
      await Deno.chmod(join(state, ".."), 0o711);
      for (const { name } of Deno.readDirSync(state)) {
        await Deno.chown(join(state, name), user, user);
      }
      await Deno.chown(state, user, user);
      // By a process of its own: root acts as that user meanwhile.
      const words = ["db", "restore", copy, "--yes", "--state-dir", state];
      const { code, stderr } = await runProgram(programOfRun(), words);
      assertEquals([code, stderr], [0, ""]);
      for (const { name } of Deno.readDirSync(state)) {
        const { uid, gid } = await Deno.stat(join(state, name));
        assertEquals([name, uid, gid], [name, user, user]);
      }
      // This process must not act as that user: the tests beside this one share it.
      for (const { name } of Deno.readDirSync(state)) await Deno.chown(join(state, name), 0, 0);
      await Deno.chown(state, 0, 0);
      assertEquals(await workflowsIn(state), NEW);
    }),
});
