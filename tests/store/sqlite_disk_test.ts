// The SQLite store on disks that are full, and on one that fails.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { Database } from "@db/sqlite";
import { AgentError } from "../../src/domain/error.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { openClockedStore } from "../support/clocked_store.ts";
import { jobOf, T0 } from "../support/job.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { withFolder } from "../support/until.ts";
import type { FailingDiskReport } from "./failing_disk.ts";
import { assertStats } from "./store_case.ts";
import { NO_LIMIT } from "../support/limits.ts";

smallDiskTest(
  "sqlite: a full disk refuses writes as storage_full, and loses nothing",
  () =>
    withFolder((folder) =>
      withSmallDisk(folder, 1, async () => {
        const store = await openSqliteStore(`${folder}/store.db`);
        try {
          const kept: string[] = [];
          const fill = async () => {
            for (let number = 1; number < 1000; number++) {
              const pad = "x".repeat(20_000);
              await store.jobs.create(jobOf(number, { params: { pad } }), NO_LIMIT);
              kept.push(jobOf(number).uuid);
            }
          };
          const error = await assertRejects(fill, AgentError, "full");
          assertEquals(error.code, "storage_full");
          const jobs = await store.jobs.list({});
          assertEquals(jobs.map(({ job }) => `${job.uuid}`).reverse(), kept);
          assertEquals((await store.jobs.stats()).current.queued, kept.length);
        } finally {
          await store.close();
        }
      })
    ),
);

Deno.test("sqlite: a file that was removed or replaced takes no write until it is back", () =>
  withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const store = await openSqliteStore(path);
    try {
      await Deno.rename(path, `${path}.moved`);
      const removed = await assertRejects(
        () => store.jobs.create(jobOf(1), NO_LIMIT),
        AgentError,
        "removed",
      );
      assertEquals(removed.code, "overloaded");
      await Deno.copyFile(`${path}.moved`, path);
      await assertRejects(() => store.jobs.create(jobOf(1), NO_LIMIT), AgentError, "replaced");
      assertEquals(await store.jobs.list({}), []);
      await Deno.rename(`${path}.moved`, path);
      await store.jobs.create(jobOf(1), NO_LIMIT);
      assertEquals((await store.jobs.list({})).length, 1);
    } finally {
      await store.close();
    }
  }));

Deno.test("sqlite: no database is made beside the log of one that was removed", () =>
  withFolder(async (folder) => {
    const [path, other] = [`${folder}/store.db`, `${folder}/other.db`];
    const store = await openSqliteStore(path);
    try {
      await store.jobs.create(jobOf(1), NO_LIMIT);
      await Deno.copyFile(`${path}-wal`, `${other}-wal`);
      const error = await assertRejects(() => openSqliteStore(other), AgentError, "was removed");
      assertEquals(error.code, "conflict");
      await Deno.copyFile(path, other);
      const again = await openSqliteStore(other);
      try {
        assertEquals((await again.jobs.list({})).length, 1);
      } finally {
        await again.close();
      }
    } finally {
      await store.close();
    }
  }));

/** Runs the program whose disk fails when a file is beyond so many blocks of 512 bytes. */
async function runOnFailingDisk(path: string, blocks: number): Promise<FailingDiskReport> {
  const program = fromFileUrl(new URL("./failing_disk.ts", import.meta.url));
  // The signal would end the program; ignored, the write itself fails.
  const script = `trap '' XFSZ; ulimit -f ${blocks}; exec "$@"`;
  const deno = [Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", "-A", program];
  const output = await new Deno.Command("/bin/sh", {
    args: ["-c", script, "sh", ...deno, path],
    stdout: "piped",
    stderr: "piped",
  }).output();
  const [reported, failed] = [output.stdout, output.stderr].map((text) =>
    new TextDecoder().decode(text)
  );
  assert(output.success, failed);
  return JSON.parse(reported ?? "");
}

Deno.test("sqlite: a failed disk refuses all that comes later, and keeps what was acknowledged", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/store.db`;
    const report = await runOnFailingDisk(path, 2000);
    assert(report.acknowledged > 0);
    assertEquals(report.together, ["aborted", "aborted"]);
    assertEquals(report.later, ["aborted", "aborted", "aborted", "aborted"]);
    assertEquals(report.reported, 1);
    const store = await openClockedStore(path);
    assertEquals(await store.jobs.count({}), report.acknowledged);
    await assertStats(store, T0);
    await store.close();
    const db = new Database(path);
    assertEquals(db.prepare("PRAGMA integrity_check").get(), { integrity_check: "ok" });
    db.close();
  });
});
