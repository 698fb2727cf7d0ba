// Commands against the real HTTP application with a real store; what a runner would do is done by
// calling the store.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { withFolder } from "../support/until.ts";
import { BODY, jobIn, newJob, newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { document, said } from "./screen.ts";
import { NO_LIMIT } from "../support/limits.ts";

const NO_JOB = "00000000-0000-4000-8000-000000000404";

Deno.test("job run starts a workflow by its name and prints the job's uuid alone", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { name: "hello" });
    const params = ["-p", "name=world", "-p", 'disks:=[1,{"a":null}]', "-p", "eq=a=b"];
    const { code, out, err } = await said(agent, ["job", "run", "hello", ...params]);
    assertEquals([code, err()], [0, ""]);
    const [listed] = await agent.store.jobs.list({});
    assertEquals(out(), `${listed?.job.uuid}\n`);
    assertEquals(listed?.job.workflow_uuid as string, workflow);
    assertEquals(listed?.job.params, { name: "world", disks: [1, { a: null }], eq: "a=b" });
  }));

Deno.test("job run sends target and time, also a time from now", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    const at = ["--at", "2026-02-01T03:00:00+01:00", "--target", "/host"];
    const first = await said(agent, ["job", "run", uuid, ...at, "--json"]);
    const job = document(first) as Record<string, unknown>;
    assertEquals([job.exec_after, job.target], ["2026-02-01T02:00:00.000Z", "/host"]);
    const second = await said(agent, ["job", "run", uuid, "--at", "+10m", "--json"]);
    assertEquals(
      (document(second) as Record<string, unknown>).exec_after,
      "2026-01-01T12:11:30.000Z",
    );
    assertEquals(second.err(), "");
    const late = await said(agent, ["job", "run", uuid, "--at", "2026-01-01T12:00Z"]);
    assertEquals([late.code, late.err()], [
      0,
      "--at 2026-01-01T12:00Z has passed: the job is due now\n",
    ]);
  }));

Deno.test("with --json a note follows success, and never stands before an error", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    const late = ["--at", "2026-01-01T12:00Z", "--json"];
    const note = "--at 2026-01-01T12:00Z has passed: the job is due now\n";
    const first = await said(agent, ["job", "run", uuid, "--target", "/t", ...late]);
    assertEquals([first.code, first.err()], [0, note]);
    const second = await said(agent, ["job", "run", uuid, "--target", "/t", ...late]);
    assertEquals([second.code, second.out()], [6, ""]);
    assertEquals(JSON.parse(second.err()).exit_code, 6);
  }));

Deno.test("job run exits 6 when an unfinished job has the same target and params", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newWorkflow(agent);
    const line = ["job", "run", uuid, "--target", "/t"];
    assertEquals((await said(agent, line)).code, 0);
    const { code, err } = await said(agent, line);
    assertEquals(code, 6);
    assertStringIncludes(err(), "zonewright: Cannot create a job");
    const [listed] = await agent.store.jobs.list({});
    assertStringIncludes(err(), `hint: zonewright job get ${listed?.job.uuid}  shows it\n`);
  }));

Deno.test("job run names the nearest workflow for an unknown one", () =>
  withHttpAgent(async (agent) => {
    await newWorkflow(agent, { name: "provision" });
    const { code, err, out } = await said(agent, ["job", "run", "provison"]);
    assertEquals([code, out()], [4, ""]);
    assertEquals(
      err(),
      'zonewright: Cannot find workflow "provison": did you mean "provision"?\n' +
        "hint: zonewright workflow list --all  shows the workflows\n",
    );
  }));

Deno.test("job run refuses params that are not KEY=VALUE", () =>
  withHttpAgent(async (agent) => {
    const reserved = ["target", "workflow", "exec_after", "locks", "callback_url"];
    for (const param of ["novalue", "=x", "a:={", ...reserved.map((name) => `${name}=x`)]) {
      const { code, err } = await said(agent, ["job", "run", NO_JOB, "-p", param]);
      assertEquals(code, 2, param);
      assertStringIncludes(err(), "--param");
    }
    const twice = await said(agent, ["job", "run", NO_JOB, "-p", "a=1", "-p", "a=2"]);
    assertEquals(twice.code, 2);
    assertStringIncludes(twice.err(), "--param a is given twice");
    assertEquals((await said(agent, ["job", "run", NO_JOB, "--at", "+soon"])).code, 2);
    assertEquals((await said(agent, ["job", "run", NO_JOB, "--at", "2026-02-31"])).code, 2);
    assertEquals((await said(agent, ["job", "run", NO_JOB, "--timeout", "1y"])).code, 2);
    const idle = await said(agent, ["job", "run", NO_JOB, "--timeout", "1m"]);
    assertEquals(idle.code, 2);
    assertStringIncludes(idle.err(), "--timeout limits --wait or --follow");
    assertEquals(await agent.store.jobs.count({}), 0);
  }));

