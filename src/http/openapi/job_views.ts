// The views of jobs in the OpenAPI document: summaries, failed attempts and logs.

import { EXECUTIONS, PHASES } from "../../domain/job/state.ts";
import { LOG_LEVELS } from "../../domain/job/job.ts";
import { WAIT_REASONS } from "../../domain/job/summary.ts";
import type { JsonObject } from "../../domain/json.ts";
import { COUNT_QUERY_FIELDS, LOG_QUERY_FIELDS, SUMMARY_QUERY_FIELDS } from "../routes/jobs/view.ts";
import { refusals } from "./errors.ts";
import { JOB_REQUEST, JOB_UUID, STARTED_AT } from "./job_schemas.ts";
import { MACHINE_UUID } from "./machine_schemas.ts";
import {
  COUNT,
  INSTANT,
  jsonAnswer,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_INSTANT,
  NULLABLE_TEXT,
  NULLABLE_UUID,
  type OpenapiPart,
  parameterRef,
  schemaRef,
  TEXT,
  UUID,
  whole,
} from "./operation.ts";
import { queryParameters } from "./requests.ts";
import { WORKFLOW_UUID } from "./workflows.ts";

const NULLABLE_OBJECT: JsonObject = { type: ["object", "null"], additionalProperties: true };
const PHASE: JsonObject = { type: "string", enum: [...PHASES] };
const INDEX: JsonObject = { ...COUNT, description: "Place of the task in its chain." };
const SEQUENCE: JsonObject = {
  type: "integer",
  minimum: 0,
  description: "Rises with every line of every job, also across restarts.",
};

/** Or null. */
function nullable(schema: JsonObject): JsonObject {
  return { anyOf: [schema, { type: "null" }] };
}

const SUMMARY_FIELDS: JsonObject = {
  uuid: UUID,
  name: { type: "string", description: "The workflow's name." },
  workflow_uuid: UUID,
  state: { type: "string", enum: [...EXECUTIONS] },
  reason: {
    type: ["string", "null"],
    enum: [...WAIT_REASONS, null],
    description: "Why the job does not run at present: `scheduled` until `next_run_at`, " +
      "`waiting_for_retry` until `task.next_retry_at`; `undoing` is a canceled job whose " +
      "`oncancel` chain is not done.",
  },
  next_run_at: NULLABLE_INSTANT,
  task: nullable(schemaRef("SummaryTask")),
  tasks_done: { ...COUNT, description: "Tasks of the chain that have ended." },
  tasks_total: COUNT,
  progress: {
    ...NULLABLE_OBJECT,
    description: "What the running task has reported last: `phase`, `done` and `total` in bytes, " +
      "`rate` in bytes a second. Null over 4096 bytes: the log has it.",
  },
  error: { ...NULLABLE_TEXT, description: "Why the job failed, in one line." },
  target: NULLABLE_TEXT,
  machine: nullable(
    whole("The machine of the job's target.", { uuid: UUID, alias: NULLABLE_TEXT }),
  ),
  host: { type: "string", description: "Names the managed host." },
  created_at: INSTANT,
  started_at: NULLABLE_INSTANT,
  finished_at: NULLABLE_INSTANT,
  elapsed: {
    type: "number",
    minimum: 0,
    description: "Seconds that its tasks have run, until now while one does.",
  },
  duration: {
    type: ["number", "null"],
    minimum: 0,
    description: "Seconds from the first start to the end, or until now.",
  },
  params: {
    ...NULLABLE_OBJECT,
    description: "Secrets are masked, for a caller of scope `read` every param. Null when they " +
      "are over 4096 bytes: `GET /jobs/{job_uuid}` has them.",
  },
  params_bytes: COUNT,
  prev_attempt: { ...NULLABLE_UUID, description: "The job that this one repeats." },
  next_attempt: { ...NULLABLE_UUID, description: "The job that repeats this one." },
};

