// A start that is killed while it brings an older database to its schema: before and after the copy of
// it and each step. Nothing is lost, and the next start goes on.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { inspectFile } from "../../src/state_dir/state_dir.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { expectWholeDatabase } from "../chaos/database.ts";
import { workflowOf } from "../support/job.ts";
import { withFolder } from "../support/until.ts";
import { examine, NEWER, VERSIONS, writeOlder } from "./newer_schema.ts";
import { NO_LIMIT } from "../support/limits.ts";

const WORKFLOWS = 5;
const PROGRAM = fromFileUrl(new URL("./migration_program.ts", import.meta.url));

async function startAndDie(path: string, point: readonly string[]): Promise<void> {
  const { signal, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--cached-only", "-A", PROGRAM, path, ...point],
    stdin: "null",
  }).output();
  assertEquals(signal, "SIGKILL", `${point}: ${new TextDecoder().decode(stderr)}`);
}

/** The schema that a start has reached when it dies at a point, and whether it had made the copy. */
interface Reached {
  readonly point: readonly string[];
  readonly schema: number;
  readonly kept: boolean;
}

function* points(): Generator<Reached> {
  for (const when of ["before", "after"] as const) {
    const done = when === "after" ? 1 : 0;
    yield { point: ["migrate_keep", "1", when], schema: VERSIONS.older, kept: done === 1 };
    for (let step = 0; VERSIONS.older + step < VERSIONS.newer; step++) {
      const schema = VERSIONS.older + step + done;
      yield { point: ["migrate", `${step + 1}`, when], schema, kept: true };
    }
  }
}

for (const { point, schema, kept } of points()) {
  Deno.test(`a start that is killed at ${point.join(":")} leaves what the next one brings up to date`, () =>
    withFolder(async (state) => {
      const path = join(state, "zonewright.db");
      await writeOlder(path, async (store) => {
        for (let n = 0; n < WORKFLOWS; n++) {
          const workflow = workflowOf({ uuid: randomUuid(), name: `workflow ${n}` });
          await store.workflows.create(workflow, { max: NO_LIMIT });
        }
      });
      await startAndDie(path, point);
      expectWholeDatabase(state);
      assertEquals(examine(path), { version: schema, problems: [] });
      const older = `${path}.schema-${VERSIONS.older}`;
      assertEquals(await Deno.stat(older).then(() => true, () => false), kept);

      const store = await openSqliteStore(path, {}, NEWER);
      const names = (await store.workflows.list({})).map(({ workflow }) => workflow.name).sort();
      await store.close();
      assertEquals(names, Array.from({ length: WORKFLOWS }, (_, n) => `workflow ${n}`));
      assertEquals(examine(path), { version: VERSIONS.newer, problems: [] });
      const copy = await inspectFile(older);
      assertEquals([copy.problems, copy.schema, copy.workflows], [[], VERSIONS.older, WORKFLOWS]);
      const files = Array.from(Deno.readDirSync(state), ({ name }) => name);
      assert(!files.some((name) => name.includes(".partial")), files.join());
    }));
}
