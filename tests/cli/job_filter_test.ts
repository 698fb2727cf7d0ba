// Which jobs `job list` shows, and what it tells of them, against the real application.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { MachineUuid } from "../../src/domain/id.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import {
  claimAll,
  type HttpAgent,
  jobIn,
  newJob,
  newWorkflow,
  withHttpAgent,
} from "../http/http_agent.ts";
import { register } from "../store/host_suite.ts";
import { jobOf, RUNNER, uuidOf } from "../support/job.ts";
import { said } from "./screen.ts";
import { NO_LIMIT } from "../support/limits.ts";

/** The uuids that a list with these flags shows. */
async function listed(agent: HttpAgent, ...flags: string[]): Promise<string[]> {
  const { code, out, err } = await said(agent, ["job", "list", "--json", ...flags]);
  assertEquals([code, err()], [0, ""], flags.join(" "));
  const jobs: { uuid: string }[] = JSON.parse(out());
  return jobs.map(({ uuid }) => uuid);
}

Deno.test("job list filters by state, in either word for it", () =>
  withHttpAgent(async (agent) => {
    const failed = await jobIn(agent, "failed");
    await jobIn(agent, "queued");
    assertEquals(await listed(agent, "--execution", "failed"), [failed]);
    assertEquals(await listed(agent, "--state", "failure"), [failed]);
    assertEquals(await listed(agent, "--failed"), [failed]);
    assertEquals((await listed(agent, "--state", "queued,failure")).length, 2);
  }));

Deno.test("job list filters by workflow, by its uuid or its name, also of one that is deleted", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { name: "hello" });
    const uuid = await newJob(agent, { workflow });
    await newJob(agent);
    await agent.call("DELETE", `/workflows/${workflow}`);
    assertEquals(await listed(agent, "--workflow", workflow.toUpperCase()), [uuid]);
    assertEquals(await listed(agent, "--workflow", "hello"), [uuid]);
  }));

Deno.test("job list says when no workflow has the name that was typed", () =>
  withHttpAgent(async (agent) => {
    await newWorkflow(agent, { name: "provision" });
    const typed = await said(agent, ["job", "list", "--workflow", "provison", "--json"]);
    assertEquals([typed.code, typed.out()], [0, "[]\n"]);
    assertEquals(
      typed.err(),
      'no workflow has the name "provison": did you mean "provision"?\n',
    );
    assertEquals(await listed(agent, "--workflow", "provision"), []);
  }));

Deno.test("job list says that there are no jobs, or that none matches", () =>
  withHttpAgent(async (agent) => {
    const empty = await said(agent, ["job", "list"]);
    assertStringIncludes(empty.err(), "there are no jobs yet\nhint: zonewright workflow list");
    await newJob(agent);
    assertEquals((await said(agent, ["job", "list"])).err(), "");
    for (const filter of [["--search", "no such text"], ["--failed"]]) {
      const none = await said(agent, ["job", "list", ...filter]);
      const words = "no job matches\nhint: zonewright job list  shows the newest of all\n";
      assertEquals([none.code, none.err()], [0, words]);
    }
  }));

Deno.test("job list filters by target, by params of any type, and by both together", () =>
  withHttpAgent(async (agent) => {
    const one = await newJob(agent, {
      target: "/a",
      zone: "a b",
      count: 3,
      list: [1, { a: null }],
    });
    const two = await newJob(agent, { target: "/b", zone: "a b", count: "3" });
    assertEquals(await listed(agent, "--target", "/a"), [one]);
    assertEquals(await listed(agent, "-p", "zone=a b"), [two, one]);
    assertEquals(await listed(agent, "--param", "count=3"), [two, one]);
    assertEquals(await listed(agent, "-p", 'list:=[1, {"a": null}]'), [one]);
    assertEquals(await listed(agent, "-p", 'zone:="a b"', "-p", "count:=3", "--target", "/b"), [
      two,
    ]);
    assertEquals(await listed(agent, "-p", "zone=c"), []);
    assertEquals(await listed(agent, "-p", "name=a"), []);
  }));

