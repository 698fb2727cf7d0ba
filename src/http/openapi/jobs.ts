// Jobs in the OpenAPI document: creating, reading and changing one, repeating finished ones, and changing many at
// once.

import type { JsonObject } from "../../domain/json.ts";
import { JOB as JOB_SHAPE } from "../../domain/job/wire.ts";
import { paramFilter } from "../routes/jobs/filter.ts";
import { JOB_QUERY_FIELDS } from "../routes/jobs/jobs.ts";
import { WAIT_FIELDS } from "../routes/jobs/wait.ts";
import { BODY_REFUSALS, onlyRefusals, refusals } from "./errors.ts";
import {
  CANCELED_JOB,
  FINISHED_JOB,
  JOB_REQUEST,
  JOB_SCHEMAS,
  JOB_UUID,
  JOB_VIEWS,
  LOCKING_REQUEST,
  MACHINE_UUID,
  QUEUED_JOB,
  RESUMED_JOB,
} from "./schemas.ts";
import { HOST_UUID } from "./hosts.ts";
import {
  listOf,
  schemaRef,
  type ShapeOf,
  shapeRef,
  UUID,
} from "../../domain/description/answer.ts";
import {
  emptyAnswer,
  inPath,
  jsonAnswer,
  jsonBody,
  type OpenapiPart,
  parameterRef,
  queryParameters,
} from "./operation.ts";
import { WORKFLOW_UUID } from "./workflows.ts";
import { INFO_QUERY_FIELDS } from "../routes/jobs/info.ts";
import { CANCELED_JOBS, REFUSED_JOB, RETRIED_JOBS } from "../routes/jobs/bulk.ts";
import { PRUNED_JOBS } from "../routes/jobs/prune.ts";

const JOB = shapeRef("Job", JOB_SHAPE);
const BY_UUID: JsonObject[] = [parameterRef("JobUuid")];
const ENTRY = { task: "stop", message: "asked the guest to power off" };

/** The paths of a job's info. @see document 2, Job info entry */
const JOB_INFO_PATHS: OpenapiPart["paths"] = {
  "/jobs/{job_uuid}/info": {
    get: {
      operationId: "job_info_list",
      summary: "The reported progress of a job, oldest first",
      parameters: [
        ...BY_UUID,
        ...queryParameters(INFO_QUERY_FIELDS, { after: 0, limit: 50 }),
      ],
      responses: {
        "200": jsonAnswer("The entries.", listOf(schemaRef("JobInfo")), [ENTRY]),
        ...refusals("404", "409"),
      },
    },
    post: {
      operationId: "job_info_append",
      summary: "Report progress of a job",
      description:
        "Appends the object in `message`, or the whole body if it has other fields. Settings " +
        "limit the size and the number of entries.",
      parameters: BY_UUID,
      requestBody: jsonBody(
        "The entry.",
        schemaRef("InfoRequest"),
        { message: { message: ENTRY }, entry: ENTRY },
      ),
      responses: {
        "200": emptyAnswer("The entry was stored. There is no body."),
        ...refusals("404", ...BODY_REFUSALS, "507"),
      },
    },
    put: {
      operationId: "job_info_replace_refused",
      summary: "Refused: entries are permanent",
      parameters: BY_UUID,
      responses: onlyRefusals("405"),
    },
    delete: {
      operationId: "job_info_delete_refused",
      summary: "Refused: entries are permanent",
      parameters: BY_UUID,
      responses: onlyRefusals("405"),
    },
  },
};

const NEXT_UUID = "9a4b8f52-7d1e-4c63-8a5f-1e0c7b2d6f93";
const OTHER_UUID = "e3d0c9a7-64b1-4f28-9c5e-8b7a6d1f2c04";

const ANOTHER_JOB: ShapeOf<typeof JOB_SHAPE> = {
  ...RESUMED_JOB,
  uuid: NEXT_UUID,
  num_attempts: 1,
  prev_attempt: JOB_UUID,
  chain_results: FINISHED_JOB.chain_results,
};

const JOB_BULK_SCHEMAS: JsonObject = {
  CanceledJobs: CANCELED_JOBS,
  RetriedJobs: RETRIED_JOBS,
  PrunedJobs: PRUNED_JOBS,
  RefusedJob: REFUSED_JOB,
};

