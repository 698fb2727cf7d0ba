// Who may change the tables of a shared database, and which versions of them agents can use: with the real program,
// as the owner of the tables, as an agent and as a reader.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { SharedDatabase } from "../../src/store/postgres/connection.ts";
import {
  migrateSharedDatabase,
  SHARED_STEPS,
  USABLE,
} from "../../src/store/postgres/migrations.ts";
import { latestOf, type SchemaSteps } from "../../src/store/sql.ts";
import { programOfRun, runProgram, startAgentProcess } from "../support/agent_process.ts";
import { type PostgresServer, postgresTest, startPostgres } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";

const DEADLINE_MS = 60_000;
const ROLES = `CREATE ROLE tables LOGIN; CREATE ROLE runs LOGIN; CREATE ROLE reads LOGIN;
  CREATE DATABASE fleet OWNER tables`;
const WORKFLOW = { name: "noop", chain: [{ body: "(job, cb) => cb(null, 'done')" }] };

/** The tables of this program and those of a later one, which has added to them. */
const EXPANDED: SchemaSteps = {
  ...SHARED_STEPS,
  steps: [
    ...SHARED_STEPS.steps,
    `ALTER TABLE jobs ADD COLUMN note TEXT;
     ALTER TABLE machine_claims ADD COLUMN note TEXT;
     ALTER TABLE events ADD COLUMN note TEXT;
     CREATE TABLE notes (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note TEXT NOT NULL);`,
  ],
};

/** A database of the owner `tables`, without tables. */
async function withDatabase(
  run: (server: PostgresServer, folder: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const server = await startPostgres(folder);
    try {
      for (const statement of ROLES.split(";")) await server.sql(statement);
      await run(server, folder);
    } finally {
      await server.stop();
    }
  });
}

/** Runs `zonewright db migrate` as the owner of the tables. */
function migrate(server: PostgresServer, ...flags: string[]) {
  const store = server.url("fleet", "tables");
  return runProgram(programOfRun(), ["db", "migrate", "--store", store, "--json", ...flags]);
}

const ownerOf = (server: PostgresServer) => ({
  url: server.url("fleet", "tables"),
  deadlineMs: DEADLINE_MS,
});

postgresTest(
  "the owner migrates, an agent writes rows alone, and a reader reads",
  () =>
    withDatabase(async (server, folder) => {
      const flags = ["--agent-role", "runs", "--reader-role", "reads"];
      const made = await migrate(server, ...flags);
      const to = latestOf(SHARED_STEPS);
      assertEquals([made.code, JSON.parse(made.stdout)], [0, { from: 0, to }], made.stderr);
      const again = await migrate(server, ...flags);
      assertEquals([again.code, JSON.parse(again.stdout)], [0, { from: to, to }], again.stderr);

      const store = ["--host", "simulated", "--store", server.url("fleet", "runs")];
      const agent = await startAgentProcess(programOfRun(), `${folder}/agent`, store);
      try {
        const workflow = String((await agent.post("/workflows", WORKFLOW)).body.uuid);
        const job = String((await agent.post("/jobs", { workflow })).body.uuid);
        await agent.job(job, "success");
        const reads = await server.sql("SELECT count(*) FROM jobs", "fleet", "reads");
        assertEquals(reads, "1");
        const pruned = await agent.post("/agent/v1/jobs/prune", { older_than_seconds: 0 });
        assertEquals(pruned.body.removed, 1);
      } finally {
        await agent.stop();
      }
      const refused = async (role: string, statement: string) => {
        const { message } = await assertRejects(() => server.sql(statement, "fleet", role), Error);
        assert(
          /permission denied|must be owner/.test(message),
          `${role}: ${statement}: ${message}`,
        );
      };
      for (
        const statement of [
          "ALTER TABLE jobs ADD COLUMN mine TEXT",
          "TRUNCATE job_log",
          "DROP TABLE callbacks",
          "CREATE TABLE mine (one INT)",
          "CREATE INDEX mine ON jobs (error)",
          "CREATE OR REPLACE FUNCTION jobs_moved() RETURNS trigger LANGUAGE plpgsql AS ''",
          "UPDATE schema_version SET version = 99",
        ]
      ) await refused("runs", statement);
      for (
        const statement of [
          "DELETE FROM jobs",
          "UPDATE workflows SET name = 'mine'",
          "INSERT INTO write_checks VALUES ('a', 'b')",
          "SELECT number_events(1, 1)",
          "TRUNCATE job_log",
          "CREATE TABLE mine (one INT)",
        ]
      ) await refused("reads", statement);
    }),
);

postgresTest(
  "a role that could do more, or is none, is refused and nothing is changed",
  () =>
    withDatabase(async (server) => {
      await server.sql("CREATE ROLE boss SUPERUSER");
      await server.sql("CREATE ROLE member; GRANT tables TO member");
      await server.sql("CREATE ROLE maker; GRANT CREATE ON SCHEMA public TO maker", "fleet");
      const codes: Record<string, readonly [number, string]> = {
        tables: [6, "it is the owner of the tables"],
        boss: [6, "it is a superuser"],
        member: [6, "or a member of it"],
        maker: [6, "it may create tables"],
        nobody: [4, "it does not exist"],
        public: [2, "and neither public nor none"],
        none: [2, "and neither public nor none"],
        'a"; DROP TABLE jobs; --': [2, "expected at most 63"],
        "": [2, "expected at most 63"],
        ["x".repeat(64)]: [2, "expected at most 63"],
      };
      for (const [name, [code, words]] of Object.entries(codes)) {
        const found = await migrate(server, `--agent-role=${name}`);
        assertEquals([found.code, found.stdout], [code, ""], `${name}: ${found.stderr}`);
        assertStringIncludes(found.stderr, words);
      }
      assertEquals(await server.sql("SELECT to_regclass('jobs') IS NULL", "fleet"), "t");
    }),
);