const ATTEMPT_FIELDS: JsonObject = {
  task: TEXT,
  phase: PHASE,
  index: INDEX,
  attempt: { ...COUNT, description: "Number of the attempt, from 1." },
  fallback: { type: "boolean", description: "Whether the fallback ran and not the body." },
  error: { description: "What it failed with; `interrupted` when it ended with the agent." },
  message: { type: "string", description: "The error in one line." },
  started_at: INSTANT,
  finished_at: INSTANT,
  wait_seconds: {
    type: ["number", "null"],
    minimum: 0,
    description: "Seconds until the next attempt; null when none follows.",
  },
};

const LINE_FIELDS: JsonObject = {
  sequence: SEQUENCE,
  time: INSTANT,
  task: NULLABLE_TEXT,
  attempt: { ...NULLABLE_COUNT, description: "Number of the task's attempt." },
  level: { type: "string", enum: [...LOG_LEVELS] },
  message: NULLABLE_TEXT,
  progress: NULLABLE_OBJECT,
  fields: { ...NULLABLE_OBJECT, description: "What else the line holds. Secrets are masked." },
};

const FAILED_AT = "2026-01-31T18:30:02.120Z";

const SUMMARY: JsonObject = {
  uuid: JOB_UUID,
  name: "stop-machine",
  workflow_uuid: WORKFLOW_UUID,
  state: "running",
  reason: "waiting_for_retry",
  next_run_at: null,
  task: {
    name: "stop",
    phase: "chain",
    index: 0,
    attempt: 2,
    since: null,
    next_retry_at: "2026-01-31T18:30:07.120Z",
  },
  tasks_done: 0,
  tasks_total: 1,
  progress: null,
  error: null,
  target: JOB_REQUEST.target ?? null,
  machine: { uuid: MACHINE_UUID, alias: "web-1" },
  host: "gz-7.example.com",
  created_at: "2026-01-31T18:29:12.345Z",
  started_at: STARTED_AT,
  finished_at: null,
  elapsed: 3.1,
  duration: 3.1,
  params: { machine: MACHINE_UUID, password: "***" },
  params_bytes: 79,
  prev_attempt: null,
  next_attempt: null,
};

const ATTEMPT: JsonObject = {
  task: "stop",
  phase: "chain",
  index: 0,
  attempt: 1,
  fallback: false,
  error: { name: "Error", message: "the guest does not answer" },
  message: "the guest does not answer",
  started_at: STARTED_AT,
  finished_at: FAILED_AT,
  wait_seconds: 5,
};

const LINES: JsonObject[] = [{
  sequence: 4711,
  time: STARTED_AT,
  task: "stop",
  attempt: 1,
  level: "info",
  message: "asked the guest to power off",
  progress: null,
  fields: null,
}, {
  sequence: 4712,
  time: FAILED_AT,
  task: "stop",
  attempt: 1,
  level: "warn",
  message: "attempt 1 failed: the guest does not answer; the next one follows after 5 s",
  progress: null,
  fields: { phase: "chain", started_at: STARTED_AT, wait_seconds: 5 },
}];

/** A filter of jobs, key by key. */
const COUNT_EXAMPLES: JsonObject = {
  uuid: JOB_UUID.slice(0, 8),
  search: "web-1",
  since: "2025-12-31",
  until: "2026-12-31T00:00:00Z",
  target: JOB_REQUEST.target ?? "",
  machine: MACHINE_UUID,
  name: "stop-machine",
  workflow_uuid: WORKFLOW_UUID,
  params: JSON.stringify({ machine: MACHINE_UUID }),
  finished_since: "2026-01-31T00:00:00Z",
};

