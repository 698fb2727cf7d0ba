import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { executionOnWire } from "../../src/domain/job/wire.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { T0 } from "../support/job.ts";
import {
  assertRefused,
  BODY,
  claimAll,
  fieldsOf,
  holdOf,
  jobIn,
  newJob,
  newWorkflow,
  NO_UUID,
  objectOf,
  withHttpAgent,
} from "./http_agent.ts";

const UNFINISHED = ["queued", "running", "waiting"] as const;
const FINAL = ["succeeded", "failed", "canceled"] as const;

Deno.test("cancel answers 200 with the canceled job in every unfinished state", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of UNFINISHED) {
      const uuid = await jobIn(agent, execution);
      agent.hints.length = 0;
      const answer = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
      assertEquals([answer.status, objectOf(answer).execution], [200, "canceled"]);
      assertEquals(objectOf(answer).finished_at, T0);
      assertEquals(agent.hints, [`cancel ${uuid}`]);
    }
  });
});

Deno.test("cancel of a finalized job answers 409 and changes nothing", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of FINAL) {
      const uuid = await jobIn(agent, execution);
      const before = await agent.call("GET", `/jobs/${uuid}`);
      agent.hints.length = 0;
      const answer = await agent.call("POST", `/jobs/${uuid}/cancel`, {});
      assertMatch(
        assertRefused(answer, 409, "ConflictError"),
        new RegExp(`"${executionOnWire(execution, "document")}"`),
      );
      assertEquals((await agent.call("GET", `/jobs/${uuid}`)).body, before.body);
      assertEquals(agent.hints, []);
    }
  });
});

Deno.test("cancel accepts an empty body, and only the job in the path", async () => {
  await withHttpAgent(async (agent) => {
    const [one, other] = [await newJob(agent), await newJob(agent)];
    assertEquals((await agent.call("POST", `/jobs/${one}/cancel`, "")).status, 200);
    const third = await newJob(agent);
    const answer = await agent.call("POST", `/jobs/${third}/cancel`, { uuid: other });
    assertRefused(answer, 409, "InvalidArgument");
    assertEquals(objectOf(await agent.call("GET", `/jobs/${other}`)).execution, "queued");
    assertEquals(objectOf(await agent.call("GET", `/jobs/${third}`)).execution, "queued");
  });
});

Deno.test("a change with an unknown key is refused, with a suggestion", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "waiting");
    const said = async (verb: string, body: unknown) => {
      const answer = await agent.call("POST", `/jobs/${uuid}/${verb}`, body);
      return [assertRefused(answer, 409, "InvalidArgument"), fieldsOf(answer)];
    };
    for (const [key, near] of [["err", "error"], ["reslt", "result"], ["results", "result"]]) {
      const message =
        `Cannot accept the resume: ${key} is unknown: the nearest known name is "${near}"`;
      assertEquals(await said("resume", { [`${key}`]: "x" }), [message, [key]]);
    }
    assertEquals(await said("resume", { result: 1, x: 2 }), [
      "Cannot accept the resume: x is unknown, expected result, error",
      ["x"],
    ]);
    assertEquals(await said("cancel", { force: true }), [
      "Cannot accept the cancel: force is unknown, expected no keys",
      ["force"],
    ]);
    assertEquals((await said("cancel", []))[1], ["body"]);
    assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution, "waiting");
  });
});

Deno.test("an error of the job's state is reported before one of the body", async () => {
  await withHttpAgent(async (agent) => {
    const queued = await newJob(agent);
    const ended = await jobIn(agent, "succeeded");
    const resumed = await agent.call("POST", `/jobs/${queued}/resume`, { err: "x" });
    assertStringIncludes(assertRefused(resumed, 409, "ConflictError"), "expected waiting");
    const canceled = await agent.call("POST", `/jobs/${ended}/cancel`, { x: 1 });
    assertStringIncludes(assertRefused(canceled, 409, "ConflictError"), 'execution is "success"');
    for (const verb of ["cancel", "resume"]) {
      const missing = await agent.call("POST", `/jobs/${NO_UUID}/${verb}`, { x: 1 });
      assertRefused(missing, 404, "ResourceNotFound");
    }
  });
});

Deno.test("of simultaneous cancels exactly one gets 200", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "running");
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => agent.call("POST", `/jobs/${uuid}/cancel`, {})),
    );
    assertEquals(answers.map(({ status }) => status).sort(), [200, ...Array<number>(7).fill(409)]);
  });
});

