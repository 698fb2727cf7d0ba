// What the doctor finds in a real database that agents share, in each of the states that it knows.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { HealthFinding } from "../../src/service/doctor/check.ts";
import { sharedStoreChecks } from "../../src/service/doctor/databases.ts";
import { instantAfter, type Now, systemNow } from "../../src/domain/instant.ts";
import { readCondition, type SharedCondition } from "../../src/store/postgres/condition.ts";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import { migrateSharedDatabase } from "../../src/store/postgres/migrations.ts";
import { programOfRun, runProgram } from "../support/agent_process.ts";
import {
  postgresFolder,
  type PostgresServer,
  postgresTest,
  startPostgres,
} from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const DEADLINE_MS = 60_000;
const SETTINGS = ["autovacuum=off", "max_prepared_transactions=2"];

/** A database with tables, and the role `runs` of its agents. */
async function withFleet(
  run: (server: PostgresServer, folder: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder, SETTINGS);
    try {
      await server.sql("CREATE ROLE runs LOGIN");
      await server.sql("CREATE DATABASE fleet");
      const owner = { url: server.url("fleet"), deadlineMs: DEADLINE_MS };
      await migrateSharedDatabase(owner, { agent: "runs" });
      await run(server, folder);
    } finally {
      await server.stop();
    }
  });
}

/** One finding of the doctor of an agent. @param change what the test cannot wait for */
async function finding(
  server: PostgresServer,
  name: string,
  change: (condition: SharedCondition) => SharedCondition = (same) => same,
  now: Now = systemNow,
): Promise<HealthFinding> {
  const agent = { url: server.url("fleet", "runs"), deadlineMs: DEADLINE_MS };
  const checks = sharedStoreChecks(async () => change(await readCondition(agent, now)));
  const check = checks.find((one) => one.name === name);
  assert(check !== undefined, name);
  return await check.examine();
}

async function assertFinding(
  server: PostgresServer,
  name: string,
  outcome: HealthFinding["outcome"],
  words: string,
  change?: (condition: SharedCondition) => SharedCondition,
): Promise<void> {
  const found = await finding(server, name, change);
  assertEquals(found.outcome, outcome, found.detail);
  assertStringIncludes(found.detail, words);
}

postgresTest(
  "a new database passes all checks, which are those of the command",
  () =>
    withFleet(async (server, folder) => {
      const store = ["--host", "simulated", "--store", server.url("fleet", "runs")];
      const flags = ["--state-dir", `${folder}/agent`, "--json", ...store];
      const names = sharedStoreChecks(undefined).map(({ name }) => name);
      const chosen = names.flatMap((name) => ["--run", name]);
      const { code, stdout, stderr } = await runProgram(programOfRun(), [
        ...["doctor", ...flags, ...chosen],
      ]);
      assertEquals(code, 0, stderr + stdout);
      const lines: { name: string; outcome: string }[] = JSON.parse(stdout);
      assertEquals(lines.map(({ outcome }) => outcome), names.map(() => "ok"), stdout);
      for (const check of sharedStoreChecks(undefined)) {
        assertEquals((await check.examine()).outcome, "skipped");
      }
    }),
);

postgresTest(
  "unsuitable tables, and a server that does not answer, are reported once",
  () =>
    withFleet(async (server) => {
      await server.sql("UPDATE schema_version SET version = 99", "fleet");
      await assertFinding(server, "database", "fail", "it has schema version 99");
      assertEquals((await finding(server, "database")).fix, "zonewright upgrade FILE");
      await assertFinding(server, "database-clock", "skipped", "see database");
      await server.sql("DROP TABLE schema_version", "fleet");
      await assertFinding(server, "database", "fail", "it has no tables of zonewright");
      const nowhere = { url: `${server.url("fleet")}-away`, deadlineMs: DEADLINE_MS };
      const [check] = sharedStoreChecks(() => readCondition(nowhere, systemNow));
      const found = await check?.examine();
      assertStringIncludes(found?.detail ?? "", "Cannot reach the database");
      assertStringIncludes(found?.fix ?? "", "start the server");
    }),
);

postgresTest(
  "a server reached through a relay has not proven its name",
  () =>
    withFleet(async (server) => {
      const far = (condition: SharedCondition) => ({ ...condition, near: false });
      await assertFinding(server, "database", "warn", "has not proven its name", far);
      await assertFinding(server, "database", "ok", "on this machine");
    }),
);

