// The schemas of jobs and of what they report, and the job of the examples.

import { TASK_RESULT } from "../../domain/job/job.ts";
import { EXECUTION, JOB as JOB_SHAPE } from "../../domain/job/wire.ts";
import type { Instant } from "../../domain/instant.ts";
import type { JsonObject } from "../../domain/json.ts";
import { MACHINE_UUID } from "./machine_schemas.ts";
import type { ShapeOf } from "../../domain/description/answer.ts";
import { CHAIN, ONERROR, WORKFLOW_UUID } from "./workflows.ts";

/** The job of the examples. */
export const JOB_UUID = "51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10";

/** When the job of the examples started. */
export const STARTED_AT: Instant = "2026-01-31T18:30:00.020Z";
const FINISHED_AT: Instant = "2026-01-31T18:30:04.512Z";

/** The body of POST /jobs in the examples. */
export const JOB_REQUEST: JsonObject = {
  workflow: WORKFLOW_UUID,
  exec_after: "2026-01-31T18:30:00Z",
  target: `/machines/${MACHINE_UUID}`,
  machine: MACHINE_UUID,
};

type JobExample = ShapeOf<typeof JOB_SHAPE>;

const JOB: JobExample = {
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
export const QUEUED_JOB: JobExample = {
  ...JOB,
  reason: "scheduled",
  next_run_at: "2026-01-31T18:30:00.000Z",
};

/** The same job after a resume. */
export const RESUMED_JOB: JobExample = { ...JOB, reason: "waiting_for_slot" };

/** The same job after it has succeeded. */
export const FINISHED_JOB: JobExample = {
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
export const CANCELED_JOB: JobExample = {
  ...JOB,
  execution: "canceled",
  finished_at: FINISHED_AT,
};

/** Schemas of jobs and their parts, by name. @see document 2, Job */
export const JOB_SCHEMAS: JsonObject = {
  Execution: EXECUTION,
  TaskResult: TASK_RESULT,
  Job: JOB_SHAPE,
  JobInfo: {
    type: "object",
    description: "One entry of reported progress.",
    minProperties: 1,
    additionalProperties: true,
  },
};