Deno.test("job list filters by the time a job was made, of the calendar or before now", () =>
  withHttpAgent(async (agent) => {
    const t0 = agent.clock.now;
    const older = await newJob(agent);
    agent.clock.now = instantAfter(t0, 3_600_000);
    const newer = await newJob(agent);
    // The clock of the command is 90 seconds ahead of the agent's.
    assertEquals(await listed(agent, "--since", "2m"), [newer]);
    assertEquals(await listed(agent, "--until", "2m"), [older]);
    assertEquals(await listed(agent, "--since", "2h", "--until", "10m"), [older]);
    assertEquals(await listed(agent, "--since", agent.clock.now), [newer]);
    assertEquals(await listed(agent, "--until", agent.clock.now.replace("Z", "+00:00")), [older]);
  }));

Deno.test("job list refuses invalid times, limits and params", () =>
  withHttpAgent(async (agent) => {
    const refused: [string[], string][] = [
      [["--since", "2026-02-31"], 'Cannot use --since "2026-02-31", expected today'],
      // Digits alone could be a year.
      [["--until", "2026"], 'Cannot use --until "2026", expected today'],
      [["--limit", "0"], 'Cannot use --limit "0", expected a number'],
      [["--limit", "all"], 'Cannot use --limit "all", expected a number'],
      [["-p", "zone"], 'Cannot use --param "zone", expected K=V, or K:=JSON'],
      [["-p", "zone=a", "-p", "zone=b"], "--param zone is given twice"],
      [["--failed", "--state", "failed"], "--failed and --execution are both given"],
      [["--state", "failed,done"], 'Cannot filter by execution "done", expected one of succeeded'],
      [["--columns", "uuid,nam"], 'ended,workflow: did you mean "name"?'],
      [["-p", 'a"b=1'], "is not a filter of jobs"],
      [["--execution", "a", "--state", "b"], "--execution is given twice"],
    ];
    for (const [flags, why] of refused) {
      const { code, out, err } = await said(agent, ["job", "list", ...flags]);
      assertEquals([code, out()], [2, ""], flags.join(" "));
      assertStringIncludes(err(), why);
    }
  }));

Deno.test("job list and job get say why a job does not run, and when it will", () =>
  withHttpAgent(async (agent) => {
    const later = await newJob(agent, { exec_after: instantAfter(agent.clock.now, 600_000) });
    const waiting = await jobIn(agent, "waiting");
    const running = await newJob(agent);
    await claimAll(agent);
    const ready = await newJob(agent);
    const { out } = await said(agent, ["job", "list"]);
    const row = (uuid: string) =>
      out().split("\n").find((line) => line.startsWith(uuid.slice(0, 8))) ?? "";
    assertMatch(row(later), / queued +sample +starts in 8 m /);
    assertMatch(row(waiting), / waiting +sample +first, waits for job resume /);
    assertMatch(row(running), / running +sample +first +0\.0 s /);
    assertMatch(row(ready), / queued +sample +waits for a slot /);
    const shown = async (uuid: string) => (await said(agent, ["job", "get", uuid])).out();
    assertMatch(await shown(later), /^reason +scheduled for later$/m);
    const next = instantAfter(agent.clock.now, 600_000);
    assertStringIncludes(await shown(later), `${next} (in 8 m)\n`);
    assertMatch(await shown(waiting), /^reason +waiting for zonewright job resume$/m);
    assertMatch(await shown(ready), /^reason +waiting for a slot/m);
    assertEquals((await shown(running)).includes("reason"), false);
    await register(agent.store);
    await agent.store.hosts.cordon(RUNNER);
    assertMatch(await shown(ready), /^reason +waiting for gz01, which is cordoned$/m);
    assertStringIncludes(await shown(ready), "next: zonewright host uncordon gz01  lets it");
    assertEquals((await said(agent, ["job", "get", later])).out(), await shown(later));
  }));