const REFUSED: ShapeOf<typeof REFUSED_JOB> = {
  uuid: OTHER_UUID,
  code: "ConflictError",
  message:
    `Cannot cancel job ${OTHER_UUID}: execution is "success", expected queued or running or ` +
    "waiting",
};

const PRUNE_PATH: JsonObject = {
  operationId: "jobs_prune",
  summary: "Remove old finished jobs",
  description:
    "Removes the jobs with everything that belongs to them. The agent also does this by " +
    "itself, as the settings `keep_finished` and `finished_jobs_max` say.",
  requestBody: jsonBody("Which jobs.", schemaRef("PruneRequest"), {
    month: { older_than_seconds: 2_592_000 },
  }),
  responses: {
    "200": jsonAnswer("What was removed.", shapeRef("PrunedJobs", PRUNED_JOBS), {
      removed: 12,
      more: false,
    }),
    ...refusals(...BODY_REFUSALS),
  },
};

const JOB_BULK_PATHS: OpenapiPart["paths"] = {
  "/agent/v1/jobs/{job_uuid}/retry": {
    post: {
      operationId: "job_retry",
      summary: "Retry a finished job",
      description:
        "The new job has the same target, locks and callback, and the params of the original " +
        "request; with `from`, it has them as the tasks left them, and `params_from` names the " +
        "job. `prev_attempt` and `next_attempt` link the two jobs. Without `from`, the job " +
        "runs the current workflow, or its own tasks if the workflow was deleted. 409 if the " +
        "job is unfinished or has already been retried.",
      parameters: [parameterRef("JobUuid")],
      requestBody: jsonBody("Where to begin.", schemaRef("RetryRequest"), {
        whole: {},
        named: { from: "stop" },
        placed: { from: 0 },
      }),
      responses: {
        "201": jsonAnswer("The new job.", JOB, ANOTHER_JOB, ["Location"]),
        ...refusals("404", ...BODY_REFUSALS, "507"),
      },
    },
  },
  "/agent/v1/jobs/prune": { post: PRUNE_PATH },
  "/agent/v1/jobs/cancel": {
    post: {
      operationId: "jobs_cancel",
      summary: "Cancel many jobs that are not finished",
      description:
        "Each job is canceled separately, as `POST /jobs/{job_uuid}/cancel` does; the call waits for other hosts once, at most two seconds.",
      requestBody: jsonBody("Which jobs.", schemaRef("CancelSelection"), {
        workflow: { filter: { workflow_uuid: WORKFLOW_UUID }, limit: 100 },
        param: { filter: { execution: "queued", params: { machine: MACHINE_UUID } } },
      }),
      responses: {
        "200": jsonAnswer("The outcome for each job.", shapeRef("CanceledJobs", CANCELED_JOBS), {
          matched: 2,
          canceled: [{ uuid: JOB_UUID, stop_confirmed: true, host: null, host_state: null }],
          refused: [REFUSED],
          more: false,
        }),
        ...refusals(...BODY_REFUSALS),
      },
    },
  },
  "/agent/v1/jobs/retry": {
    post: {
      operationId: "jobs_retry",
      summary: "Retry many failed or canceled jobs",
      description:
        "Jobs that have already been retried are skipped. Each job is retried separately, from " +
        "its first task.",
      requestBody: jsonBody("Which jobs.", schemaRef("RetrySelection"), {
        failed: { filter: { execution: "failed", since: "2025-12-31" } },
        named: { filter: { name: "stop-machine", target: `/machines/${MACHINE_UUID}` } },
      }),
      responses: {
        "200": jsonAnswer("The outcome for each job.", shapeRef("RetriedJobs", RETRIED_JOBS), {
          matched: 1,
          retried: [{ uuid: JOB_UUID, next_attempt: NEXT_UUID }],
          refused: [],
          more: false,
        }),
        ...refusals(...BODY_REFUSALS),
      },
    },
  },
};

