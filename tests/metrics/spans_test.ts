// What becomes a span, and how large it may be.

import { assertEquals, assertNotEquals } from "@std/assert";
import type { Job, TaskResult } from "../../src/domain/job/job.ts";
import type { Answered } from "../../src/metrics/request_meter.ts";
import { jobSpans, requestSpan } from "../../src/metrics/spans.ts";

const AT = "2026-01-01T00:00:00.000Z";
const UUID = "01890a5d-ac96-774b-bcce-b302099a8057";

function task(name: string): TaskResult {
  const error = { name: "E".repeat(1000), message: "a secret" };
  return { name, result: null, error, started_at: AT, finished_at: AT, attempts: 1 } as TaskResult;
}

/** What a span is made of; the rest of a job is nothing to it. */
function job(fields: Partial<Job> = {}): Job {
  return {
    uuid: UUID,
    workflow_uuid: UUID,
    name: "j".repeat(1000),
    execution: "failed",
    runner_id: null,
    claimable_at: null,
    created_at: AT,
    started_at: AT,
    finished_at: AT,
    chain_results: [task("a".repeat(1000)), task("b")],
    onerror_results: [task("c")],
    oncancel_results: [],
    ...fields,
  } as unknown as Job;
}

function answered(fields: Partial<Answered> = {}): Answered {
  return {
    method: "GET",
    route: "/jobs/:job_uuid",
    status: 200,
    seconds: 0.5,
    request: new Request("http://localhost/jobs/x?y=z"),
    request_id: null,
    ...fields,
  };
}

Deno.test("the spans of a job are the same each time, and each has an id of its own", () => {
  const spans = jobSpans(job());
  assertEquals(jobSpans(job()), spans);
  assertEquals(new Set(spans.map(({ spanId }) => spanId)).size, 4);
  for (const { spanId } of spans) {
    assertEquals([spanId.length, /^[0-9a-f]+$/.test(spanId)], [16, true]);
  }
});

Deno.test("a job that is being undone has no spans yet", () => {
  assertEquals(
    jobSpans(job({ execution: "canceled", claimable_at: AT as Job["claimable_at"] })),
    [],
  );
  assertNotEquals(jobSpans(job({ execution: "canceled" })), []);
  assertEquals(jobSpans(job({ execution: "running" })), []);
});

Deno.test("a span is bounded, whatever the names of jobs, tasks, errors and methods are", () => {
  const texts = jobSpans(job()).flatMap(({ name, attributes }) => [
    name,
    ...Object.values(attributes).map(String),
  ]);
  assertEquals(Math.max(...texts.map(({ length }) => length)), 256);
  const odd = requestSpan(answered({ method: "M".repeat(5000) }), 1000);
  assertEquals([odd?.name, odd?.attributes["http.request.method"]], [
    "HTTP /jobs/:job_uuid",
    "_OTHER",
  ]);
  const long = new Request(`http://localhost/${"p".repeat(5000)}`);
  assertEquals(
    `${requestSpan(answered({ request: long }), 1)?.attributes["url.path"]}`.length,
    256,
  );
});

Deno.test("a request's span has the trace of its caller, and no query", () => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const request = new Request("http://localhost/jobs/x?y=z", { headers: { traceparent } });
  const span = requestSpan(answered({ request }), 1000);
  assertEquals([span?.traceId, span?.parentSpanId, span?.startMs, span?.attributes["url.path"]], [
    "0af7651916cd43dd8448eb211c80319c",
    "b7ad6b7169203331",
    500,
    "/jobs/x",
  ]);
  const refused = requestSpan(answered({ route: "none" }), 1000);
  assertEquals([refused?.name, refused?.attributes["http.route"]], ["GET", undefined]);
  const odd = { headers: new Headers(), url: "*" } as Request;
  assertEquals(requestSpan(answered({ request: odd }), 1000)?.attributes["url.path"], undefined);
  const broken = new Request(request, { headers: { traceparent: `${traceparent}-x` } });
  assertEquals(requestSpan(answered({ request: broken }), 1000)?.parentSpanId, undefined);
});
