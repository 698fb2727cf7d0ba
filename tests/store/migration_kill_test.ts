// A start that is killed while it brings an older database to the present schema: before and after the
// copy of it and each step. Nothing is lost, and the next start goes on.

import { assert, assertEquals } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { inspectFile } from "../../src/state/state_dir.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migrations.ts";
import { SCHEMA_1 } from "../../src/store/sqlite/schema_1.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { expectWholeDatabase } from "../chaos/database.ts";
import { sourceProgram } from "../support/agent_process.ts";
import { T0, workflowOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";

const WORKFLOWS = 5;

/** A database of the first schema, with rows. */
function writeSchema1(path: string): void {
  const db = new Database(path);
  db.exec(`PRAGMA journal_mode = WAL; ${SCHEMA_1}; PRAGMA user_version = 1`);
  const insert = db.prepare(
    "INSERT INTO workflows (uuid, name, body, builtin, created_at) VALUES (?, ?, ?, 0, ?)",
  );
  for (let n = 0; n < WORKFLOWS; n++) {
    const workflow = workflowOf({ uuid: randomUuid(), name: `workflow ${n}` });
    insert.run(workflow.uuid, workflow.name, JSON.stringify(workflow), T0);
  }
  db.close();
}

/** Starts an agent that kills itself at a point of the migration. */
async function startAndDie(state: string, failpoint: string): Promise<void> {
  const { program, args, env } = sourceProgram();
  const { signal, stderr } = await new Deno.Command(program, {
    args: [...args, "serve", "--dev", "--listen", "127.0.0.1:0", "--state-dir", state],
    env: { ...env, ZONEWRIGHT_FAILPOINT: failpoint },
    clearEnv: true,
    cwd: "/",
    stdin: "null",
  }).output();
  assertEquals(signal, "SIGKILL", `${failpoint}: ${new TextDecoder().decode(stderr)}`);
}

/** The schema to which a start has come that died at a point, and whether it had kept the older one. */
interface Reached {
  readonly failpoint: string;
  readonly schema: number;
  readonly kept: boolean;
}

function* points(): Generator<Reached> {
  for (const when of ["before", "after"] as const) {
    const done = when === "after" ? 1 : 0;
    yield { failpoint: `migrate_keep:1:${when}`, schema: 1, kept: done === 1 };
    for (let step = 1; step < SCHEMA_VERSION; step++) {
      yield { failpoint: `migrate:${step}:${when}`, schema: step + done, kept: true };
    }
  }
}

for (const { failpoint, schema, kept } of points()) {
  Deno.test(`a start that is killed at ${failpoint} leaves what the next one brings up to date`, () =>
    withFolder(async (state) => {
      const path = join(state, "zonewright.db");
      writeSchema1(path);
      await startAndDie(state, failpoint);
      expectWholeDatabase(state);
      const left = await inspectFile(path);
      assertEquals([left.problems, left.schema, left.workflows], [[], schema, WORKFLOWS]);
      const older = `${path}.schema-1`;
      assertEquals(await Deno.stat(older).then(() => true, () => false), kept);

      const store = await openSqliteStore(path);
      const names = (await store.workflows.list({})).map(({ workflow }) => workflow.name).sort();
      await store.close();
      assertEquals(names, Array.from({ length: WORKFLOWS }, (_, n) => `workflow ${n}`));
      const { problems, schema: present } = await inspectFile(path);
      assertEquals([problems, present], [[], SCHEMA_VERSION]);
      const copy = await inspectFile(older);
      assertEquals([copy.problems, copy.schema, copy.workflows], [[], 1, WORKFLOWS]);
      const files = Array.from(Deno.readDirSync(state), ({ name }) => name);
      assert(!files.some((name) => name.includes(".partial")), files.join());
    }));
}
