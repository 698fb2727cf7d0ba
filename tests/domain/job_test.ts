import { assertEquals } from "@std/assert";
import { phaseOf, timeoutOf } from "../../src/domain/job/job.ts";
import { resultOf, storedJob, taskOf, workflowOf } from "../support/job.ts";

Deno.test("phaseOf() returns the tasks and results of the job's current phase", () => {
  const job = storedJob({
    onerror: [taskOf("e")],
    oncancel: [taskOf("c")],
    chain_results: [resultOf("first")],
  });
  assertEquals(phaseOf(job).results.length, 1);
  assertEquals(phaseOf({ ...job, phase: "onerror" }).tasks[0]?.name, "e");
  assertEquals(phaseOf({ ...job, phase: "oncancel" }).tasks[0]?.name, "c");
});

Deno.test("timeoutOf() returns an hour for a workflow without a timeout", () => {
  assertEquals([timeoutOf(workflowOf()), timeoutOf(workflowOf({ timeout: 5 }))], [3600, 5]);
});
