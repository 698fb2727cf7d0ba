// What the doctor reads from a real database.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { diagnose, type HealthCheck } from "../../src/service/doctor/check.ts";
import { clockCheck, indexCheck, storeCheck } from "../../src/service/doctor/databases.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { T0 } from "../support/job.ts";
import { programTest } from "../support/program.ts";
import { withFolder } from "../support/until.ts";

const SYNC = {
  started_at: T0,
  finished_at: T0,
  upstream: "https://images.example.org",
  outcome: "complete",
  added: 1,
  changed: 0,
  removed: 0,
  unchanged: 0,
  problems: [],
} as const;

async function withDatabase(run: (path: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    const store = await openSqliteStore(path);
    await store.index.swap([], [], SYNC);
    await store.close();
    await run(path);
  });
}

Deno.test("the finding about a failed sync names its cause", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    const store = await openSqliteStore(path);
    const problems = [{ document: "v1/index.json", message: "Cannot read it: refused" }];
    await store.index.swap([], [], { ...SYNC, outcome: "failed", problems });
    await store.close();
    const { upstream } = SYNC;
    const found = await indexCheck(path, { upstream, intervalSeconds: 0, now: () => T0 }).examine();
    assertEquals(found.outcome, "warn");
    assertEquals(found.detail, "last sync 0 min ago, failed: Cannot read it: refused");
  }));

async function outcomeOf(check: HealthCheck): Promise<string> {
  return (await check.examine()).outcome;
}

programTest(
  "mkfifo",
  "a pipe in the place of the database is reported, and not waited for",
  () =>
    withFolder(async (folder) => {
      const path = join(folder, "zonewright.db");
      await new Deno.Command("mkfifo", { args: [path] }).output();
      for (const check of [storeCheck(path), clockCheck(path, () => T0)]) {
        const [found] = await diagnose([check], { repair: true, onDiagnosis: () => {} });
        assertEquals(found?.outcome, "fail");
        assertStringIncludes(found?.detail ?? "", "it is not a regular file");
      }
    }),
);

Deno.test("a database that was removed while it is used is reported, and one before the first start not", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    assertEquals(await outcomeOf(storeCheck(path)), "skipped");
    const store = await openSqliteStore(path);
    try {
      await Deno.rename(path, `${path}.moved`);
      const { outcome, detail } = await storeCheck(path).examine();
      assertEquals([outcome, detail], [
        "fail",
        `${path} was removed while an agent used it: its log is there`,
      ]);
    } finally {
      await store.close();
    }
  }));

Deno.test("a sound database is reported with its size, a damaged one with its problems", () =>
  withDatabase(async (path) => {
    assertEquals(await outcomeOf(storeCheck(path)), "ok");
    const bytes = await Deno.readFile(path);
    for (let at = 4096; at < bytes.length; at += 4096) bytes.fill(0x5a, at + 8, at + 500);
    await Deno.writeFile(path, bytes);
    const [damaged] = await Promise.allSettled([storeCheck(path).examine()]);
    assert(damaged?.status === "rejected" || damaged?.value.outcome === "fail");
  }));

Deno.test("a clock that is behind the records, or was never set, is reported", () =>
  withDatabase(async (path) => {
    const at = (instant: string) => clockCheck(path, () => instant);
    assertEquals(await outcomeOf(at(T0)), "ok");
    assertEquals(await outcomeOf(at("2025-12-01T00:00:00.000Z")), "warn");
    assertEquals(await outcomeOf(at("1987-01-01T00:00:00.000Z")), "fail");
  }));

Deno.test("an index is old after two intervals without a sync", () =>
  withDatabase(async (path) => {
    const { upstream } = SYNC;
    const at = (instant: string, intervalSeconds: number) =>
      indexCheck(path, { upstream, intervalSeconds, now: () => instant });
    assertEquals(await outcomeOf(at("2026-01-01T13:59:00.000Z", 3600)), "ok");
    assertEquals(await outcomeOf(at("2026-01-01T14:01:00.000Z", 3600)), "warn");
    assertEquals(await outcomeOf(at("2027-01-01T14:01:00.000Z", 0)), "ok");
    const none = indexCheck(path, { upstream: null, intervalSeconds: 1, now: () => T0 });
    assertEquals(await outcomeOf(none), "skipped");
  }));
