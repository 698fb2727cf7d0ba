import { assertEquals, assertThrows } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { EXECUTIONS } from "../../src/domain/job/state.ts";
import {
  ENGINE_FIELDS,
  executionOnWire,
  jobOnWire,
  parseExecutionFilter,
  SHOWN_FIELDS,
} from "../../src/domain/job/wire.ts";
import { RUNNER, storedJob, T0, taskOf } from "../support/job.ts";

Deno.test("executionOnWire() returns success and failure, or node-workflow's words on request", () => {
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

Deno.test("jobOnWire() leaves out internal and missing fields", () => {
  const keys = Object.keys(jobOnWire(storedJob(), "document", T0)).sort();
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
    T0,
  );
  assertEquals([full.target, full.started_at, full.finished_at], ["/a", T0, T0]);
  assertEquals(full.oncancel_results, []);
});

Deno.test("jobOnWire() counts the time of a running job until now", () => {
  const elapsedOf = (ms: number) => {
    const job = storedJob({
      execution: "running",
      runner_id: RUNNER,
      phases_ms: 500,
      elapsed_ms: 1000,
      elapsed_at: T0,
    });
    return jobOnWire(job, "document", instantAfter(T0, ms)).elapsed;
  };
  assertEquals([elapsedOf(0), elapsedOf(2250), elapsedOf(-9000)], [1.5, 3.75, 1.5]);
});

Deno.test("jobOnWire() shows what tasks set, but never over a field of the engine", () => {
  // These only the engine writes into the props: jobData() keeps those of tasks out.
  const owned = [...ENGINE_FIELDS].filter((name) => !SHOWN_FIELDS.includes(name));
  const set = Object.fromEntries(owned.map((name) => [name, "forged"]));
  const props = { ...set, found: { a: 1 }, error: "mine" };
  const wire = jobOnWire(storedJob({ props }), "document", T0);
  assertEquals([wire.found, wire.error], [{ a: 1 }, "mine"]);
  assertEquals(Object.values(wire).includes("forged"), false);
});

Deno.test("jobOnWire() shows locks, callback_url and runner of a job that has them", () => {
  const job = storedJob({ locks: "^/a", callback_url: "http://a/", runner_id: RUNNER });
  const wire = jobOnWire({ ...job, execution: "running" }, "document", T0);
  assertEquals([wire.locks, wire.callback_url, wire.runner_id], ["^/a", "http://a/", RUNNER]);
});

Deno.test("jobOnWire() says why an unfinished job does not run, and nothing for other jobs", () => {
  const later = instantAfter(T0, 1);
  const waitOf = (fields: Parameters<typeof storedJob>[0]) => {
    const { reason, next_run_at } = jobOnWire(storedJob(fields), "document", T0);
    return [reason, next_run_at];
  };
  assertEquals(waitOf({ claimable_at: T0 }), ["waiting_for_slot", undefined]);
  assertEquals(waitOf({ claimable_at: later }), ["scheduled", later]);
  assertEquals(waitOf({ execution: "waiting" }), ["waiting_for_resume", undefined]);
  for (const execution of ["running", "succeeded", "failed", "retried"] as const) {
    assertEquals(waitOf({ execution }), [undefined, undefined]);
  }
  const undoing = { execution: "canceled", phase: "oncancel", claimable_at: T0 } as const;
  assertEquals(waitOf(undoing), [undefined, undefined]);
});
