// What becomes a span: an answered request, and a job that has ended with the tasks that it ran. The
// trace of a job has the digits of its uuid, so that whoever knows the job finds its trace.

import { isUndoing, type Job, type TaskResult } from "../domain/job/job.ts";
import { isFinal } from "../domain/job/state.ts";
import { isJsonObject } from "../domain/json.ts";
import type { Span } from "./otlp_document.ts";
import { type Answered, METHODS, NO_ROUTE } from "./request_meter.ts";

/** @see W3C Trace Context, traceparent */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const SAMPLED = 1;
const SPAN_BYTES = 8;
const TRACE_BYTES = 16;
const PATH_CHARS_MAX = 256;
/** Characters of a name: those of jobs, tasks and errors are their authors', and may be of any size. */
const NAME_CHARS_MAX = 256;
/** Hex digits of the number of a task within its job. */
const TASK_DIGITS = 4;
const FAILED_FROM = 500;

/**
 * The span of a request that has just been answered; undefined when its caller wants none.
 * @param endMs milliseconds since 1970
 */
export function requestSpan(answered: Answered, endMs: number): Span | undefined {
  const { method, route, status, seconds, request, request_id } = answered;
  const known = METHODS.has(method);
  const verb = known ? method : "HTTP";
  // A caller may write a target that is no URL, such as that of OPTIONS *.
  const url = URL.parse(request.url);
  const [, traceId, parentSpanId, flags = ""] =
    TRACEPARENT.exec(request.headers.get("traceparent") ?? "") ?? [];
  if (traceId !== undefined && (parseInt(flags, 16) & SAMPLED) === 0) return undefined;
  return {
    traceId: traceId ?? randomHex(TRACE_BYTES),
    spanId: randomHex(SPAN_BYTES),
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    // @see OpenTelemetry semantic conventions, HTTP server spans: of methods and routes
    name: route === NO_ROUTE ? verb : `${verb} ${route}`,
    kind: "server",
    startMs: endMs - seconds * 1000,
    endMs,
    attributes: {
      "http.request.method": known ? method : "_OTHER",
      ...(route === NO_ROUTE ? {} : { "http.route": route }),
      "http.response.status_code": status,
      ...(url === null ? {} : {
        "url.scheme": url.protocol.slice(0, -1),
        "url.path": copyOf(url.pathname.slice(0, PATH_CHARS_MAX)),
      }),
      ...(request_id === null ? {} : { "zonewright.request_id": request_id }),
    },
    failed: status >= FAILED_FROM,
  };
}

/** A part of a text holds the whole in memory: a span that waits must not hold a long request line. */
function copyOf(text: string): string {
  return JSON.parse(JSON.stringify(text));
}

/** The spans of a job that has ended; none while it has still tasks to run. */
export function jobSpans(job: Job): Span[] {
  if (!isFinal(job.execution) || isUndoing(job) || job.finished_at === null) return [];
  const traceId = job.uuid.replaceAll("-", "");
  const spanId = traceId.slice(0, 2 * SPAN_BYTES);
  const own: Span = {
    traceId,
    spanId,
    name: `job ${job.name}`.slice(0, NAME_CHARS_MAX),
    kind: "internal",
    startMs: Date.parse(job.started_at ?? job.created_at),
    endMs: Date.parse(job.finished_at),
    attributes: {
      "zonewright.job_uuid": job.uuid,
      "zonewright.workflow_uuid": job.workflow_uuid,
      "zonewright.execution": job.execution,
    },
    failed: job.execution === "failed",
  };
  const ran = (["chain", "onerror", "oncancel"] as const).flatMap((phase) =>
    job[`${phase}_results`].map((task) => ({ task, phase }))
  );
  // The same digits each time: a collector that took what it did not answer gets no second span.
  const digits = traceId.slice(-2 * SPAN_BYTES, -TASK_DIGITS);
  const tasks = ran.map(({ task, phase }, at) => {
    const number = at.toString(16).padStart(TASK_DIGITS, "0").slice(-TASK_DIGITS);
    return taskSpan(task, { traceId, spanId: digits + number, parentSpanId: spanId, phase });
  });
  return [own, ...tasks];
}

function taskSpan(
  task: TaskResult,
  { phase, ...ids }: Pick<Span, "traceId" | "spanId" | "parentSpanId"> & { phase: string },
): Span {
  const { error } = task;
  const failed = error !== "";
  const type = isJsonObject(error) && typeof error.name === "string" ? error.name : "Error";
  return {
    ...ids,
    name: `task ${task.name}`.slice(0, NAME_CHARS_MAX),
    kind: "internal",
    startMs: Date.parse(task.started_at),
    endMs: Date.parse(task.finished_at),
    attributes: {
      "zonewright.phase": phase,
      "zonewright.attempts": task.attempts,
      // What it says may be a secret of the task: the trace names its kind.
      ...(failed ? { "error.type": type.slice(0, NAME_CHARS_MAX) } : {}),
    },
    failed,
  };
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
