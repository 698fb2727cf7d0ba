// An upgrade of two hosts, one after the other: the later versions are copies of the sources with another number and
// tables that they have added, beside the program of this run.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fromFileUrl } from "@std/path";
import type { JsonObject } from "../../src/domain/json.ts";
import { VERSION } from "../../src/runtime/executable.ts";
import {
  type AgentProcess,
  type Program,
  programOfRun,
  runProgram,
  sourceProgram,
} from "../support/agent_process.ts";
import { cli, hostAt, newJob, withHosts } from "../support/hosts.ts";
import { postgresTest } from "../support/postgres.ts";
import { withFolder } from "../support/until.ts";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));
/** What the later versions add to the tables, one after the other. */
const ADDED = ["ALTER TABLE jobs ADD COLUMN note TEXT", "CREATE TABLE notes (note TEXT)"];
const WAITS = {
  name: "waits",
  chain: [{ body: "(job, cb) => cb('wait')" }, { body: "(job, cb) => cb(null, 'done')" }],
};
const QUICK = { name: "quick", chain: [{ body: "(job, cb) => cb(null, 'done')" }] };
const FREE = { ...QUICK, name: "free", placement: "any" };
/** Its first attempt does not end by itself. */
const LONG = {
  name: "long",
  chain: [{
    body: "(job, cb) => job.attempt > 1 ? cb(null, 'done') : sleep(600000).then(() => cb())",
  }],
};

/** Replaces one text of a file, which must be there. */
async function edit(path: string, what: RegExp, by: string): Promise<void> {
  const text = await Deno.readTextFile(path);
  assertMatch(text, what);
  await Deno.writeTextFile(path, text.replace(what, by));
}

/** Makes a later version of the program. @param steps how many it has added to the tables */
async function laterVersion(folder: string, version: string, steps: number): Promise<Program> {
  const copy = `${folder}/${version}/`;
  await Deno.mkdir(copy);
  const parts = ["main.ts", "deno.json", "deno.lock", "src", "vendors"].map((name) => ROOT + name);
  const { success } = await new Deno.Command("cp", { args: ["-r", ...parts, copy] }).output();
  assertEquals(success, true);
  await edit(`${copy}src/runtime/executable.ts`, /(VERSION =) "[^"]*"/, `$1 "${version}"`);
  const added = ADDED.slice(0, steps).map((step) => JSON.stringify(step));
  const migrations = `${copy}src/store/postgres/migrations.ts`;
  await edit(migrations, /(steps: \[[^\]]*)\]/, `$1, ${added.join(", ")}]`);
  const { args, env, ...source } = sourceProgram();
  const moved = args.map((word) => word.startsWith(ROOT) ? copy + word.slice(ROOT.length) : word);
  const { DENO_DIR } = env;
  if (DENO_DIR === undefined) return { ...source, args: moved, env };
  // What is compiled of the copy goes with it.
  const cache = `${copy}cache`;
  await Deno.mkdir(cache);
  await Deno.symlink(`${DENO_DIR}/npm`, `${cache}/npm`);
  return { ...source, args: moved, env: { ...env, DENO_DIR: cache } };
}

postgresTest(
  "two hosts are upgraded one after the other: jobs go on, and a program whose tables are others says so",
  () =>
    withFolder(async (folder) => {
      const next = await laterVersion(folder, "98.1.0", 1);
      const last = await laterVersion(folder, "98.2.0", 2);
      await withHosts(async ({ one, other, url, start }) => {
        const refused = async (program: Program, words: string) => {
          const place = ["--host", "simulated", "--state-dir", `${folder}/refused`];
          const listen = ["--listen", "127.0.0.1:0", "--store", url];
          const { code, stderr } = await runProgram(program, ["serve", ...place, ...listen]);
          assertEquals(code, 8, stderr);
          assertStringIncludes(stderr, words);
        };
        const migrate = async (program: Program) => {
          const { code, stderr } = await runProgram(program, ["db", "migrate", "--store", url]);
          assertEquals(code, 0, stderr);
        };
        const asked = await newJob(other, "/waits", "waiting", WAITS);
        const held = await newJob(one, "/long", "running", LONG);
        await refused(next, "run `zonewright db migrate`");
        await migrate(next);
        assertEquals(await other.stop(), 0);
        const upgraded = await start("gz02", next);
        assertEquals(await versionsAt(one), { gz01: VERSION, gz02: "98.1.0" });
        const list = await cli(one, "host", "list");
        assertStringIncludes(list.stdout, VERSION);
        assertStringIncludes(list.stdout, "98.1.0");
        // Each takes what the other accepts, and ends what was there before.
        const done = [asked];
        assertEquals((await one.post(`/jobs/${asked}/resume`)).status, 200);
        for (const [agent, host] of [[one, "gz02"], [upgraded, "gz01"]] as const) {
          done.push(await newJob(agent, `/free/${host}`, "success", FREE));
          const workflow = String((await agent.post("/workflows", QUICK)).body.uuid);
          const { body } = await agent.post("/jobs", { workflow, server_uuid: host });
          assertEquals((await agent.job(String(body.uuid), "success")).host, host);
          done.push(String(body.uuid));
        }

        await migrate(last);
        await one.said("a newer program has migrated it, so upgrade this one");
        assertEquals(await one.ended(), 8);
        await refused(programOfRun(), "a newer program has migrated it, so upgrade this one");
        done.push(await newJob(upgraded, "/between", "success", QUICK));
        const again = await start("gz01", last);
        assertEquals(await versionsAt(upgraded), { gz01: "98.2.0", gz02: "98.1.0" });
        for (const job of [...done, held]) {
          const { chain_results } = await again.job(job, "success");
          assertEquals((chain_results as JsonObject[]).at(-1)?.result, "done");
        }
        assertEquals((await again.get("/jobs")).headers.get("x-count"), `${done.length + 1}`);
      });
    }),
);

/** The version of each host, as an agent lists them. */
async function versionsAt(agent: AgentProcess): Promise<JsonObject> {
  const versions: JsonObject = {};
  for (const name of ["gz01", "gz02"]) {
    versions[name] = (await hostAt(agent, name)).version ?? null;
  }
  return versions;
}
