import { assertEquals } from "@std/assert";
import { phaseOf, timeoutOf } from "../../src/domain/job/job.ts";
import { resultOf, storedJob, taskOf, workflowOf } from "../support/job.ts";

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
