// The database as a file: copied below a writing agent, judged, put back, and kept before a newer
// program changes its schema.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import {
  backupState,
  inspectFile,
  inspectState,
  takeStateDir,
} from "../../src/state_dir/state_dir.ts";
import { restoreState } from "../../src/state_dir/database_restore.ts";
import { AgentError } from "../../src/domain/error.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { systemNow } from "../../src/domain/instant.ts";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migrations.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { workflowOf } from "../support/job.ts";
import { smallDiskTest, withoutWrites, withSmallDisk } from "../support/small_disk.ts";
import { withFolder } from "../support/until.ts";
import { NEWER } from "./newer_schema.ts";
import { NO_LIMIT } from "../support/limits.ts";

async function withStore(run: (folder: string, add: () => Promise<void>) => Promise<void>) {
  await withFolder(async (folder) => {
    const store = await openSqliteStore(join(folder, "zonewright.db"));
    try {
      await run(folder, async () => {
        const outcome = await store.workflows.create(
          workflowOf({ uuid: randomUuid() }),
          { max: NO_LIMIT },
        );
        assertEquals(outcome.kind, "created");
      });
    } finally {
      await store.close();
    }
  });
}

/** Changes bytes of a table's page, which SQLite's own examination finds. */
async function damage(path: string): Promise<void> {
  const bytes = await Deno.readFile(path);
  const page = 4096;
  for (let at = page; at < bytes.length; at += page) bytes.fill(0xa5, at + 8, at + 400);
  await Deno.writeFile(path, bytes);
}

Deno.test("a backup is a snapshot of the database, even while it is written to", () =>
  withStore(async (folder, add) => {
    for (let i = 0; i < 20; i++) await add();
    const writing = Promise.all(Array.from({ length: 200 }, add));
    const report = await backupState(folder, join(folder, "copy.db"));
    await writing;
    assert(report.workflows >= 20, `${report.workflows}`);
    assertEquals(report.problems, []);
    assertEquals(report.schema, SCHEMA_VERSION);
    assertEquals((await inspectState(folder)).workflows, 220);
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(names.filter((name) => name.startsWith("copy.db")), ["copy.db"]);
  }));

Deno.test("a backup never replaces a file, and names what is missing", () =>
  withStore(async (folder) => {
    const to = join(folder, "copy.db");
    await Deno.writeTextFile(to, "precious");
    const exists = await assertRejects(() => backupState(folder, to), AgentError);
    assertEquals(exists.code, "already_exists");
    assertEquals(await Deno.readTextFile(to), "precious");
    const none = await assertRejects(
      () => backupState(join(folder, "none"), join(folder, "b.db")),
      AgentError,
    );
    assertEquals(none.code, "not_found");
  }));

Deno.test("a restore installs the backup and keeps the old database", () =>
  withFolder(async (folder) => {
    await withStore(async (from, add) => {
      await add();
      await backupState(from, join(folder, "copy.db"));
    });
    const state = join(folder, "state");
    await Deno.mkdir(state);
    const store = await openSqliteStore(join(state, "zonewright.db"));
    await store.close();
    const { restored, replaced } = await restoreState(join(folder, "copy.db"), state, {
      now: systemNow,
    });
    assertEquals(restored.workflows, 1);
    assertEquals((await inspectState(state)).workflows, 1);
    assertEquals((await inspectFile(replaced ?? "")).workflows, 0);
  }));

Deno.test("a restore is refused while an agent runs on the folder", () =>
  withFolder(async (folder) => {
    await withStore(async (from) => void await backupState(from, join(folder, "copy.db")));
    const state = await takeStateDir(join(folder, "state"), randomUuid);
    try {
      const error = await assertRejects(
        () => restoreState(join(folder, "copy.db"), state.path, { now: systemNow }),
        AgentError,
      );
      assertEquals(error.code, "conflict");
    } finally {
      state.release();
    }
  }));

