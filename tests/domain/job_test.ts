import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import {
  ENGINE_FIELDS,
  executionOnWire,
  type Job,
  type JobLimits,
  jobOnWire,
  parseExecutionFilter,
  parseJobRequest,
  parseResume,
  phaseOf,
  timeoutOf,
} from "../../src/domain/job.ts";
import { EXECUTIONS } from "../../src/domain/job_state.ts";
import { jobOf, resultOf, T0, taskOf, uuidOf, workflowOf } from "../support/job.ts";
import type { WorkflowUuid } from "../../src/domain/id.ts";

const LIMITS: JobLimits = { targetCharsMax: 10, paramsCharsMax: 40 };
const workflow = uuidOf<WorkflowUuid>(1);

function storedJob(fields: Partial<Job> = {}): Job {
  const { uuid, workflow, ...rest } = jobOf(5);
  return {
    ...rest,
    uuid,
    workflow_uuid: workflow.uuid,
    name: workflow.name,
    execution: "queued",
    phase: "chain",
    chain: workflow.chain,
    onerror: [],
    oncancel: [],
    timeout: 3600,
    props: {},
    chain_results: [],
    onerror_results: [],
    oncancel_results: [],
    started_at: null,
    finished_at: null,
    elapsed_ms: 0,
    runner_id: null,
    starts: 0,
    ...fields,
  };
}

Deno.test("parseJobRequest() makes parameters of every other key", () => {
  const request = parseJobRequest({ workflow, a: 1, uuid: "x", params: { b: 2 } }, LIMITS);
  assertEquals(request, {
    workflow_uuid: workflow,
    exec_after: null,
    target: null,
    params: { a: 1, uuid: "x", params: { b: 2 } },
  });
});

Deno.test("parseJobRequest() takes target and params at their limits and refuses those beyond", () => {
  const text = "x".repeat(40 - '{"a":""}'.length);
  parseJobRequest({ workflow, target: "t".repeat(10), a: text }, LIMITS);
  const large = assertThrows(
    () => parseJobRequest({ workflow, a: `${text}x` }, LIMITS),
    AgentError,
  );
  assertEquals(large.code, "too_large");
  const long = assertThrows(
    () => parseJobRequest({ workflow, target: "t".repeat(11) }, LIMITS),
    AgentError,
  );
  assertEquals(long.errors[0], { field: "target", code: "TooLarge", message: long.message });
});

Deno.test("parseJobRequest() refuses null for a parameter that has a type", () => {
  for (const field of ["workflow", "target", "exec_after"]) {
    const body = { workflow, [field]: null };
    const error = assertThrows(() => parseJobRequest(body, LIMITS), AgentError);
    assertEquals(error.errors.map((found) => found.field), [field]);
  }
});

Deno.test("parseJobRequest() keeps __proto__ as a parameter", () => {
  const body = JSON.parse(`{"workflow":"${workflow}","__proto__":{"target":"x"}}`);
  const request = parseJobRequest(body, LIMITS);
  assertEquals(request.target, null);
  assertEquals(JSON.stringify(request.params), '{"__proto__":{"target":"x"}}');
});

Deno.test("parseResume() fails the job when error is given, whatever its value", () => {
  for (const error of ["x", "", null, 0, false, {}, []]) {
    assertEquals(parseResume({ error }).kind, "error");
  }
  assertEquals(parseResume({}), { kind: "result", result: "OK" });
  assertEquals(parseResume({ result: null }), { kind: "result", result: "OK" });
  for (const body of [null, [], "x", 1]) assertThrows(() => parseResume(body), AgentError);
});

Deno.test("parseResume() by node-workflow's rules takes a falsy error for none", () => {
  const rules = { defaultResult: "External task: OK", falsyErrorFails: false };
  for (const error of ["", null, 0, false]) {
    assertEquals(parseResume({ error }, rules), { kind: "result", result: "External task: OK" });
  }
  assertEquals(parseResume({ error: {} }, rules).kind, "error");
});

Deno.test("executionOnWire() says success and failure unless node-workflow's words are wanted", () => {
  for (const execution of EXECUTIONS) {
    const words = { succeeded: "success", failed: "failure" };
    const word = execution === "succeeded" || execution === "failed" ? words[execution] : execution;
    assertEquals(executionOnWire(execution, "document"), word);
    assertEquals(executionOnWire(execution, "node-workflow"), execution);
  }
});

Deno.test("parseExecutionFilter() reads back each word of both wordings, and no other", () => {
  for (const execution of EXECUTIONS) {
    for (const wording of ["document", "node-workflow"] as const) {
      assertEquals(parseExecutionFilter(executionOnWire(execution, wording)), execution);
    }
  }
  for (const word of ["", "done", "Queued", "queued ", "constructor"]) {
    const error = assertThrows(() => parseExecutionFilter(word), AgentError);
    assertEquals(error.errors[0]?.field, "execution");
  }
});

Deno.test("jobOnWire() leaves out what the engine keeps for itself and what is not there", () => {
  const keys = Object.keys(jobOnWire(storedJob(), "document")).sort();
  assertEquals(keys, [
    "chain",
    "chain_results",
    "created_at",
    "elapsed",
    "exec_after",
    "execution",
    "name",
    "onerror",
    "onerror_results",
    "params",
    "timeout",
    "uuid",
    "workflow_uuid",
  ]);
  const full = jobOnWire(
    storedJob({ target: "/a", started_at: T0, finished_at: T0, oncancel: [taskOf("undo")] }),
    "document",
  );
  assertEquals([full.target, full.started_at, full.finished_at], ["/a", T0, T0]);
  assertEquals(full.oncancel_results, []);
});

Deno.test("jobOnWire() shows what tasks set, but never over a field of the engine", () => {
  // These three only the engine writes into the props: jobData() keeps those of tasks out.
  const kept = ["num_attempts", "prev_attempt", "next_attempt"];
  const owned = [...ENGINE_FIELDS].filter((name) => !kept.includes(name));
  const set = Object.fromEntries(owned.map((name) => [name, "forged"]));
  const props = { ...set, found: { a: 1 }, error: "mine" };
  const wire = jobOnWire(storedJob({ props }), "document");
  assertEquals([wire.found, wire.error], [{ a: 1 }, "mine"]);
  assertEquals(Object.values(wire).includes("forged"), false);
});

Deno.test("phaseOf() gives the tasks and results of the phase that the job is in", () => {
  const job = storedJob({
    onerror: [taskOf("e")],
    oncancel: [taskOf("c")],
    chain_results: [resultOf("first")],
  });
  assertEquals(phaseOf(job).results.length, 1);
  assertEquals(phaseOf({ ...job, phase: "onerror" }).tasks[0]?.name, "e");
  assertEquals(phaseOf({ ...job, phase: "oncancel" }).tasks[0]?.name, "c");
});

Deno.test("timeoutOf() gives an hour to a workflow that names no timeout", () => {
  assertEquals([timeoutOf(workflowOf()), timeoutOf(workflowOf({ timeout: 5 }))], [3600, 5]);
});
