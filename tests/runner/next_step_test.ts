import { assertEquals } from "@std/assert";
import { type Job, jobAfter } from "../../src/domain/job/job.ts";
import { afterTask, heldIn, type TaskEvent } from "../../src/domain/job/state.ts";
import type { HostUuid } from "../../src/domain/id.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import { jobData, jobView } from "../../src/runner/job_view.ts";
import { entryOf, eventOf, type RecordedEnd } from "../../src/runner/next_step.ts";
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

Deno.test("a success is followed by the next task, or was the last one of its phase", () => {
  assertEquals(eventOf(runningJob(), SUCCESS, false), { kind: "continue" });
  assertEquals(eventOf(runningJob(), SUCCESS, true), { kind: "succeed" });
});

Deno.test("a failure and the end of the workflow's time say whether onerror follows", () => {
  const job = runningJob({ onerror: [taskOf("undo")] });
  for (const end of [FAILURE, { kind: "workflow_timeout" } as const]) {
    assertEquals(eventOf(runningJob(), end, true), { kind: "fail", onerror: false });
    assertEquals(eventOf(job, end, false), { kind: "fail", onerror: true });
  }
});

Deno.test("each callback word is an event of the job, and the error of its result", () => {
  const job = runningJob({ oncancel: [taskOf("undo")] });
  assertEquals(eventOf(job, signal("queue"), true), { kind: "cb_queue" });
  assertEquals(eventOf(job, signal("wait"), true), { kind: "cb_wait" });
  assertEquals(eventOf(job, signal("retry"), true), { kind: "cb_retry" });
  assertEquals(eventOf(job, signal("cancel"), true), { kind: "cb_cancel", oncancel: true });
  const without = eventOf(runningJob(), signal("cancel"), true);
  assertEquals(without, { kind: "cb_cancel", oncancel: false });
  assertEquals(entryOf(signal("wait")), { result: "so far", error: "wait" });
});

Deno.test("the entry of a result has its value, its error, or the timeout", () => {
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

Deno.test("a lost job object, or one whose params are no object, leaves the data unchanged", () => {
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

Deno.test("a task sees the host that runs it, and the host of a job is not its to change", () => {
  const data = { params: {}, props: {} };
  const view = jobView(runningJob({ host: RUNNER as string as HostUuid }), data, 1);
  assertEquals(view.host_uuid, RUNNER);
  assertEquals(jobData({ ...view, host_uuid: OTHER_RUNNER }, data), data);
});

Deno.test("onerror tasks see the error of the chain unless a task has set its own", () => {
  const chain_results = [resultOf("first", { error: "disk died" })];
  const job = runningJob({ phase: "onerror", chain_results });
  assertEquals(jobView(job, { params: {}, props: {} }, 1).error, "disk died");
  assertEquals(jobView(job, { params: {}, props: { error: "mine" } }, 1).error, "mine");
});

Deno.test("jobAfter() equals the job that the store then returns", () => {
  const job = runningJob({ onerror: [taskOf("undo")], starts: 2 });
  const entry = resultOf("first");
  const data = { params: { a: 1 }, props: { b: 2 } };
  const after = (event: TaskEvent) => jobAfter(job, afterTask(heldIn("chain"), event), data, entry);
  const continued = after({ kind: "continue" });
  assertEquals([continued.chain_results, continued.starts], [[entry], 1]);
  assertEquals(continued.params, { a: 1 });
  const failed = after({ kind: "fail", onerror: true });
  assertEquals([failed.phase, failed.execution], ["onerror", "running"]);
  assertEquals(failed.onerror_results, []);
  const canceled = after({ kind: "cb_cancel", oncancel: true });
  assertEquals([canceled.phase, canceled.execution], ["oncancel", "canceled"]);
});