Deno.test("a damaged database, or one of another program, is refused and changes nothing", () =>
  withStore(async (folder, add) => {
    await add();
    const copy = join(folder, "copy.db");
    const state = join(folder, "state");
    const refusals: [string, () => Promise<void>, RegExp][] = [
      [
        "text",
        () => Deno.writeTextFile(copy, "no database ".repeat(1000)),
        /it is not an SQLite database/,
      ],
      [
        "foreign",
        () => {
          const db = new Database(copy);
          db.exec("CREATE TABLE other (x); PRAGMA user_version = 1");
          db.close();
          return Promise.resolve();
        },
        /it has schema 1 and 0 of the tables "jobs" and "workflows", expected schema 1 or later and both/,
      ],
      ["newer", async () => {
        await backupState(folder, copy);
        const db = new Database(copy);
        db.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
        db.close();
      }, /knows up to/],
      ["damaged", async () => {
        await backupState(folder, copy);
        await damage(copy);
      }, /damaged|malformed/],
    ];
    for (const [name, make, words] of refusals) {
      await make();
      const error = await assertRejects(
        () => restoreState(copy, state, { now: systemNow }),
        AgentError,
        "",
        name,
      );
      assert(words.test(error.message), `${name}: ${error.message}`);
      await Deno.remove(copy);
    }
    assertEquals(await Deno.lstat(state).then(() => true, () => false), false);
  }));

Deno.test("the database of a newer program is refused and left unchanged", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    await (await openSqliteStore(path)).close();
    const db = new Database(path);
    db.exec(`PRAGMA journal_mode = DELETE; PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
    db.close();
    const before = await Deno.readFile(path);
    const error = await assertRejects(() => openSqliteStore(path), AgentError);
    assert(
      error.message.includes(`schema ${SCHEMA_VERSION + 1}, this program knows`),
      error.message,
    );
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();
    assertEquals(names.filter((name) => name.includes(".schema-")), []);
    const after = new Database(path, { readonly: true });
    assertEquals(after.prepare("PRAGMA user_version").get()?.user_version, SCHEMA_VERSION + 1);
    after.close();
    assertEquals((await Deno.readFile(path)).length, before.length);
  }));

Deno.test("an older database is copied before its schema is changed", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    await (await openSqliteStore(path)).close();
    await (await openSqliteStore(path, {}, NEWER)).close();
    assertEquals((await inspectFile(`${path}.schema-${SCHEMA_VERSION}`)).schema, SCHEMA_VERSION);
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(names.filter((name) => name.endsWith(".partial")), []);
  }));

Deno.test("an older database that cannot be copied is left unchanged, without a partial copy", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    await (await openSqliteStore(path)).close();
    await Deno.mkdir(`${path}.schema-${SCHEMA_VERSION}`);
    const error = await assertRejects(
      () => openSqliteStore(path, {}, NEWER),
      AgentError,
      "Cannot keep",
    );
    assertEquals(error.code, "internal");
    assertEquals((await inspectFile(path)).schema, SCHEMA_VERSION);
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(names.filter((name) => name.includes(".partial")), []);
  }));

smallDiskTest(
  "on a disk that takes nothing more a database without a log is read, and one with a log refused",
  () =>
    withFolder(async (place) => {
      const folder = join(place, "state");
      await Deno.mkdir(folder);
      await withSmallDisk(folder, 4, async () => {
        await Deno.chmod(folder, 0o700);
        const path = join(folder, "zonewright.db");
        const store = await openSqliteStore(path);
        await store.workflows.create(workflowOf({ uuid: randomUuid() }), { max: NO_LIMIT });
        await store.close();
        const copy = join(place, "copy.db");
        await withoutWrites(folder, async () => {
          assertEquals((await inspectState(folder)).workflows, 1);
          assertEquals((await backupState(folder, copy)).workflows, 1);
        });
        assertEquals((await inspectFile(copy)).workflows, 1);
        const full = join(folder, "full");
        await assertRejects(() => Deno.writeFile(full, new Uint8Array(8 * 1024 * 1024)));
        assertEquals((await backupState(folder, `${copy}.2`)).workflows, 1);
        for (const one of [full, `${path}-shm`]) await Deno.remove(one);
        await Deno.writeTextFile(`${path}-wal`, "some of the log");
        await withoutWrites(folder, async () => {
          await assertRejects(() => inspectState(folder), AgentError, "unable to open");
        });
      });
    }),
);
