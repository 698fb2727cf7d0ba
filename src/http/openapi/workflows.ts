// Workflows and their tasks in the OpenAPI document.

import type { JsonObject } from "../../domain/json.ts";
import { WORKFLOW_QUERY_FIELDS } from "../routes/workflows.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import { COUNT, listOf, objectOf, schemaRef, TEXT, UUID } from "../../domain/description/answer.ts";
import {
  emptyAnswer,
  inPath,
  jsonAnswer,
  jsonBody,
  type OpenapiPart,
  parameterRef,
} from "./operation.ts";
import { queryParameters } from "./requests.ts";

/** The workflow of the examples. */
export const WORKFLOW_UUID = "2f1f6f6e-3c86-4a0b-8d0c-3a1c5a0f9b11";
const TASK_UUID = "a6c1b6de-6bb0-4a9f-8d6f-4f2b3f0c7d21";
const ONERROR_UUID = "c0d7a0b4-54a3-4d0e-9f0a-7a2c9e5b8f31";

const STOP: JsonObject = {
  name: "stop",
  body: "async (job, cb) => { await vmadm.stop(job.params.machine, {}); cb(null, 'stopped'); }",
  fallback:
    "(err, job, cb) => vmadm.stop(job.params.machine, { force: true }).then(() => cb(), cb)",
  retry: 2,
  timeout: 120,
};
const TELL: JsonObject = {
  name: "tell",
  body: "(job, cb) => { info({ message: 'the machine still runs' }); cb(); }",
};

/** The tasks of the examples as responses show them. */
export const CHAIN: JsonObject[] = [{ ...STOP, uuid: TASK_UUID }];
/** The onerror tasks of the examples as responses show them. */
export const ONERROR: JsonObject[] = [{ ...TELL, uuid: ONERROR_UUID }];

const REQUEST: JsonObject = { name: "stop-machine", chain: [STOP], onerror: [TELL], timeout: 600 };
/** A workflow as responses show it. */
export const WORKFLOW: JsonObject = {
  name: "stop-machine",
  timeout: 600,
  uuid: WORKFLOW_UUID,
  chain: CHAIN,
  onerror: ONERROR,
};

const SECONDS: JsonObject = { type: "integer", minimum: 1 };

/** A task in responses; requests are also bounded by the agent's settings. */
const TASK_FIELDS: JsonObject = {
  name: TEXT,
  body: TEXT,
  fallback: TEXT,
  retry: COUNT,
  timeout: SECONDS,
  retry_delay: COUNT,
};

const TASKS = listOf(schemaRef("Task"));
const SHOWN: JsonObject = {
  uuid: UUID,
  name: TEXT,
  chain: TASKS,
  onerror: TASKS,
  oncancel: TASKS,
  timeout: SECONDS,
  secret_params: listOf(TEXT),
};

const SCHEMAS: JsonObject = {
  Task: objectOf<JsonObject>("A task as it was sent, with its uuid.", ["uuid", "body"], {
    uuid: UUID,
    ...TASK_FIELDS,
  }, "open"),
  Workflow: objectOf(
    "A named chain of tasks.",
    ["uuid", "name", "chain", "onerror"],
    SHOWN,
    "open",
  ),
  WorkflowRead: objectOf<JsonObject>(
    "A single workflow.",
    ["uuid", "wf_uuid", "name", "chain", "onerror"],
    { ...SHOWN, wf_uuid: { ...UUID, description: "The same as `uuid`." } },
    "open",
  ),
  ValidWorkflow: objectOf("A workflow that would be accepted.", ["valid", "name", "tasks"], {
    valid: { const: true },
    name: TEXT,
    tasks: { ...COUNT, description: "Tasks of its chain." },
  }),
};

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
          "200": jsonAnswer("The workflows.", listOf(schemaRef("Workflow")), [WORKFLOW], [
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
          "201": jsonAnswer("The workflow.", schemaRef("Workflow"), WORKFLOW, [
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
          "200": jsonAnswer("The workflow.", schemaRef("WorkflowRead"), {
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
            schemaRef("Workflow"),
            WORKFLOW,
          ),
          "201": jsonAnswer("The workflow.", schemaRef("Workflow"), WORKFLOW, ["Location"]),
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
          "200": jsonAnswer("The workflow would be accepted.", schemaRef("ValidWorkflow"), {
            valid: true,
            name: "stop-machine",
            tasks: 1,
          }),
          ...refusals(...BODY_REFUSALS),
        },
      },
    },
  },
};