function lastResult(job: JsonObject): unknown[] {
  const { result, error } = (job.chain_results as JsonObject[]).at(-1) ?? {};
  return [result, error];
}

Deno.test("resume without error queues the job again with the result of the waiting task", async () => {
  await withHttpAgent(async (agent) => {
    const cases: [unknown, unknown][] = [
      [{}, "OK"],
      ["", "OK"],
      [{ result: "done" }, "done"],
      [{ result: { a: [1] } }, { a: [1] }],
      [{ result: 0 }, 0],
      [{ result: false }, false],
    ];
    for (const [body, result] of cases) {
      const uuid = await jobIn(agent, "waiting");
      agent.hints.length = 0;
      const answer = await agent.call("POST", `/jobs/${uuid}/resume`, body);
      assertEquals([answer.status, objectOf(answer).execution], [200, "queued"]);
      assertEquals(lastResult(objectOf(answer)), [result, ""]);
      assertEquals(agent.hints, ["queued"]);
      await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    }
  });
});

Deno.test("resume with error given, whatever its value, fails the job and records it", async () => {
  await withHttpAgent(async (agent) => {
    const cases: [JsonObject, unknown, unknown][] = [
      [{ error: "no disk" }, "", "no disk"],
      [{ error: "no disk", result: "half" }, "half", "no disk"],
      [{ error: "" }, "", ""],
      [{ error: null }, "", "null"],
      [{ error: false }, "", "false"],
      [{ error: 0 }, "", "0"],
      [{ error: { message: "x" } }, "", '{"message":"x"}'],
    ];
    for (const [body, result, error] of cases) {
      const uuid = await jobIn(agent, "waiting");
      const answer = await agent.call("POST", `/jobs/${uuid}/resume`, body);
      assertEquals([answer.status, objectOf(answer).execution], [200, "failure"]);
      assertEquals(lastResult(objectOf(answer)), [result, error]);
      assertEquals(objectOf(answer).finished_at, T0);
    }
  });
});

Deno.test("resume of a job that is not waiting answers 409", async () => {
  await withHttpAgent(async (agent) => {
    for (const execution of ["queued", "running", ...FINAL] as const) {
      const uuid = await jobIn(agent, execution);
      for (const body of [{}, { error: "x" }]) {
        const answer = await agent.call("POST", `/jobs/${uuid}/resume`, body);
        assertMatch(assertRefused(answer, 409, "ConflictError"), /expected waiting/);
      }
      if (execution === "queued") await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    }
  });
});

Deno.test("of simultaneous resumes exactly one gets 200", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "waiting");
    const answers = await Promise.all(
      Array.from(
        { length: 8 },
        (_, n) => agent.call("POST", `/jobs/${uuid}/resume`, { result: n }),
      ),
    );
    const done = answers.filter(({ status }) => status === 200);
    assertEquals(done.length, 1);
    const job = objectOf(await agent.call("GET", `/jobs/${uuid}`));
    assertEquals(done.map((answer) => lastResult(objectOf(answer))), [lastResult(job)]);
  });
});

Deno.test("resume refuses a body that is not an object", async () => {
  await withHttpAgent(async (agent) => {
    const uuid = await jobIn(agent, "waiting");
    const answer = await agent.call("POST", `/jobs/${uuid}/resume`, []);
    assertRefused(answer, 409, "InvalidArgument");
    assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution, "waiting");
  });
});

Deno.test("a late result does not change a canceled job", async () => {
  await withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { oncancel: [{ body: BODY }] });
    const uuid = await newJob(agent, { workflow });
    await claimAll(agent);
    const hold = await holdOf(agent, uuid);
    const canceled = objectOf(await agent.call("POST", `/jobs/${uuid}/cancel`, {}));
    assertEquals((canceled.oncancel as unknown[]).length, 1);
    const now = agent.clock.now;
    const recorded = await agent.store.jobs.recordTask({
      ...hold,
      entry: {
        result: "OK",
        error: "",
        name: "first",
        started_at: now,
        finished_at: now,
        attempts: 1,
      },
      elapsed_ms: 10,
      event: { kind: "succeed" },
    });
    assertEquals(recorded, false);
    assertEquals(objectOf(await agent.call("GET", `/jobs/${uuid}`)).execution, "canceled");
  });
});