Deno.test("job list shows a table for people and the list as it is with --json", () =>
  withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "failed");
    await jobIn(agent, "queued");
    const table = await said(agent, ["job", "list", "--state", "failed"]);
    assertEquals(table.out().split("\n").slice(0, 2), [
      "UUID      STATE   NAME    TASK OR ERROR  DURATION  AGE",
      `${uuid.slice(0, 8)}  failed  sample  first: boom       0.0 s  1 m`,
    ]);
    const json = await said(agent, ["job", "list", "--json"]);
    assertEquals((document(json) as unknown[]).length, 2);
    assertEquals(json.err(), "");
  }));

Deno.test("job list says that its limit hides jobs", () =>
  withHttpAgent(async (agent) => {
    for (let count = 0; count < 3; count++) await newJob(agent);
    const { err } = await said(agent, ["job", "list", "--limit", "1"]);
    assertEquals(err(), "older jobs are not shown; see --limit\n");
  }));

Deno.test("job list exits 2 for an unknown state", () =>
  withHttpAgent(async (agent) => {
    const { code, err } = await said(agent, ["job", "list", "--state", "done"]);
    assertEquals(code, 2);
    assertStringIncludes(err(), 'Cannot filter by execution "done", expected one of succeeded');
    assertStringIncludes(err(), "hint: zonewright job list --help");
  }));

Deno.test("job get shows the steps with their errors", () =>
  withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "failed");
    const { code, out } = await said(agent, ["job", "get", uuid]);
    assertEquals(code, 0);
    assertMatch(out(), /^state +failed$/m);
    assertMatch(out(), /^first +failed +0\.0 s +boom$/m);
  }));

Deno.test("job get exits 4 for a missing job", () =>
  withHttpAgent(async (agent) => {
    for (const uuid of [NO_JOB, "no/uuid"]) {
      const { code, err } = await said(agent, ["job", "get", uuid]);
      assertEquals(code, 4);
      assertStringIncludes(err(), "zonewright: Cannot find job");
    }
  }));

Deno.test("job cancel cancels once and exits 6 the second time", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    const first = await said(agent, ["job", "cancel", uuid]);
    assertEquals([first.code, first.out()], [0, `${uuid} canceled\n`]);
    const second = await said(agent, ["job", "cancel", uuid]);
    assertEquals(second.code, 6);
    assertStringIncludes(second.err(), 'execution is "canceled"');
    assertStringIncludes(
      second.err(),
      `hint: the job is final; zonewright job retry ${uuid} creates it again\n`,
    );
  }));

Deno.test("job resume reports a result, a JSON result or an error", () =>
  withHttpAgent(async (agent) => {
    const resumed = async (...flags: string[]) => {
      const uuid = await jobIn(agent, "waiting");
      const { code } = await said(agent, ["job", "resume", uuid, ...flags]);
      assertEquals(code, 0);
      const job = await agent.store.jobs.get(uuid);
      return [job?.execution, job?.chain_results[0]?.result, job?.chain_results[0]?.error];
    };
    assertEquals(await resumed(), ["queued", "OK", ""]);
    assertEquals(await resumed("--result", "1"), ["queued", "1", ""]);
    assertEquals(await resumed("--result-json", '{"a":1}'), ["queued", { a: 1 }, ""]);
    assertEquals((await resumed("--error", "no disk")).slice(0, 1), ["failed"]);
    const uuid = await newJob(agent);
    assertEquals((await said(agent, ["job", "resume", uuid])).code, 6);
    for (
      const both of [["--result", "a", "--result-json", "1"], ["--error", "a", "--result", "b"]]
    ) {
      const { code, err } = await said(agent, ["job", "resume", uuid, ...both]);
      assertEquals(code, 2);
      assertStringIncludes(err(), "are both given, expected one of them");
    }
  }));

Deno.test("job info prints one object a line, job stats one row a window", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent);
    await agent.store.info.append(uuid, { "10%": "copied\n" }, agent.clock.now, NO_LIMIT);
    const info = await said(agent, ["job", "info", uuid]);
    assertEquals(info.out(), '{"10%":"copied\\n"}\n');
    const workflow = await newWorkflow(agent, { secret_params: ["license_key"] });
    const secretive = await newJob(agent, { workflow });
    const fields = {
      list: [{ license_key: "of the workflow" }],
      my_token: "by its name",
      plain: 1,
    };
    await agent.store.info.append(secretive, fields, agent.clock.now, NO_LIMIT);
    const masked = { list: [{ license_key: "***" }], my_token: "***", plain: 1 };
    assertEquals(document(await said(agent, ["job", "info", secretive])), masked);
    assertEquals(document(await said(agent, ["job", "info", secretive, "--json"])), [masked]);
    const stats = await said(agent, ["job", "stats"]);
    assertEquals(stats.err(), "each job is counted in one row\n");
    assertMatch(stats.out(), /^last hour +2 +0 +0 +0 +0 +0 +0$/m);
    assertEquals(Object.keys(document(await said(agent, ["job", "stats", "--json"])) as object), [
      "all_time",
      "past_24h",
      "past_hour",
      "current",
    ]);
  }));