/** The views, added to the part about jobs. */
export const JOB_VIEWS: Pick<OpenapiPart, "schemas" | "paths"> = {
  schemas: {
    SummaryTask: whole("The task that runs, waits or has failed.", {
      name: TEXT,
      phase: PHASE,
      index: INDEX,
      attempt: { ...NULLABLE_COUNT, description: "Null while it does not run." },
      since: { ...NULLABLE_INSTANT, description: "When the attempt began." },
      next_retry_at: NULLABLE_INSTANT,
    }),
    JobSummary: whole(
      "A job without the sources of its tasks and without secrets.",
      SUMMARY_FIELDS,
    ),
    JobCounts: whole("Numbers of jobs that fit a filter.", {
      counts: whole(
        "By their states.",
        Object.fromEntries(EXECUTIONS.map((execution) => [execution, COUNT])),
      ),
      whole: { type: "boolean", description: "False when there may be more." },
    }),
    FailedAttempt: whole("An attempt of a task that failed.", ATTEMPT_FIELDS),
    LogLine: whole("A line of a job's log: it has a message, or progress.", LINE_FIELDS),
  },
  paths: {
    "/agent/v1/jobs": {
      get: {
        operationId: "job_summary_list",
        summary: "Summaries of jobs, newest first",
        description:
          "Each page looks at a bounded number of jobs: it may be short, or empty, while `next` " +
          "says that others follow.",
        parameters: queryParameters(SUMMARY_QUERY_FIELDS, {
          ...COUNT_EXAMPLES,
          state: "failed,canceled",
          limit: 20,
          cursor: "aWQgNDcxMSA",
        }),
        responses: {
          "200": jsonAnswer(
            "A page.",
            whole("A page of summaries.", {
              jobs: listOf(schemaRef("JobSummary")),
              next: {
                ...NULLABLE_TEXT,
                description: "`cursor` of the next page; null at the end.",
              },
            }),
            { jobs: [SUMMARY], next: null },
          ),
          ...refusals("409"),
        },
      },
    },
    "/agent/v1/jobs/counts": {
      get: {
        operationId: "job_counts",
        summary: "How many jobs fit a filter, by their states",
        description:
          "It looks at a bounded number of jobs, the newest first; without a filter, `GET /stats` has " +
          "the numbers of all.",
        parameters: queryParameters(COUNT_QUERY_FIELDS, COUNT_EXAMPLES),
        responses: {
          "200": jsonAnswer("The numbers.", schemaRef("JobCounts"), {
            counts: {
              queued: 0,
              running: 1,
              waiting: 0,
              succeeded: 12,
              failed: 2,
              canceled: 0,
              retried: 1,
            },
            whole: true,
          }),
          ...refusals("409"),
        },
      },
    },
    "/agent/v1/jobs/{job_uuid}": {
      get: {
        operationId: "job_summary_get",
        summary: "The summary of a job, with its failed attempts",
        description:
          "Of each task the first 5 and the last 20 failed attempts are kept, of a chain the last 50 " +
          "are shown; the log has the others.",
        parameters: [parameterRef("JobUuid")],
        responses: {
          "200": jsonAnswer(
            "The job.",
            whole("A job and its failed attempts.", {
              ...SUMMARY_FIELDS,
              secret_params: {
                ...listOf(TEXT),
                description: "Names of fields that the workflow calls secret.",
              },
              attempts: listOf(schemaRef("FailedAttempt")),
            }),
            { ...SUMMARY, secret_params: ["license_key"], attempts: [ATTEMPT] },
          ),
          ...refusals("404", "409"),
        },
      },
    },
    "/agent/v1/jobs/{job_uuid}/log": {
      get: {
        operationId: "job_log",
        summary: "The log of a job, oldest line first",
        description:
          "What its tasks logged and reported, what others reported of it, the calls of its tasks, " +
          "and each attempt that failed. A page has about 256 KiB at most.",
        parameters: [
          parameterRef("JobUuid"),
          ...queryParameters(LOG_QUERY_FIELDS, { last: 20, before: 1_000_000, after: 0 }),
        ],
        responses: {
          "200": jsonAnswer(
            "A page.",
            whole("A page of a log.", {
              lines: listOf(schemaRef("LogLine")),
              before: { ...NULLABLE_COUNT, description: "`before` of earlier lines, if any." },
              after: { ...COUNT, description: "`after` of the lines that come later." },
              more: {
                type: "boolean",
                description: "Whether lines follow in the direction of the page.",
              },
            }),
            { lines: LINES, before: null, after: 4712, more: false },
          ),
          ...refusals("404", "409"),
        },
      },
    },
  },
};
