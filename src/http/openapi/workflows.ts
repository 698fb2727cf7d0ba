// The part of the description about workflows and their tasks.

import type { JsonObject } from "../../domain/json.ts";
import { DEFAULT_TIMEOUT_SECONDS, SECRET_PARAMS_MAX } from "../../domain/job/workflow.ts";
import { DEFAULT_HTTP_LIMITS } from "../context.ts";
import { BODY_REFUSALS, refusals } from "./errors.ts";
import {
  emptyAnswer,
  inPath,
  inQuery,
  jsonAnswer,
  jsonBody,
  listOf,
  objectOf,
  type OpenapiPart,
  parameterRef,
  schemaRef,
  UUID,
} from "./operation.ts";

/** The workflow of the examples. */
export const WORKFLOW_UUID = "2f1f6f6e-3c86-4a0b-8d0c-3a1c5a0f9b11";
const TASK_UUID = "a6c1b6de-6bb0-4a9f-8d6f-4f2b3f0c7d21";
const ONERROR_UUID = "c0d7a0b4-54a3-4d0e-9f0a-7a2c9e5b8f31";

const { sourceCharsMax, retryMax, tasksMax, timeoutSecondsMax } = DEFAULT_HTTP_LIMITS;

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
const NAME: JsonObject = { type: "string", minLength: 1, maxLength: 255 };

const TASK_FIELDS: JsonObject = {
  name: { type: "string" },
  body: {
    type: "string",
    description: "JavaScript definition of one function of `job` and `cb`. `cb()` and `cb(null, " +
      "result)` succeed, `cb(error)` fails; `cb('wait')` sets the job to waiting, `cb('queue')` " +
      `puts it back to the queue. At most ${sourceCharsMax} characters unless configured.`,
  },
  fallback: {
    type: "string",
    description:
      "JavaScript definition of one function of `err`, `job` and `cb`, called when the " +
      "body has failed for good.",
  },
  retry: {
    type: "integer",
    minimum: 0,
    default: 0,
    description:
      "Further runs of a body that failed, before `fallback` or failure; with `compat = " +
      `"node-workflow"\` the first one counts too. At most ${retryMax} unless configured.`,
  },
  timeout: {
    ...SECONDS,
    description: "Seconds for one run of `body` or `fallback`. At most " +
      `${timeoutSecondsMax} unless configured.`,
  },
  retry_delay: {
    type: "integer",
    minimum: 0,
    description: "Seconds between a failed run and the next.",
  },
};

function workflowFields(tasks: JsonObject): JsonObject {
  return {
    name: NAME,
    chain: tasks,
    onerror: { ...tasks, description: "Tasks that run when the chain has failed." },
    oncancel: { ...tasks, description: "Tasks that run after a cancel of a started job." },
    timeout: {
      ...SECONDS,
      description: "Seconds for the chain; time spent queued or waiting does not count. Without " +
        `it jobs have ${DEFAULT_TIMEOUT_SECONDS}. At most ${timeoutSecondsMax} unless configured.`,
    },
    secret_params: {
      type: "array",
      maxItems: SECRET_PARAMS_MAX,
      items: NAME,
      description: "Names of fields of jobs, results and info whose values only administrators " +
        "see, besides params and what is named like a secret.",
    },
  };
}

const SENT_TASKS: JsonObject = { type: ["array", "null"], items: schemaRef("TaskRequest") };
const SHOWN: JsonObject = { uuid: UUID, ...workflowFields(listOf(schemaRef("Task"))) };

const SCHEMAS: JsonObject = {
  TaskRequest: objectOf(
    "A task as it is sent. Further keys are kept as sent, except `modules`, which is refused.",
    ["body"],
    { uuid: { description: "Kept when it is a uuid; otherwise one is made." }, ...TASK_FIELDS },
    "open",
  ),
  Task: objectOf("A task as it was sent, with its uuid.", ["uuid", "body"], {
    uuid: UUID,
    ...TASK_FIELDS,
  }, "open"),
  WorkflowRequest: objectOf(
    `A workflow as it is sent. Further keys are kept as sent. At most ${tasksMax} tasks in each ` +
      "list unless configured.",
    ["name"],
    {
      ...workflowFields(SENT_TASKS),
      "chain[]": { ...SENT_TASKS, description: "Another name of `chain`." },
      "onerror[]": { ...SENT_TASKS, description: "Another name of `onerror`." },
    },
    "open",
  ),
  Workflow: objectOf(
    "A named chain of tasks.",
    ["uuid", "name", "chain", "onerror"],
    SHOWN,
    "open",
  ),
  WorkflowRead: objectOf(
    "A workflow, read by its uuid.",
    ["uuid", "wf_uuid", "name", "chain", "onerror"],
    { ...SHOWN, wf_uuid: { ...UUID, description: "The same as `uuid`." } },
    "open",
  ),
};

const BODY = jsonBody("The workflow.", schemaRef("WorkflowRequest"), { stop: REQUEST });

/** @see document 2, Workflow */
export const WORKFLOWS: OpenapiPart = {
  tag: {
    name: "Workflows",
    description: "Named chains of tasks, from which jobs are made. Jobs keep their own copy of " +
      "the tasks, so a workflow may be changed or deleted at any time.",
  },
  parameters: {
    WorkflowUuid: inPath("wf_uuid", "The workflow's uuid.", UUID, WORKFLOW_UUID),
    Limit: inQuery(
      "limit",
      "Entries of this page; without it, all.",
      { type: "integer", minimum: 1, maximum: 10_000 },
      50,
    ),
    Offset: inQuery(
      "offset",
      "Entries to pass over.",
      { type: "integer", minimum: 0, default: 0 },
      0,
    ),
  },
  schemas: SCHEMAS,
  paths: {
    "/workflows": {
      get: {
        operationId: "workflow_list",
        summary: "Every workflow, in the order of their creation",
        parameters: [
          inQuery("name", "Only those of this name, built-in ones too.", NAME, "stop-machine"),
          inQuery(
            "builtin",
            "Whether those that are part of the agent are listed too.",
            { type: "boolean", default: false },
            true,
          ),
          parameterRef("Limit"),
          parameterRef("Offset"),
        ],
        responses: {
          "200": jsonAnswer("The workflows.", listOf(schemaRef("Workflow")), [WORKFLOW], [
            "X-Count",
          ]),
          ...refusals("409"),
        },
      },
      post: {
        operationId: "workflow_create",
        summary: "Make a workflow",
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
        summary: "One workflow",
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
        description: "What is not sent is gone; only the uuid stays. A workflow that is part of " +
          "the agent answers 409.",
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
        description: "Its jobs stay. A workflow that is part of the agent answers 409.",
        parameters: [parameterRef("WorkflowUuid")],
        responses: {
          "204": emptyAnswer("The workflow is gone."),
          ...refusals("404", "409", "507"),
        },
      },
    },
  },
};
