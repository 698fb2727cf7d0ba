// The paths of the description that make finished jobs anew, and that change many jobs at once.

import type { JsonObject } from "../../domain/json.ts";
import { PRUNED_OF_A_CALL_MAX } from "../routes/jobs/bulk.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { FINISHED_JOB, JOB_UUID, RESUMED_JOB } from "./job_schemas.ts";
import { MACHINE_UUID } from "./machine_schemas.ts";
import {
  COUNT,
  jsonAnswer,
  jsonBody,
  listOf,
  objectOf,
  type OpenapiPart,
  parameterRef,
  schemaRef,
  TEXT,
  UUID,
} from "./operation.ts";
import { WORKFLOW_UUID } from "./workflows.ts";

const NEXT_UUID = "9a4b8f52-7d1e-4c63-8a5f-1e0c7b2d6f93";
const OTHER_UUID = "e3d0c9a7-64b1-4f28-9c5e-8b7a6d1f2c04";

const ANOTHER_JOB: JsonObject = {
  ...RESUMED_JOB,
  uuid: NEXT_UUID,
  num_attempts: 1,
  prev_attempt: JOB_UUID,
  chain_results: FINISHED_JOB.chain_results ?? [],
};

function changed(done: "canceled" | "retried", fields: JsonObject): JsonObject {
  const required = ["uuid", ...Object.keys(fields)];
  return objectOf("What became of the jobs.", ["matched", done, "refused", "more"], {
    matched: { ...COUNT, description: "Jobs of this call that fit." },
    [done]: listOf(objectOf("A changed job.", required, { uuid: UUID, ...fields })),
    refused: {
      ...listOf(schemaRef("RefusedJob")),
      description: "Jobs that were left as they are; they may fit the next call again.",
    },
    more: { type: "boolean", description: "Whether others fit, beyond the limit." },
  });
}

/** The schemas of those paths. */
export const JOB_BULK_SCHEMAS: JsonObject = {
  CanceledJobs: changed("canceled", {}),
  RetriedJobs: changed("retried", {
    next_attempt: { ...UUID, description: "The job that was made of it." },
  }),
  PrunedJobs: objectOf("What was removed.", ["removed", "more"], {
    removed: { ...COUNT, maximum: PRUNED_OF_A_CALL_MAX },
    more: {
      type: "boolean",
      description: "Whether others are as old, beyond what one call removes.",
    },
  }),
  RefusedJob: objectOf("A job that was not changed, and why.", ["uuid", "code", "message"], {
    uuid: UUID,
    code: { type: "string", description: "As `code` of an error." },
    message: TEXT,
  }),
};

const REFUSED: JsonObject = {
  uuid: OTHER_UUID,
  code: "ConflictError",
  message: `Cannot cancel job ${OTHER_UUID}: execution is "success", expected queued, running or ` +
    "waiting",
};

const PRUNE_PATH: JsonObject = {
  operationId: "jobs_prune",
  summary: "Remove old finished jobs",
  description:
    "With all that belongs to them. The agent does so by itself, later, as its settings " +
    "`keep_finished` and `finished_jobs_max` say.",
  requestBody: jsonBody("Which jobs.", schemaRef("PruneRequest"), {
    month: { older_than_seconds: 2_592_000 },
  }),
  responses: {
    "200": jsonAnswer("What was removed.", schemaRef("PrunedJobs"), { removed: 12, more: false }),
    ...refusals(...BODY_REFUSALS),
  },
};

/** The paths themselves. */
export const JOB_BULK_PATHS: OpenapiPart["paths"] = {
  "/agent/v1/jobs/{job_uuid}/retry": {
    post: {
      operationId: "job_retry",
      summary: "Make a finished job anew",
      description:
        "The new job has the same params, target, locks and callback; `prev_attempt` and " +
        "`next_attempt` tie the two together. A whole job is made of the workflow as it is now, or " +
        "of the job's own tasks when that is gone. A job that is unfinished, or was made anew " +
        "already, answers 409.",
      parameters: [parameterRef("JobUuid")],
      requestBody: jsonBody("Where it begins.", schemaRef("RetryRequest"), {
        whole: {},
        named: { from: "stop" },
        placed: { from: 0 },
      }),
      responses: {
        "201": jsonAnswer("The new job.", schemaRef("Job"), ANOTHER_JOB, ["Location"]),
        ...refusals("404", ...BODY_REFUSALS, "507"),
      },
    },
  },
  "/agent/v1/jobs/prune": { post: PRUNE_PATH },
  "/agent/v1/jobs/cancel": {
    post: {
      operationId: "jobs_cancel",
      summary: "Cancel many jobs that are not finished",
      description: "Each is canceled on its own, as `POST /jobs/{job_uuid}/cancel` does.",
      requestBody: jsonBody("Which jobs.", schemaRef("CancelSelection"), {
        workflow: { filter: { workflow_uuid: WORKFLOW_UUID }, limit: 100 },
        param: { filter: { execution: "queued", params: { machine: MACHINE_UUID } } },
      }),
      responses: {
        "200": jsonAnswer("What became of them.", schemaRef("CanceledJobs"), {
          matched: 2,
          canceled: [{ uuid: JOB_UUID }],
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
      summary: "Make many failed or canceled jobs anew",
      description: "Jobs that were made anew already are passed over. Each is made anew on its " +
        "own, as a whole.",
      requestBody: jsonBody("Which jobs.", schemaRef("RetrySelection"), {
        failed: { filter: { execution: "failed", since: "2025-12-31" } },
        named: { filter: { name: "stop-machine", target: `/machines/${MACHINE_UUID}` } },
      }),
      responses: {
        "200": jsonAnswer("What became of them.", schemaRef("RetriedJobs"), {
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