postgresTest(
  "an agent ends with an exit code of its own where it cannot use the tables, also later",
  () =>
    withDatabase(async (server, folder) => {
      const url = server.url("fleet", "runs");
      const flags = ["--host", "simulated", "--listen", "127.0.0.1:0", "--store", url];
      const serve = async (words: string, env: Readonly<Record<string, string>> = {}) => {
        const program = programOfRun();
        const asked = { ...program, env: { ...program.env, ...env } };
        const place = ["--state-dir", `${folder}/other`];
        const { code, stderr } = await runProgram(asked, ["serve", ...flags, ...place]);
        assertEquals(code, env.SMF_FMRI === undefined ? 8 : 96, stderr);
        assertStringIncludes(stderr, words);
      };
      await serve("it has no tables of zonewright");
      const service = { SMF_FMRI: "svc:/application/zonewright:default" };
      await serve("it has no tables of zonewright", service);
      await migrateSharedDatabase(ownerOf(server), { agent: "runs" });
      const agent = await startAgentProcess(programOfRun(), `${folder}/agent`, flags);
      await server.sql(`UPDATE schema_version SET version = ${USABLE.newest + 1}`, "fleet");
      // The next transaction finds it.
      await agent.said("database of another version");
      assertEquals(await agent.ended(), 8);
      await serve("a newer program has migrated it, so upgrade this one");
      const { code, stderr } = await migrate(server);
      assertEquals(code, 8, stderr);
    }),
);

postgresTest(
  "agents continue while a migration adds what a later version needs",
  () =>
    withDatabase(async (server, folder) => {
      const roles = { agent: "runs", reader: "reads" };
      await migrateSharedDatabase(ownerOf(server), roles);
      const start = (name: string) =>
        startAgentProcess(programOfRun(), `${folder}/${name}`, [
          ...["--host", "simulated", "--store", server.url("fleet", "runs")],
        ]);
      const older = await start("older");
      try {
        const workflow = String((await older.post("/workflows", WORKFLOW)).body.uuid);
        const from = latestOf(SHARED_STEPS);
        assertEquals(await migrateSharedDatabase(ownerOf(server), {}, EXPANDED), {
          from,
          to: from + 1,
        });
        // What a newer agent writes beside it.
        await server.sql("INSERT INTO notes (note) VALUES ('newer')", "fleet", "runs");
        await server.sql("UPDATE jobs SET note = 'newer'", "fleet", "runs");
        assertEquals(await server.sql("SELECT note FROM notes", "fleet", "reads"), "newer");
        const started = await start("started later");
        try {
          for (const agent of [older, started]) {
            const job = String((await agent.post("/jobs", { workflow })).body.uuid);
            await agent.job(job, "success");
            const stats = (await agent.get("/stats")).body;
            assert(stats.all_time !== undefined, JSON.stringify(stats));
          }
        } finally {
          assertEquals(await started.stop(), 0);
        }
      } finally {
        assertEquals(await older.stop(), 0);
      }
    }),
);

postgresTest(
  "migrations take turns, and let agents pass while a long transaction has the tables",
  () =>
    withDatabase(async (server) => {
      const owner = ownerOf(server);
      const made = await Promise.all([1, 2, 3].map(() => migrateSharedDatabase(owner)));
      assertEquals(made.map(({ from }) => from).sort(), [0, 1, 1]);
      const db = new SharedDatabase(owner);
      try {
        const [held, release] = [
          Promise.withResolvers<void>(),
          Promise.withResolvers<void>(),
        ];
        const long = db.write(async (tx) => {
          await tx.rows("SELECT * FROM jobs");
          held.resolve();
          await release.promise;
        });
        await held.promise;
        const migrating = migrateSharedDatabase(owner, {}, EXPANDED);
        await until("the migration to wait for the table", async () =>
          await server.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") === "1");
        // Behind a waiting migration, until it steps back.
        await db.read((tx) =>
          tx.rows("SELECT * FROM jobs")
        );
        release.resolve();
        await long;
        assertEquals((await migrating).to, latestOf(EXPANDED));
      } finally {
        await db.close();
      }
    }),
);

postgresTest(
  "a migration that finds another at work gives up at its deadline",
  () =>
    withDatabase(async (server) => {
      const db = new SharedDatabase({ ...ownerOf(server), url: server.url("fleet", "tables") });
      try {
        await migrateSharedDatabase(ownerOf(server));
        const [held, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
        const other = db.write(async (tx) => {
          await tx.run("SELECT pg_advisory_xact_lock(8780000)");
          held.resolve();
          await release.promise;
        });
        await held.promise;
        const error = await assertRejects(
          () => migrateSharedDatabase({ ...ownerOf(server), deadlineMs: 100 }),
          AgentError,
        );
        assertEquals([error.code, error.message.split(": ")[1]], [
          "conflict",
          "another migration runs",
        ]);
        release.resolve();
        await other;
      } finally {
        await db.close();
      }
    }),
);
