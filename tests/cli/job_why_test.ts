// Why a job failed, and what it ended with, as `job why` and `job get` say it.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { jobOf, resultOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import type { JsonValue } from "../../src/domain/json.ts";
import type { JobUuid } from "../../src/domain/id.ts";
import {
  claimAll,
  endTask,
  type HttpAgent,
  jobIn,
  newJob,
  newWorkflow,
  withHttpAgent,
} from "../http/http_agent.ts";
import { document, said } from "./screen.ts";
import { NO_LIMIT } from "../support/limits.ts";

const SECRET = "hunter2-hunter2";

/** A job whose second task fails, after it logged. */
async function failedJob(agent: HttpAgent): Promise<JobUuid> {
  const workflow = { ...workflowOf(), secret_params: ["license_key"] };
  await agent.store.jobs.create(jobOf(1, { workflow }), NO_LIMIT);
  const uuid = uuidOf<JobUuid>(1);
  await claimAll(agent);
  await endTask(agent, uuid, { kind: "continue" }, { result: { free: 12, license_key: SECRET } });
  for (let line = 1; line <= 12; line++) {
    const entry = { task: "second", log: "info", message: `line ${line}` };
    await agent.store.info.append(uuid, entry, T0, NO_LIMIT);
  }
  const error = { name: "Error", message: "No space left" };
  await endTask(agent, uuid, { kind: "fail", onerror: false }, { ...resultOf("second"), error });
  return uuid;
}

Deno.test("job why shows the failed task, its log and what to type next", () =>
  withHttpAgent(async (agent) => {
    const uuid = await failedJob(agent);
    const { code, out, err } = await said(agent, ["job", "why", uuid.slice(0, 8)]);
    assertEquals([code, err()], [0, ""]);
    assertMatch(out(), /^state +failed\ntask +second\nerror +No space left$/m);
    assertMatch(out(), /^\d\d:\d\d:\d\d line 3$/m);
    assertEquals(out().includes("line 2\n"), false);
    assertStringIncludes(out(), `next: zonewright job retry ${uuid} --from 1 --follow  goes on`);
    const json = document(await said(agent, ["job", "why", uuid, "--json"]));
    const { state, lines, next_commands } = json as Record<string, unknown[] | string>;
    assertEquals([state, lines?.length, next_commands?.length], ["failed", 10, 2]);
  }));

/** A job of two tasks whose second fails, and whose onerror chain then ends as given. */
async function undoneJob(agent: HttpAgent, undo: JsonValue, error: string): Promise<JobUuid> {
  const workflow = workflowOf({ onerror: [taskOf("undo")] });
  await agent.store.jobs.create(jobOf(2, { workflow }), NO_LIMIT);
  const uuid = uuidOf<JobUuid>(2);
  await claimAll(agent);
  await endTask(agent, uuid, { kind: "continue" });
  await endTask(agent, uuid, { kind: "fail", onerror: true }, { ...resultOf("second"), error });
  await endTask(agent, uuid, { kind: "fail", onerror: false }, {
    ...resultOf("undo"),
    error: undo,
  });
  return uuid;
}

Deno.test("job why shows the whole error, and offers no task that was undone", () =>
  withHttpAgent(async (agent) => {
    const error = `Cannot boot: ${"x".repeat(500)} the last line of its log`;
    const undo = "undo_failed: dataset is busy";
    const uuid = await undoneJob(agent, undo, error);
    for (const command of ["why", "get"]) {
      const { out } = await said(agent, ["job", command, uuid]);
      assertMatch(out(), new RegExp(`^error +${error}$`, "m"), command);
      assertMatch(out(), /^also failed +undo: undo_failed: dataset is busy$/m, command);
      assertMatch(out(), /^next: zonewright machine leftovers {2}shows/m, command);
      assertEquals(out().includes("--from"), false, command);
    }
    const json = document(await said(agent, ["job", "why", uuid, "--json"])) as { error: string };
    assertEquals(json.error, error);
  }));

Deno.test("job why says what a job that has not failed does or waits for", () =>
  withHttpAgent(async (agent) => {
    const shown = async (uuid: string) => (await said(agent, ["job", "why", uuid])).out();
    const waiting = await shown(await jobIn(agent, "waiting"));
    assertMatch(waiting, /^task +first, waits for job resume$/m);
    assertStringIncludes(waiting, "next: zonewright job resume ");
    const queued = await shown(await newJob(agent));
    assertMatch(queued, /^task +waits for a slot$/m);
    assertStringIncludes(queued, "next: zonewright job list --state running  shows the jobs in");
    assertMatch(queued, /^next: zonewright status +warns when no guest starts/m);
    const done = await shown(await jobIn(agent, "succeeded"));
    assertMatch(done, /^state +succeeded$/m);
    assert(!done.includes("next:"), done);
    const none = await said(agent, ["job", "why", uuidOf(404)]);
    assertEquals([none.code, none.out()], [4, ""]);
  }));

Deno.test("job get shows the results of steps and no secret", () =>
  withHttpAgent(async (agent) => {
    const uuid = await failedJob(agent);
    const got = await said(agent, ["job", "get", uuid]);
    assertMatch(got.out(), /^first +done +\S+ s +\{"free":12,"license_key":"\*\*\*"\}$/m);
    assertMatch(got.out(), /^second +failed +\S+ s +No space left$/m);
    assertEquals(got.out().includes(SECRET), false);
  }));

Deno.test("job get masks params, with --json too, and with --full shows the whole document", () =>
  withHttpAgent(async (agent) => {
    const workflow = { ...workflowOf(), secret_params: ["license_key"] };
    const params = { plain: "seen", license_key: SECRET, root_pw: SECRET };
    await agent.store.jobs.create(jobOf(1, { workflow, params }), NO_LIMIT);
    const json = await said(agent, ["job", "get", uuidOf(1), "--json"]);
    const masked = { plain: "seen", license_key: "***", root_pw: "***" };
    assertEquals((document(json) as { params: unknown }).params, masked);
    const got = await said(agent, ["job", "get", uuidOf(1)]);
    for (const { out } of [got, json]) assertEquals(out().includes(SECRET), false);
    const full = await said(agent, ["job", "get", uuidOf(1), "--full"]);
    assertEquals((document(full) as { params: unknown }).params, params);
  }));

Deno.test("every command that prints a whole job masks what its workflow calls secret", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { secret_params: ["license_key"] });
    const secret = ["-p", `license_key=${SECRET}`];
    const shown = async (...args: string[]) => {
      const answered = await said(agent, ["job", ...args, "--json"]);
      assertEquals([args, answered.out().includes(SECRET)], [args, false]);
      // The last line of a stream holds the job.
      const [first] = args;
      const shown = first === "tail"
        ? JSON.parse(answered.out().trimEnd().split("\n").at(-1) ?? "").result
        : document(answered);
      return shown as { uuid: string; params: unknown };
    };
    const params = { license_key: "***" };
    const made = await shown("run", workflow, ...secret);
    assertEquals(made.params, params);
    assertEquals((await shown("cancel", made.uuid)).params, params);
    for (const verb of ["wait", "tail", "retry"]) {
      assertEquals([verb, (await shown(verb, made.uuid)).params], [verb, params]);
    }
  }));
