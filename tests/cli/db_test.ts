// The database from the command line: a real agent, its backup, and the way back.

import { assertEquals, assertStringIncludes } from "@std/assert";
import { Database } from "@db/sqlite";
import { join } from "@std/path";
import { SCHEMA_VERSION } from "../../src/store/sqlite/migrations.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { programOfRun, runProgram, startAgentProcess } from "../support/agent_process.ts";
import { smallDiskTest, withoutWrites, withSmallDisk } from "../support/small_disk.ts";
import { withFolder } from "../support/until.ts";

const BODY = "function (job, cb) { cb(); }";

Deno.test("a backup that was taken while the agent ran brings its jobs back", () =>
  withFolder(async (folder) => {
    const program = programOfRun();
    const state = join(folder, "state");
    const copy = join(folder, "copy.db");
    const db = (...words: string[]) =>
      runProgram(program, ["db", ...words, "--state-dir", state, "--json"]);
    let agent = await startAgentProcess(program, state, ["--dev"]);
    try {
      const workflow = await agent.post("/workflows", { name: "noop", chain: [{ body: BODY }] });
      const job = await agent.post("/jobs", { workflow: workflow.body.uuid ?? "" });
      await agent.job(String(job.body.uuid), "success");
      const backup = await db("backup", copy);
      assertEquals([backup.code, JSON.parse(backup.stdout).jobs], [0, 1], backup.stderr);

      const misplaced = await db("backup", join(folder, "none", "copy.db"));
      assertEquals(misplaced.code, 4, misplaced.stderr);
      assertStringIncludes(misplaced.stderr, `the folder ${join(folder, "none")} does not exist`);

      const refused = await db("restore", copy, "--yes");
      assertEquals(refused.code, 6, refused.stderr);
      assertStringIncludes(refused.stderr, "is using it");

      const pruned = await runProgram(program, [
        ...["db", "prune", "--older-than", "0s", "--yes", "--json", "--url", agent.url],
      ]);
      assertEquals([pruned.code, JSON.parse(pruned.stdout)], [0, { removed: 1 }], pruned.stderr);
      await agent.stop();

      const restored = await db("restore", copy, "--yes");
      assertEquals(restored.code, 0, restored.stderr);
      assertEquals((await db("check")).code, 0);
      agent = await startAgentProcess(program, state, ["--dev"]);
      assertEquals((await agent.get(`/jobs/${job.body.uuid}`)).body.execution, "success");
    } finally {
      await agent.stop();
    }
  }));

Deno.test("of backups to one file at once the first is written, and the others are refused", () =>
  withFolder(async (folder) => {
    const program = programOfRun();
    const state = join(folder, "state");
    const copy = join(folder, "copy.db");
    await (await startAgentProcess(program, state, ["--dev"])).stop();
    const backup = () => runProgram(program, ["db", "backup", copy, "--state-dir", state]);
    const ended = await Promise.all([backup(), backup(), backup(), backup(), backup()]);
    const said = ended.map(({ stderr }) => stderr).join("");
    assertEquals(ended.map(({ code }) => code).toSorted(), [0, 6, 6, 6, 6], said);
    assertEquals(said.match(/it already exists, expected a new file/g)?.length, 4, said);
    assertEquals((await runProgram(program, ["db", "check", copy])).code, 0);
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(names.toSorted(), ["copy.db", "state"]);
  }));

Deno.test("a check of a file that is not a database fails and says so", () =>
  withFolder(async (folder) => {
    const path = join(folder, "text");
    await Deno.writeTextFile(path, "hello");
    const { code, stdout, stderr } = await runProgram(programOfRun(), ["db", "check", path]);
    assertEquals([code, stdout], [2, ""]);
    assertStringIncludes(stderr, `zonewright: Cannot read ${path}: it is not an SQLite database`);
  }));

Deno.test("a database of another schema ends serve, check and restore with the exit code for that", () =>
  withFolder(async (folder) => {
    const program = programOfRun();
    await (await startAgentProcess(program, folder, ["--dev"])).stop();
    const path = join(folder, "zonewright.db");
    const cases: [number, string][] = [
      [SCHEMA_VERSION + 1, `this program knows up to ${SCHEMA_VERSION}`],
      [1, "of an unreleased version"],
    ];
    for (const [version, words] of cases) {
      const file = new Database(path);
      file.exec(`PRAGMA user_version = ${version}`);
      file.close();
      for (
        const command of [
          ["serve", "--dev", "--state-dir", folder],
          ["db", "check", "--state-dir", folder],
          ["db", "check", path],
          ["db", "restore", path, "--yes", "--state-dir", join(folder, "other")],
        ]
      ) {
        const { code, stderr } = await runProgram(program, command);
        assertEquals(code, 8, `${command.join(" ")}: ${stderr}`);
        assertStringIncludes(stderr, words);
      }
    }
  }));

smallDiskTest(
  "a database on a disk that takes no change is checked, and backed up to another one",
  () =>
    withFolder(async (place) => {
      const state = join(place, "state");
      await Deno.mkdir(state);
      await withSmallDisk(state, 4, async () => {
        await Deno.chmod(state, 0o700);
        await (await openSqliteStore(join(state, "zonewright.db"))).close();
        await withoutWrites(state, async () => {
          for (const words of [["check"], ["backup", join(place, "copy.db")]]) {
            const command = ["db", ...words, "--state-dir", state];
            const { code, stderr } = await runProgram(programOfRun(), command);
            assertEquals(code, 0, stderr);
          }
        });
        assertEquals(Array.from(Deno.readDirSync(state), ({ name }) => name), ["zonewright.db"]);
      });
    }),
);

Deno.test("a check of a damaged database is no usage error", () =>
  withFolder(async (folder) => {
    const path = join(folder, "zonewright.db");
    await (await openSqliteStore(path)).close();
    const bytes = await Deno.readFile(path);
    // The page of the schema, behind the header of the file.
    await Deno.writeFile(path, bytes.fill(0xff, 100, 200));
    const { code, stderr } = await runProgram(programOfRun(), ["db", "check", path]);
    assertEquals(code, 6, stderr);
    assertStringIncludes(
      stderr,
      `zonewright: Cannot read ${path}: database disk image is malformed`,
    );
  }));

Deno.test("a backup to standard output is a usage error, and makes no file of that name", () =>
  withFolder(async (folder) => {
    const { code, stderr } = await runProgram(programOfRun(), ["db", "backup", "-"], folder);
    assertEquals(code, 2, stderr);
    assertStringIncludes(stderr, "a backup is not written to standard output");
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

Deno.test("a prune without a valid age is a usage error", async () => {
  for (const words of [[], ["--older-than", "soon"]]) {
    const { code } = await runProgram(programOfRun(), ["db", "prune", ...words, "--yes"]);
    assertEquals(code, 2);
  }
});
