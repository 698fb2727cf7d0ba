// The part of the description about jobs: making them, looking at them, and changing them.

import type { JsonObject } from "../../domain/json.ts";
import { paramFilter } from "../routes/jobs/filter.ts";
import { JOB_QUERY_FIELDS, WAIT_FIELDS } from "../routes/jobs/jobs.ts";
import { JOB_BULK_PATHS, JOB_BULK_SCHEMAS } from "./job_bulk.ts";
import { JOB_INFO_PATHS } from "./job_info.ts";
import { BODY_REFUSALS, onlyRefusals, refusals } from "./errors.ts";
import {
  CANCELED_JOB,
  FINISHED_JOB,
  JOB_REQUEST,
  JOB_SCHEMAS,
  JOB_UUID,
  LOCKING_REQUEST,
  QUEUED_JOB,
  RESUMED_JOB,
} from "./job_schemas.ts";
import { MACHINE_UUID } from "./machine_schemas.ts";
import {
  inPath,
  jsonAnswer,
  jsonBody,
  listOf,
  type OpenapiPart,
  parameterRef,
  schemaRef,
  UUID,
} from "./operation.ts";
import { queryParameters } from "./requests.ts";
import { WORKFLOW_UUID } from "./workflows.ts";

const JOB = schemaRef("Job");
const BY_UUID: JsonObject[] = [parameterRef("JobUuid")];

const FILTERS: JsonObject[] = [
  ...queryParameters(JOB_QUERY_FIELDS, {
    execution: "queued",
    since: "2025-12-31",
    until: "2026-12-31T00:00:00Z",
    target: JOB_REQUEST.target ?? "",
    name: "stop-machine",
    workflow_uuid: WORKFLOW_UUID,
    limit: 50,
    offset: 0,
  }),
  // Every other key names one of the params.
  ...queryParameters({ params: paramFilter }, { params: { machine: MACHINE_UUID } }),
];

const COLLECTION: Record<string, JsonObject> = {
  get: {
    operationId: "job_list",
    summary: "Jobs, newest first",
    description:
      "Without parameters all jobs are listed. Long lists are sent while they are read: " +
      "a failure after the beginning breaks the connection, so that no list looks whole which is not.",
    parameters: FILTERS,
    responses: {
      "200": jsonAnswer("The jobs.", listOf(JOB), [FINISHED_JOB], ["X-Count"]),
      ...refusals("409"),
    },
  },
  post: {
    operationId: "job_create",
    summary: "Make a job of a workflow",
    description: "The job keeps its own copy of the workflow's tasks. A job of the built-in " +
      "workflow `provision-machine` takes the fields of `POST /agent/v1/machines` as its params.",
    parameters: [parameterRef("IdempotencyKey")],
    requestBody: jsonBody("The job.", schemaRef("JobRequest"), {
      stop: JOB_REQUEST,
      locking: LOCKING_REQUEST,
    }),
    responses: {
      "201": jsonAnswer("The job, which is kept from now on.", JOB, QUEUED_JOB, [
        "Location",
        "Idempotency-Replayed",
        "Request-Id",
      ]),
      ...refusals("404", ...BODY_REFUSALS, "507"),
    },
  },
};

const SINGLE: Record<string, JsonObject> = {
  get: {
    operationId: "job_get",
    summary: "One job",
    parameters: BY_UUID,
    responses: {
      "200": jsonAnswer("The job.", JOB, FINISHED_JOB, ["Request-Id"]),
      ...refusals("404"),
    },
  },
  put: {
    operationId: "job_replace_refused",
    summary: "Refused: a job is not replaced",
    parameters: BY_UUID,
    responses: onlyRefusals("405"),
  },
  delete: {
    operationId: "job_delete_refused",
    summary: "Refused: a job is canceled, not deleted",
    parameters: BY_UUID,
    responses: onlyRefusals("405"),
  },
};

const WAIT: Record<string, JsonObject> = {
  get: {
    operationId: "job_wait",
    summary: "One job, once it is finished or waiting",
    description: "Answers with the job as it is then, or as it is when the time is up.",
    parameters: [
      ...BY_UUID,
      ...queryParameters(WAIT_FIELDS, { timeout: 5 }),
    ],
    responses: { "200": jsonAnswer("The job.", JOB, FINISHED_JOB), ...refusals("404", "409") },
  },
};

const CANCEL: Record<string, JsonObject> = {
  post: {
    operationId: "job_cancel",
    summary: "Cancel a job that is not finished",
    description: "A running task is stopped. A finished job answers 409.",
    parameters: BY_UUID,
    requestBody: jsonBody("Without meaning, but of a JSON content type.", {}, {
      empty: {},
    }),
    responses: {
      "200": jsonAnswer("The canceled job.", JOB, CANCELED_JOB),
      ...refusals("404", ...BODY_REFUSALS, "507"),
    },
  },
};

const RESUME: Record<string, JsonObject> = {
  post: {
    operationId: "job_resume",
    summary: "Report the outcome of a waiting job's task",
    description:
      "Without `error` the result is recorded and the job is queued again; with it the " +
      "job fails. A job that is not waiting answers 409.",
    parameters: BY_UUID,
    requestBody: jsonBody("The outcome.", schemaRef("ResumeRequest"), {
      default: {},
      result: { result: { copied: 40_960 } },
      error: { error: "the copy broke off" },
    }),
    responses: {
      "200": jsonAnswer("The job, queued or failed.", JOB, RESUMED_JOB),
      ...refusals("404", ...BODY_REFUSALS, "507"),
    },
  },
};

/** @see document 2, Endpoints */
export const JOBS: OpenapiPart = {
  tag: {
    name: "Jobs",
    description: "Runs of workflows: one task after the other, each outcome recorded. A recorded " +
      "task never runs again, whatever happens to the agent.",
  },
  parameters: { JobUuid: inPath("job_uuid", "The job's uuid.", UUID, JOB_UUID) },
  schemas: { ...JOB_SCHEMAS, ...JOB_BULK_SCHEMAS },
  paths: {
    "/jobs": COLLECTION,
    "/jobs/{job_uuid}": SINGLE,
    "/jobs/{job_uuid}/wait": WAIT,
    "/jobs/{job_uuid}/cancel": CANCEL,
    "/jobs/{job_uuid}/resume": RESUME,
    ...JOB_INFO_PATHS,
    ...JOB_BULK_PATHS,
  },
};
