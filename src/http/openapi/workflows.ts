// Workflows and their tasks in the OpenAPI document.

import type { TaskUuid, WorkflowUuid } from "../../domain/id.ts";
import type { JsonObject } from "../../domain/json.ts";
import { TASK, WORKFLOW as WORKFLOW_SHAPE } from "../../domain/job/workflow.ts";
import { VALID_WORKFLOW, WORKFLOW_QUERY_FIELDS, WORKFLOW_READ } from "../routes/workflows.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
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

/** The workflow of the examples. */
export const WORKFLOW_UUID = "2f1f6f6e-3c86-4a0b-8d0c-3a1c5a0f9b11" as WorkflowUuid;
const TASK_UUID = "a6c1b6de-6bb0-4a9f-8d6f-4f2b3f0c7d21" as TaskUuid;
const ONERROR_UUID = "c0d7a0b4-54a3-4d0e-9f0a-7a2c9e5b8f31" as TaskUuid;

const STOP = {
  name: "stop",
  body: "async (job, cb) => { await vmadm.stop(job.params.machine, {}); cb(null, 'stopped'); }",
  fallback:
    "(err, job, cb) => vmadm.stop(job.params.machine, { force: true }).then(() => cb(), cb)",
  retry: 2,
  timeout: 120,
};
const TELL = {
  name: "tell",
  body: "(job, cb) => { info({ message: 'the machine still runs' }); cb(); }",
};

/** The tasks of the examples as responses show them. */
export const CHAIN: ShapeOf<typeof TASK>[] = [{ ...STOP, uuid: TASK_UUID }];
/** The onerror tasks of the examples as responses show them. */
export const ONERROR: ShapeOf<typeof TASK>[] = [{ ...TELL, uuid: ONERROR_UUID }];

const REQUEST: JsonObject = { name: "stop-machine", chain: [STOP], onerror: [TELL], timeout: 600 };
/** A workflow as responses show it. */
export const WORKFLOW: ShapeOf<typeof WORKFLOW_SHAPE> = {
  name: "stop-machine",
  timeout: 600,
  uuid: WORKFLOW_UUID,
  chain: CHAIN,
  onerror: ONERROR,
};

const SCHEMAS: JsonObject = {
  Task: TASK,
  Workflow: WORKFLOW_SHAPE,
  WorkflowRead: WORKFLOW_READ,
  ValidWorkflow: VALID_WORKFLOW,
};
const SHOWN = shapeRef("Workflow", WORKFLOW_SHAPE);

const BODY = jsonBody("The workflow.", schemaRef("WorkflowRequest"), { stop: REQUEST });

/** The operations on workflows. @see document 2, Workflow */
export const WORKFLOWS: OpenapiPart = {
  tag: {
    name: "Workflows",
    description:
      "Named chains of tasks. A job keeps its own copy of the tasks, so a workflow may be " +
      "changed or deleted at any time.",
  },
  parameters: {
    WorkflowUuid: inPath("wf_uuid", "The workflow's uuid.", UUID, WORKFLOW_UUID),
  },
  schemas: SCHEMAS,
  paths: {
    "/workflows": {
      get: {
        operationId: "workflow_list",
        summary: "Every workflow, oldest first",
        parameters: queryParameters(WORKFLOW_QUERY_FIELDS, {
          name: "stop-machine",
          uuid: WORKFLOW_UUID.slice(0, 8),
          builtin: true,
          limit: 50,
          offset: 0,
        }),
        responses: {
          "200": jsonAnswer("The workflows.", listOf(SHOWN), [WORKFLOW], [
            "X-Count",
          ]),
          ...refusals("409"),
        },
      },
      post: {
        operationId: "workflow_create",
        summary: "Create a workflow",
        requestBody: BODY,
        responses: {
          "201": jsonAnswer("The workflow.", SHOWN, WORKFLOW, [
            "Location",
            "Request-Id",
          ]),
          ...refusals(...BODY_REFUSALS, "507"),
        },
      },
    },
    "/workflows/{wf_uuid}": {
      get: {
        operationId: "workflow_get",
        summary: "Get a workflow",
        parameters: [parameterRef("WorkflowUuid")],
        responses: {
          "200": jsonAnswer("The workflow.", shapeRef("WorkflowRead", WORKFLOW_READ), {
            ...WORKFLOW,
            wf_uuid: WORKFLOW_UUID,
          }, ["Request-Id"]),
          ...refusals("404"),
        },
      },
      put: {
        operationId: "workflow_replace",
        summary: "Replace a workflow",
        description:
          "Fields that are not sent are removed; only the uuid stays. 409 for a built-in " +
          "workflow.",
        parameters: [parameterRef("WorkflowUuid")],
        requestBody: BODY,
        responses: {
          "200": jsonAnswer(
            'The workflow, when the agent was started with `compat = "node-workflow"`.',
            SHOWN,
            WORKFLOW,
          ),
          "201": jsonAnswer("The workflow.", SHOWN, WORKFLOW, ["Location"]),
          ...refusals("404", ...BODY_REFUSALS, "507"),
        },
      },
      delete: {
        operationId: "workflow_delete",
        summary: "Delete a workflow",
        description: "Its jobs stay. 409 for a built-in workflow.",
        parameters: [parameterRef("WorkflowUuid")],
        responses: {
          "204": emptyAnswer("The workflow was deleted."),
          ...refusals("404", "409", "507"),
        },
      },
    },
    "/agent/v1/workflows/validate": {
      post: {
        operationId: "workflow_validate",
        summary: "Check a workflow without storing it",
        description:
          "Refuses whatever `POST /workflows` would refuse, naming every incorrect field.",
        requestBody: BODY,
        responses: {
          "200": jsonAnswer(
            "The workflow would be accepted.",
            shapeRef("ValidWorkflow", VALID_WORKFLOW),
            {
              valid: true,
              name: "stop-machine",
              tasks: 1,
            },
          ),
          ...refusals(...BODY_REFUSALS),
        },
      },
    },
  },
};