const FILTERS: JsonObject[] = [
  ...queryParameters(JOB_QUERY_FIELDS, {
    execution: "queued",
    since: "2025-12-31",
    until: "2026-12-31T00:00:00Z",
    target: JOB_REQUEST.target ?? "",
    name: "stop-machine",
    workflow_uuid: WORKFLOW_UUID,
    host: HOST_UUID,
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
      "Without parameters, all jobs are listed. If nothing is found, a name that looks like " +
      "a misspelled parameter is refused, unless a job has such a param. Long lists are " +
      "streamed: if reading fails later, the connection is broken, so that a partial list " +
      "never looks complete.",
    parameters: FILTERS,
    responses: {
      "200": jsonAnswer("The jobs.", listOf(JOB), [FINISHED_JOB], ["X-Count"]),
      ...refusals("409"),
    },
  },
  post: {
    operationId: "job_create",
    summary: "Create a job from a workflow",
    description: "The job keeps its own copy of the workflow's tasks. A job of the built-in " +
      "workflow `provision-machine` takes the fields of `POST /agent/v1/machines` as its params.",
    parameters: [parameterRef("IdempotencyKey")],
    requestBody: jsonBody("The job.", schemaRef("JobRequest"), {
      stop: JOB_REQUEST,
      locking: LOCKING_REQUEST,
    }),
    responses: {
      "201": jsonAnswer("The job, which is now stored.", JOB, QUEUED_JOB, [
        "Location",
        "Idempotency-Replayed",
        "Request-Id",
      ]),
      ...refusals("404", ...BODY_REFUSALS, "507"),
    },
  },
};

/** Headers of a job that was kept in memory, and how long ago it was true. */
const STALE = ["Age", "X-Stale"];

const SINGLE: Record<string, JsonObject> = {
  get: {
    operationId: "job_get",
    summary: "Get a job",
    parameters: BY_UUID,
    responses: {
      "200": jsonAnswer("The job.", JOB, FINISHED_JOB, ["Request-Id", ...STALE]),
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
    summary: "Wait until a job is finished or waiting",
    description: "Answers with the job at that moment, or when the time is up.",
    parameters: [
      ...BY_UUID,
      ...queryParameters(WAIT_FIELDS, { timeout: 5 }),
    ],
    responses: {
      "200": jsonAnswer("The job.", JOB, FINISHED_JOB, STALE),
      ...refusals("404", "409"),
    },
  },
};

const CANCEL: Record<string, JsonObject> = {
  post: {
    operationId: "job_cancel",
    summary: "Cancel a job that is not finished",
    description:
      "A running task is stopped. If another host runs it, the answer waits up to two seconds for it " +
      "to end, unless that host is away. A finished job answers 409.",
    parameters: BY_UUID,
    requestBody: jsonBody("An empty object.", schemaRef("CancelRequest"), { empty: {} }),
    responses: {
      "200": jsonAnswer("The canceled job.", JOB, CANCELED_JOB),
      ...refusals("404", ...BODY_REFUSALS, "507"),
    },
  },
};

const RESUME: Record<string, JsonObject> = {
  post: {
    operationId: "job_resume",
    summary: "Resume a waiting job with the outcome of its task",
    description:
      "Without `error`, the result is recorded and the job is queued again; with it, the job " +
      "fails. 409 if the job is not waiting.",
    parameters: BY_UUID,
    requestBody: jsonBody("The outcome.", schemaRef("ResumeRequest"), {
      default: {},
      result: { result: { copied: 40_960 } },
      error: { error: "the copy was interrupted" },
    }),
    responses: {
      "200": jsonAnswer("The job, queued or failed.", JOB, RESUMED_JOB),
      ...refusals("404", ...BODY_REFUSALS, "507"),
    },
  },
};

/** The operations on jobs. @see document 2, Endpoints */
export const JOBS: OpenapiPart = {
  tag: {
    name: "Jobs",
    description:
      "Runs of workflows: one task after another, each outcome recorded. A recorded task " +
      "never runs again, even if the agent crashes.",
  },
  parameters: { JobUuid: inPath("job_uuid", "The job's uuid.", UUID, JOB_UUID) },
  schemas: { ...JOB_SCHEMAS, ...JOB_BULK_SCHEMAS, ...JOB_VIEWS.schemas },
  paths: {
    "/jobs": COLLECTION,
    "/jobs/{job_uuid}": SINGLE,
    "/jobs/{job_uuid}/wait": WAIT,
    "/jobs/{job_uuid}/cancel": CANCEL,
    "/jobs/{job_uuid}/resume": RESUME,
    ...JOB_INFO_PATHS,
    ...JOB_BULK_PATHS,
    ...JOB_VIEWS.paths,
  },
};
