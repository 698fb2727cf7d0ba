// The schemas of jobs and of what they report, and the job of the examples.

import { TASK_RESULT } from "../../domain/job/job.ts";
import { EXECUTION_WORDS } from "../../domain/job/wire.ts";
import type { JsonObject } from "../../domain/json.ts";
import { MACHINE_UUID } from "./machine_schemas.ts";
import {
  COUNT,
  INSTANT,
  listOf,
  objectOf,
  schemaRef,
  UUID,
} from "../../domain/description/answer.ts";
import { CHAIN, ONERROR, WORKFLOW_UUID } from "./workflows.ts";

/** The job of the examples. */
export const JOB_UUID = "51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10";

/** When the job of the examples started. */
export const STARTED_AT = "2026-01-31T18:30:00.020Z";
const FINISHED_AT = "2026-01-31T18:30:04.512Z";

/** The body of POST /jobs in the examples. */
export const JOB_REQUEST: JsonObject = {
  workflow: WORKFLOW_UUID,
  exec_after: "2026-01-31T18:30:00Z",
  target: `/machines/${MACHINE_UUID}`,
  machine: MACHINE_UUID,
};

const JOB: JsonObject = {
  uuid: JOB_UUID,
  workflow_uuid: WORKFLOW_UUID,
  name: "stop-machine",
  execution: "queued",
  chain: CHAIN,
  onerror: ONERROR,
  timeout: 600,
  exec_after: "2026-01-31T18:30:00.000Z",
  target: `/machines/${MACHINE_UUID}`,
  params: { machine: MACHINE_UUID },
  chain_results: [],
  onerror_results: [],
  created_at: "2026-01-31T18:29:12.345Z",
  elapsed: 0,
};

/** The same request with its optional fields. */
export const LOCKING_REQUEST: JsonObject = {
  ...JOB_REQUEST,
  locks: `^/machines/${MACHINE_UUID}(/|$)`,
  callback_url: "https://hooks.example.com/jobs",
};

/** A job that was just made. */
export const QUEUED_JOB: JsonObject = {
  ...JOB,
  reason: "scheduled",
  next_run_at: "2026-01-31T18:30:00.000Z",
};

/** The same job after a resume. */
export const RESUMED_JOB: JsonObject = { ...JOB, reason: "waiting_for_slot" };

/** The same job after it has succeeded. */
export const FINISHED_JOB: JsonObject = {
  ...JOB,
  execution: "success",
  chain_results: [{
    result: "stopped",
    error: "",
    name: "stop",
    started_at: STARTED_AT,
    finished_at: FINISHED_AT,
    attempts: 1,
  }],
  elapsed: 4.492,
  started_at: STARTED_AT,
  finished_at: FINISHED_AT,
};

/** The same job after a cancel. */
export const CANCELED_JOB: JsonObject = {
  ...JOB,
  execution: "canceled",
  finished_at: FINISHED_AT,
};

const EXECUTION: JsonObject = {
  type: "string",
  enum: [...EXECUTION_WORDS],
  description: "The state of the job. Finished jobs are `success` or `failure`; with `compat = " +
    '"node-workflow"`, `succeeded` or `failed`. A job that a task replaced by ' +
    "`cb('retry')` is `retried`.",
};

const JOB_FIELDS: JsonObject = {
  uuid: UUID,
  workflow_uuid: { ...UUID, description: "The workflow that the job was created from." },
  name: { type: "string", description: "The workflow's name." },
  execution: schemaRef("Execution"),
  chain: listOf(schemaRef("Task")),
  onerror: listOf(schemaRef("Task")),
  oncancel: listOf(schemaRef("Task")),
  timeout: { type: "integer", minimum: 1, description: "Seconds for the chain." },
  exec_after: { ...INSTANT, description: "The job does not run before this time." },
  target: {
    type: "string",
    description: "While the job is unfinished, no other job with this target and equal params is " +
      "accepted.",
  },
  locks: {
    type: "string",
    description:
      "While the job is unfinished, no job whose target matches this pattern is accepted.",
  },
  callback_url: { type: "string", format: "uri", description: "Called when the job is finished." },
  reason: {
    type: "string",
    enum: ["scheduled", "waiting_for_slot", "waiting_for_resume"],
    description:
      "Why an unfinished job is not running: its time has not come, no slot is free, or a " +
      "task waits for `resume`.",
  },
  next_run_at: { ...INSTANT, description: "When a scheduled job may run." },
  params: { type: "object", additionalProperties: true },
  chain_results: listOf(schemaRef("TaskResult")),
  onerror_results: listOf(schemaRef("TaskResult")),
  oncancel_results: listOf(schemaRef("TaskResult")),
  created_at: INSTANT,
  started_at: { ...INSTANT, description: "When a runner first took the job." },
  finished_at: INSTANT,
  elapsed: {
    type: "number",
    minimum: 0,
    description: "Seconds that its tasks have run so far.",
  },
  runner_id: { ...UUID, description: "The runner that is running the job." },
  num_attempts: { ...COUNT, description: "How many times the job was repeated." },
  prev_attempt: { ...UUID, description: "The job that this one repeats." },
  next_attempt_refused: {
    type: "string",
    description: "Why `cb('retry')` created no other job.",
  },
  params_from: {
    ...UUID,
    description:
      "The job whose params, as its tasks left them, this one started with. Absent if it " +
      "started with those of the request.",
  },
  next_attempt: { ...UUID, description: "The job that repeats this one." },
};

/** Schemas of jobs and their parts, by name. @see document 2, Job */
export const JOB_SCHEMAS: JsonObject = {
  Execution: EXECUTION,
  TaskResult: TASK_RESULT,
  Job: objectOf(
    "A job. Whatever its tasks set on the job object is added to these fields.",
    [
      "uuid",
      "workflow_uuid",
      "name",
      "execution",
      "chain",
      "onerror",
      "timeout",
      "exec_after",
      "params",
      "chain_results",
      "onerror_results",
      "created_at",
      "elapsed",
    ],
    JOB_FIELDS,
    "open",
  ),
  JobInfo: {
    type: "object",
    description: "One entry of reported progress.",
    minProperties: 1,
    additionalProperties: true,
  },
};