Deno.test("job get shows target and locks of a job, and how long it took", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent, { target: "/vm/1", locks: "^/vm/" });
    const queued = await said(agent, ["job", "get", uuid]);
    assertMatch(queued.out(), /^locks +\^\/vm\/$/m);
    assertEquals(queued.out().includes("elapsed"), false);
    const failed = await said(agent, ["job", "get", await jobIn(agent, "failed")]);
    assertMatch(failed.out(), /^elapsed +0\.0 s$/m);
  }));

Deno.test("job list --curl prints the filter as a query", () =>
  withHttpAgent(async (agent) => {
    const flags = ["--execution", "failed", "--workflow", "hello", "-p", "vm_uuid=a&b", "--curl"];
    const { out } = await said(agent, ["job", "list", ...flags]);
    const params = encodeURIComponent('{"vm_uuid":"a&b"}');
    const query = `name=hello&state=failed&params=${params}&limit=100`;
    assertEquals(out(), `curl -sS --fail-with-body '${agent.url}/agent/v1/jobs?${query}'\n`);
  }));

Deno.test("job list shows the requested columns, and searches for a text", () =>
  withHttpAgent(async (agent) => {
    const failed = await jobIn(agent, "failed");
    await newJob(agent, { target: "/vm/1" });
    const columns = await said(agent, ["job", "list", "--columns", "name,target,uuid"]);
    assertEquals(columns.out().split("\n").slice(0, 2).map((line) => line.split(/ {2,}/)), [
      ["NAME", "TARGET", "UUID"],
      ["sample", "/vm/1", columns.out().split("\n")[1]?.split(/ {2,}/)[2] ?? ""],
    ]);
    const machine_uuid = uuidOf<MachineUuid>(900);
    const target = `/machines/${machine_uuid}`;
    await agent.store.jobs.create(jobOf(1, { machine_uuid, target }), NO_LIMIT);
    const machines = await said(agent, ["job", "list", "--columns", "machine", "--target", target]);
    assertEquals(machines.out().split("\n")[1], machine_uuid);
    assertEquals(await listed(agent, "--search", "BOOM"), [failed]);
    assertEquals(await listed(agent, "--search", "no such text"), []);
  }));

Deno.test("job list --since today begins at midnight where the caller is", () =>
  withHttpAgent(async (agent) => {
    const midnight = new Date(agent.clock.now).setHours(0, 0, 0, 0);
    agent.clock.now = instantAfter(new Date(midnight).toISOString(), -1000);
    await newJob(agent);
    agent.clock.now = instantAfter(agent.clock.now, 2000);
    const today = await newJob(agent);
    assertEquals(await listed(agent, "--since", "today"), [today]);
  }));

Deno.test("job list reads page after page up to its limit", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    for (let count = 0; count < 203; count++) await newJob(agent, { workflow });
    assertEquals((await listed(agent, "--limit", "500")).length, 203);
    const { out, err } = await said(agent, ["job", "list", "--limit", "202"]);
    assertEquals(out().trimEnd().split("\n").length, 1 + 202);
    assertEquals(err(), "older jobs are not shown; see --limit\n");
  }));

Deno.test("job list colors states on a terminal alone, and cuts between words", () =>
  withHttpAgent(async (agent) => {
    await jobIn(agent, "failed");
    const piped = await said(agent, ["job", "list"]);
    assertEquals(piped.out().includes("\x1b"), false);
    const shown = await said(agent, ["job", "list"], { isTerminal: true, columns: 80 });
    assertStringIncludes(shown.out(), "\x1b[31mfailed\x1b[0m");
    const env = { NO_COLOR: "1" };
    const plain = await said(agent, ["job", "list"], { isTerminal: true, columns: 80, env });
    assertEquals(plain.out(), piped.out());
  }));