Deno.test("workflow create, get, update and delete work by file and by name", () =>
  withHttpAgent((agent) =>
    withFolder(async (cwd) => {
      const workflow = { name: "hello", chain: [{ name: "greet", body: BODY, retry: 2 }] };
      await Deno.writeTextFile(`${cwd}/w.json`, JSON.stringify(workflow));
      const created = await said(agent, ["workflow", "create", "-f", "w.json"], { cwd });
      assertEquals([created.code, created.err()], [0, ""]);
      const uuid = created.out().trim();
      assertMatch(
        (await said(agent, ["workflow", "list"])).out(),
        new RegExp(`${uuid.slice(0, 8)}  hello +1`),
      );
      const shown = await said(agent, ["workflow", "get", "hello"]);
      assertMatch(shown.out(), /^chain +greet +2 +- +-$/m);
      const input = JSON.stringify({ ...workflow, timeout: 60 });
      const updated = await said(agent, ["workflow", "update", "hello", "-f", "-"], { input });
      assertEquals(updated.out(), `${uuid}\n`);
      assertEquals((await agent.store.workflows.list({}))[0]?.workflow.timeout, 60);
      assertEquals((await said(agent, ["workflow", "delete", "hello"])).code, 0);
      assertEquals((await said(agent, ["workflow", "delete", uuid])).code, 4);
    })
  ));

Deno.test("workflow create reports every incorrect field, and exits 2", () =>
  withHttpAgent(async (agent) => {
    const input = JSON.stringify({ chain: [{ body: "1 + 1" }] });
    const { code, err } = await said(agent, ["workflow", "create", "-f", "-"], { input });
    assertEquals(code, 2);
    assertStringIncludes(err(), ": name is missing, expected ");
    assertStringIncludes(err(), "\n  chain[0].body is not a function definition");
  }));

Deno.test("a file that is missing, or not a JSON object, is named", () =>
  withHttpAgent(async (agent) => {
    const missing = await said(agent, ["workflow", "create", "-f", "none.json"], { cwd: "/" });
    assertEquals(missing.code, 4);
    assertStringIncludes(missing.err(), 'Cannot read "none.json": it does not exist');
    const broken = await said(agent, ["workflow", "create", "-f", "-"], { input: "{" });
    assertEquals(broken.code, 2);
    assertStringIncludes(broken.err(), "Cannot read standard input: it is not JSON: ");
    const list = await said(agent, ["workflow", "create", "-f", "-"], { input: "[]" });
    assertStringIncludes(list.err(), "Cannot read standard input: it is JSON, but a list");
    assertEquals((await said(agent, ["workflow", "create"])).code, 2);
  }));

Deno.test("api sends any request and its exit code shows the status", () =>
  withHttpAgent(async (agent) => {
    const got = await said(agent, ["api", "GET", "/jobs"]);
    assertEquals([got.code, got.out()], [0, "[]\n"]);
    const uuid = await newJob(agent);
    const body = '{"message":{"10%":"x"}}';
    assertEquals((await said(agent, ["api", "post", `/jobs/${uuid}/info`, "-d", body])).code, 0);
    const input = '{"step":2}';
    const piped = await said(agent, ["api", "POST", `/jobs/${uuid}/info`, "-d", "-"], { input });
    assertEquals(piped.code, 0);
    assertEquals(await agent.store.info.list(uuid), [{ "10%": "x" }, { step: 2 }]);
    const lost = await said(agent, ["api", "GET", "/nothing"]);
    assertEquals(lost.code, 4);
    assert((document(lost) as Record<string, unknown>).request_id !== undefined);
    assertEquals((await said(agent, ["api", "PUT", `/jobs/${uuid}`])).code, 1);
    assertEquals((await said(agent, ["api", "POST", `/jobs/${uuid}/resume`])).code, 6);
    assertEquals((await said(agent, ["api", "FETCH", "/jobs"])).code, 2);
    assertEquals((await said(agent, ["api", "GET", "jobs"])).code, 2);
    assertEquals((await said(agent, ["api", "GET", "/jobs", "-d", "{}"])).code, 2);
  }));
