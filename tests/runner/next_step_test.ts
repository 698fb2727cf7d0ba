import { assertEquals } from "@std/assert";
import { type Job, PHASES } from "../../src/domain/job/job.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { jobData, jobView } from "../../src/runner/job_view.ts";
import {
  endOfPhase,
  entryOf,
  jobAfter,
  keepsSlot,
  nextStep,
  type RecordedEnd,
} from "../../src/runner/next_step.ts";
import { OTHER_RUNNER, resultOf, RUNNER, storedJob, T0, taskOf, uuidOf } from "../support/job.ts";

function runningJob(fields: Partial<Job> = {}): Job {
  return storedJob({
    execution: "running",
    chain: [taskOf("first")],
    started_at: T0,
    runner_id: RUNNER,
    lease: 1,
    starts: 1,
    ...fields,
  });
}

const SUCCESS: RecordedEnd = { kind: "success", result: "OK" };
const FAILURE: RecordedEnd = { kind: "failure", error: "no" };
const signal = (word: "queue" | "wait" | "retry" | "cancel"): RecordedEnd => ({
  kind: "signal",
  word,
  result: "so far",
});
const noSuccessor = () => null;

function next(job: Job, end: RecordedEnd, last = true) {
  return nextStep(job, end, last, T0, noSuccessor);
}

Deno.test("a success goes on to the next task, and after the last one the job has succeeded", () => {
  assertEquals(next(runningJob(), SUCCESS, false), { kind: "continue" });
  assertEquals(next(runningJob(), SUCCESS), { kind: "finished", execution: "succeeded" });
});

Deno.test("a failure goes on to onerror when there is one, whose own end changes nothing", () => {
  const job = runningJob({ onerror: [taskOf("undo")] });
  assertEquals(next(runningJob(), FAILURE), { kind: "finished", execution: "failed" });
  assertEquals(next(job, FAILURE, false), { kind: "onerror" });
  assertEquals(next(job, { kind: "workflow_timeout" }, false), { kind: "onerror" });
  const undoing = { ...job, phase: "onerror" } as const;
  assertEquals(next(undoing, SUCCESS), { kind: "finished", execution: "failed" });
  assertEquals(next(undoing, FAILURE, false), { kind: "finished", execution: "failed" });
});

Deno.test("each callback word has its one meaning, which is recorded beside the result", () => {
  const job = runningJob({ oncancel: [taskOf("undo")] });
  assertEquals(next(job, signal("queue")), { kind: "queued", claimable_at: T0 });
  assertEquals(next(job, signal("wait")), { kind: "waiting" });
  assertEquals(next(job, signal("cancel")), { kind: "canceled", oncancel: true });
  assertEquals(next(runningJob(), signal("cancel")), { kind: "canceled", oncancel: false });
  assertEquals(next(job, signal("retry")), { kind: "retried", successor: null });
  assertEquals(entryOf(signal("wait")), { result: "so far", error: "wait" });
});

Deno.test("a canceled job's chain ends the job's time here, whatever its tasks answer", () => {
  const job = runningJob({ execution: "canceled", phase: "oncancel", oncancel: [taskOf("undo")] });
  for (const end of [SUCCESS, FAILURE, signal("wait"), signal("queue"), signal("retry")]) {
    assertEquals(next(job, end), { kind: "cancel_done" });
  }
});

Deno.test("a phase without tasks is done", () => {
  const ends = PHASES.map((phase) => endOfPhase(runningJob({ phase }), "done").kind);
  assertEquals(ends, ["finished", "finished", "cancel_done"]);
});

Deno.test("entries tell what happened in words", () => {
  assertEquals(entryOf(FAILURE), { result: "", error: "no" });
  assertEquals(entryOf({ kind: "workflow_timeout" }), { result: "", error: "workflow timeout" });
  assertEquals(entryOf(SUCCESS), { result: "OK", error: "" });
});

Deno.test("the job object cannot change what is the engine's", () => {
  const job = runningJob();
  const data = { params: {}, props: {} };
  const view = jobView(job, data, 1);
  const left: JsonObject = {
    ...view,
    uuid: uuidOf(9),
    execution: "succeeded",
    chain_results: [],
    runner_id: OTHER_RUNNER,
    params: { kept: true },
    mine: [1],
  };
  assertEquals(jobData(left, data), { params: { kept: true }, props: { mine: [1] } });
});

Deno.test("a job object that was lost, or whose params are no object, leaves the data as it was", () => {
  const data = { params: { a: 1 }, props: { b: 2 } };
  assertEquals(jobData(null, data), data);
  assertEquals(jobData({ params: "gone", b: 3 }, data), { params: { a: 1 }, props: { b: 3 } });
});

Deno.test("a key named __proto__ stays a key of the job's data", () => {
  const left = JSON.parse('{"params": {}, "__proto__": {"polluted": true}}') as JsonObject;
  const { props } = jobData(left, { params: {}, props: {} });
  assertEquals(Object.keys(props), ["__proto__"]);
  assertEquals("polluted" in {}, false);
});

Deno.test("onerror tasks see the error of the chain unless a task has set its own", () => {
  const chain_results = [resultOf("first", { error: "disk died" })];
  const job = runningJob({ phase: "onerror", chain_results });
  assertEquals(jobView(job, { params: {}, props: {} }, 1).error, "disk died");
  assertEquals(jobView(job, { params: {}, props: { error: "mine" } }, 1).error, "mine");
});

Deno.test("jobAfter() is what the store has written", () => {
  const job = runningJob({ onerror: [taskOf("undo")], starts: 2 });
  const entry = resultOf("first");
  const data = { params: { a: 1 }, props: { b: 2 } };
  const continued = jobAfter(job, { kind: "continue" }, data, entry);
  assertEquals([continued.chain_results, continued.starts, continued.params], [[entry], 1, {
    a: 1,
  }]);
  const failed = jobAfter(job, { kind: "onerror" }, data, entry);
  assertEquals([failed.phase, failed.execution, failed.onerror_results], [
    "onerror",
    "running",
    [],
  ]);
  const canceled = jobAfter(job, { kind: "canceled", oncancel: true }, data, entry);
  assertEquals([canceled.phase, canceled.execution], ["oncancel", "canceled"]);
});

Deno.test("a job keeps its slot for the next task and for onerror, and for nothing else", () => {
  assertEquals(keepsSlot({ kind: "continue" }), true);
  assertEquals(keepsSlot({ kind: "onerror" }), true);
  assertEquals(keepsSlot({ kind: "canceled", oncancel: true }), true);
  assertEquals(keepsSlot({ kind: "canceled", oncancel: false }), false);
  assertEquals(keepsSlot({ kind: "queued", claimable_at: T0 }), false);
  assertEquals(keepsSlot({ kind: "waiting" }), false);
  assertEquals(keepsSlot({ kind: "finished", execution: "succeeded" }), false);
});