postgresTest(
  "a clock that differs from the database's is found, in both directions",
  () =>
    withFleet(async (server) => {
      for (const [ms, words] of [[3_600_000, "s ahead of"], [-3_600_000, "s behind"]] as const) {
        const found = await finding(server, "database-clock", undefined, () =>
          instantAfter(systemNow(), ms));
        assertEquals(found.outcome, "warn", found.detail);
        assertStringIncludes(found.detail, words);
      }
      await assertFinding(server, "database-clock", "ok", "the database");
    }),
);

postgresTest(
  "a commit that is answered before it is on disk is found",
  () =>
    withFleet(async (server) => {
      await server.sql("ALTER ROLE runs SET synchronous_commit = off");
      await assertFinding(server, "database-commit", "warn", "synchronous_commit off");
      await server.sql("ALTER ROLE runs RESET synchronous_commit");
      await assertFinding(server, "database-commit", "ok", "no synchronous standby");
      await server.sql("ALTER SYSTEM SET fsync = off");
      await server.sql("SELECT pg_reload_conf()");
      await until("the setting to hold", async () => await server.sql("SHOW fsync") === "off");
      await assertFinding(server, "database-commit", "fail", "fsync off");
    }),
);

postgresTest(
  "a standby that does not count for a commit is found",
  () =>
    withFleet(async (server, folder) => {
      const receiver = new Deno.Command(`${postgresFolder()}/pg_receivewal`, {
        args: ["-h", server.folder, "-U", "owner", "-D", folder, "--synchronous"],
        env: { PGAPPNAME: "second" },
        stdout: "null",
        stderr: "null",
      }).spawn();
      try {
        const receivers = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        await until("the receiver", async () => await server.sql(receivers) === "1");
        await assertFinding(server, "database-commit", "warn", "loses what it has not received");
        await server.sql("ALTER SYSTEM SET synchronous_standby_names = 'second'");
        await server.sql("SELECT pg_reload_conf()");
        const names = "SHOW synchronous_standby_names";
        await until("the setting to hold", async () => await server.sql(names) === "second");
        await assertFinding(server, "database-commit", "ok", "standbys second");
        await server.sql("ALTER ROLE runs SET synchronous_commit = local");
        await assertFinding(server, "database-commit", "warn", "synchronous_commit local");
      } finally {
        receiver.kill("SIGTERM");
        await receiver.status;
      }
    }),
);

postgresTest(
  "a transaction that is held open is found, also one without a session",
  () =>
    withFleet(async (server) => {
      const later = (found: SharedCondition) => ({
        ...found,
        oldest: found.oldest && { ...found.oldest, seconds: found.oldest.seconds + 120 },
      });
      await assertFinding(server, "database-transactions", "ok", "none", later);
      const db = new SharedDatabase({ url: server.url("fleet", "runs"), deadlineMs: DEADLINE_MS });
      const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const reading = db.read(async (tx) => {
        await tx.rows("SELECT 1 FROM jobs");
        held.resolve();
        await release.promise;
      });
      try {
        await held.promise;
        await assertFinding(server, "database-transactions", "warn", "of runs, idle", later);
      } finally {
        release.resolve();
        await reading;
        await db.close();
      }
      const other = new SharedDatabase({ url: server.url("fleet"), deadlineMs: DEADLINE_MS });
      try {
        await other.read((tx) => tx.rows("SELECT 1"));
        await assertFinding(server, "database-transactions", "ok", "are hidden", later);
      } finally {
        await other.close();
      }
      const prepare = "BEGIN; UPDATE jobs SET error = error; PREPARE TRANSACTION 'left'";
      await server.sql(prepare, "fleet");
      await assertFinding(server, "database-transactions", "warn", "prepared by owner", later);
      await server.sql("ROLLBACK PREPARED 'left'", "fleet");
    }),
);

postgresTest(
  "dead rows that are never removed are found with their table",
  () =>
    withFleet(async (server) => {
      await server.sql(
        `INSERT INTO write_checks SELECT n::text, 'now' FROM generate_series(1, 25000) AS n;
       DELETE FROM write_checks`,
        "fleet",
      );
      const bloat = () => finding(server, "database-bloat");
      // The server counts a little later.
      const found = await until("the dead rows to be counted", async () => {
        const one = await bloat();
        return one.outcome === "warn" ? one : undefined;
      });
      assertStringIncludes(found.detail, "write_checks (25000 of 25000)");
      await server.sql("VACUUM write_checks", "fleet");
      await until("the vacuum to be counted", async () => (await bloat()).outcome === "ok");
    }),
);
