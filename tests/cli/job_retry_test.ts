// `job retry` of one job, against the real application.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import {
  BODY,
  claimAll,
  endTask,
  type HttpAgent,
  jobIn,
  newJob,
  newWorkflow,
  withHttpAgent,
} from "../http/http_agent.ts";
import { until } from "../support/until.ts";
import { document, said, screenFor } from "./screen.ts";

/** A job whose second task of three has failed. */
async function halfDone(agent: HttpAgent): Promise<JobUuid> {
  const chain = ["fetch", "copy", "boot"].map((name) => ({ name, body: BODY }));
  const uuid = await newJob(agent, { workflow: await newWorkflow(agent, { chain }) });
  await claimAll(agent);
  await endTask(agent, uuid, { kind: "continue" }, { name: "fetch", result: "fetched" });
  await endTask(agent, uuid, { kind: "fail", onerror: false }, {
    name: "copy",
    error: "no space",
  });
  return uuid;
}

Deno.test("job retry creates a job again and prints its uuid, and the two jobs name each other", () =>
  withHttpAgent(async (agent) => {
    const old = await jobIn(agent, "failed");
    const retried = await said(agent, ["job", "retry", old]);
    assertEquals([retried.code, retried.err()], [0, ""]);
    const uuid = retried.out().trim() as JobUuid;
    assertEquals((await agent.store.jobs.get(uuid))?.execution, "queued");
    assertMatch(
      (await said(agent, ["job", "get", uuid])).out(),
      new RegExp(`^retry of +${old} \\(1 before this one\\)$`, "m"),
    );
    assertMatch(
      (await said(agent, ["job", "get", old])).out(),
      new RegExp(`^retried as +${uuid}$`, "m"),
    );
  }));

Deno.test("job retry --from keeps the results before the task: named, or by its place", () =>
  withHttpAgent(async (agent) => {
    for (const from of ["copy", "1"]) {
      const retried = await said(agent, [
        "job",
        "retry",
        await halfDone(agent),
        "--from",
        from,
        "--json",
      ]);
      assertEquals(retried.code, 0, retried.err());
      const { chain_results } = document(retried) as { chain_results: { result: string }[] };
      assertEquals(chain_results.map(({ result }) => result), ["fetched"], from);
    }
  }));

Deno.test("job retry --from refuses an unknown task, and lists the tasks", () =>
  withHttpAgent(async (agent) => {
    const uuid = await halfDone(agent);
    for (const from of ["cpoy", "3", "boot"]) {
      const { code, out, err } = await said(agent, ["job", "retry", uuid, "--from", from]);
      assertEquals([code === 2 || code === 6, out()], [true, ""], from);
      assertStringIncludes(err(), `hint: zonewright job get ${uuid}  shows its tasks\n`);
    }
  }));

Deno.test("job retry refuses a job that has not ended, and one that was retried already", () =>
  withHttpAgent(async (agent) => {
    const queued = await newJob(agent);
    const early = await said(agent, ["job", "retry", queued]);
    assertEquals([early.code, early.out()], [6, ""]);
    assertStringIncludes(
      early.err(),
      `hint: zonewright job wait ${queued}, or zonewright job cancel ${queued}\n`,
    );
    const canceled = await jobIn(agent, "canceled");
    const next = (await said(agent, ["job", "retry", canceled])).out().trim();
    const twice = await said(agent, ["job", "retry", canceled]);
    assertEquals([twice.code, twice.out()], [6, ""]);
    assertStringIncludes(twice.err(), `hint: zonewright job get ${next}  shows it\n`);
    assertEquals((await said(agent, ["job", "retry", "nothing"])).code, 4);
  }));

Deno.test("job retry names the job that has the target", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const old = await newJob(agent, { workflow, target: "/t" });
    await agent.call("POST", `/jobs/${old}/cancel`, {});
    const holder = await newJob(agent, { workflow, target: "/t" });
    const { code, err } = await said(agent, ["job", "retry", old]);
    assertEquals(code, 6);
    assertStringIncludes(err(), `hint: zonewright job get ${holder}  shows it\n`);
  }));

Deno.test("job retry --wait stays with the new job and exits as it ended", () =>
  withHttpAgent(async (agent) => {
    const old = await jobIn(agent, "failed");
    const screen = screenFor(agent.url);
    const ended = screen.run("job", "retry", old, "--wait");
    const next = await until("the new job", async () => {
      const [queued] = await agent.store.jobs.list({ execution: "queued" });
      return queued?.job.uuid;
    });
    await claimAll(agent);
    await endTask(agent, next, { kind: "fail", onerror: false }, { error: "again" });
    assertEquals(await ended, 5);
    assertMatch(
      screen.out(),
      new RegExp(`^job +${next}\nstate +failed\ntask +first\nerror +again\n`),
    );
  }));

const JOB = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";

Deno.test("job retry --curl prints the call, with a place in the chain as a number", async () => {
  const printed = async (...words: string[]) => {
    const screen = screenFor("http://127.0.0.1:9");
    assertEquals(await screen.run("job", "retry", ...words, "--curl"), 0);
    return screen.out();
  };
  assertStringIncludes(
    await printed(JOB.toUpperCase()),
    `--data-raw '{}' http://127.0.0.1:9/agent/v1/jobs/${JOB}/retry\n`,
  );
  assertStringIncludes(await printed(JOB, "--from", "2"), `'{"from":2}'`);
  assertStringIncludes(await printed(JOB, "--from", "copy"), `'{"from":"copy"}'`);
});
