// /workflows: the workflows that jobs run. A job keeps its own copy of the chain, so a workflow may be changed or deleted at any time.

import {
  always,
  COUNT,
  objectOf,
  type ShapeOf,
  TEXT,
  UUID,
  whole,
} from "../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { uuidBeginning } from "../../domain/description/formats.ts";
import { about, anyText, flag } from "../../domain/description/value.ts";
import { AgentError, invalidArgument, unreachable } from "../../domain/error.ts";
import { parsePathUuid, parseUuid, type WorkflowUuid } from "../../domain/id.ts";
import { isJsonObject } from "../../domain/json.ts";
import {
  readWorkflow,
  type StoredWorkflow,
  type Workflow,
  WORKFLOW_FIELDS,
} from "../../domain/job/workflow.ts";
import type { CreateWorkflowOutcome, Store, WorkflowFilter } from "../../store/store.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";
import { CONVENTIONS } from "../request/compat.ts";
import { isLarge, readJson, wholeBody } from "../request/body.ts";
import { type Page, PAGE_FIELDS, readQuery } from "../request/query.ts";
import { listResponse, type NextPage } from "../answer/json_list.ts";
import { answerNames, answerText, shownTo } from "../answer/text_answer.ts";
import { PHASES } from "../../domain/job/state.ts";

type WorkflowsContext = Pick<
  ServedAgent,
  "store" | "limits" | "now" | "newUuid" | "log" | "budget" | "wording" | "checkSources"
>;

/** Built-in workflows can be read, but not changed. @see document 2, Endpoints */
export function workflowRoutes(context: WorkflowsContext): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/workflows", (c) => listWorkflows(c, context));
  app.post("/workflows", (c) => createWorkflow(c, context));
  app.get("/workflows/:wf_uuid", (c) => getWorkflow(c, context));
  app.put("/workflows/:wf_uuid", (c) => replaceWorkflow(c, context));
  app.delete("/workflows/:wf_uuid", (c) => removeWorkflow(c, context));
  app.post("/agent/v1/workflows/validate", (c) => validateWorkflow(c, context));
  return app;
}

/** The query of GET /workflows. */
export const WORKFLOW_QUERY_FIELDS = {
  name: about("Only workflows of this name, built-in ones included.", anyText()),
  uuid: about(
    "Only workflows whose uuid begins with these characters, at least 4; built-in ones " +
      "included.",
    uuidBeginning,
  ),
  builtin: about("Whether to list the built-in workflows too.", flag, {
    default: false,
  }),
  ...PAGE_FIELDS,
};

/**
 * In order of creation; `X-Count` is the number on all pages. Built-in workflows are part of the agent, so a
 * list shows them only on request: by `builtin=true`, by name or by uuid.
 */
async function listWorkflows(c: Context<HttpEnv>, context: WorkflowsContext): Promise<Response> {
  const { store } = context;
  const { name, uuid, builtin = false, ...page } = readQuery(c.req.url, WORKFLOW_QUERY_FIELDS);
  const withBuiltin = builtin || name !== undefined || uuid !== undefined;
  const filter = {
    ...(name === undefined ? {} : { name }),
    ...(uuid === undefined ? {} : { uuid }),
    ...(withBuiltin ? {} : { builtin: false }),
  };
  c.header("x-count", String(await store.workflows.count(filter)));
  const options = { ...context, shown: shownTo(c, "other") };
  return await listResponse(c, workflowPages(filter, page, store), options);
}

function workflowPages(filter: WorkflowFilter, page: Page, { workflows }: Store): NextPage {
  let left = page.limit ?? Number.MAX_SAFE_INTEGER;
  let place: { offset?: number; after?: number } = { offset: page.offset ?? 0 };
  return async (size) => {
    const limit = Math.min(size, left);
    const listed = await workflows.texts(filter, { limit, ...place });
    left -= listed.entries;
    if (listed.place !== undefined) place = { after: listed.place };
    return { ...listed, last: listed.last || left === 0 };
  };
}

async function createWorkflow(c: Context<HttpEnv>, context: WorkflowsContext): Promise<Response> {
  const body = await readJson(c, wholeBody(context.limits));
  const uuid = newWorkflowUuid(body, context);
  const workflow = await acceptedWorkflow(c, body, uuid, context);
  const { workflowsMax: max } = context.limits;
  const { uniqueNames: uniqueName } = CONVENTIONS[context.wording];
  const outcome = await context.store.workflows.create(workflow, {
    max,
    uniqueName,
  });
  if (outcome.kind !== "created") throw creationRefusal(outcome, uuid, max);
  const headers = { location: `/workflows/${uuid}`, ...answerNames(uuid, context.wording) };
  return await answerWorkflow(c, { workflow, status: 201, headers }, context);
}

/** The answer of `GET /workflows/UUID`. node-workflow's clients read `wf_uuid`. */
export const WORKFLOW_READ = objectOf(
  "A single workflow.",
  ["uuid", "wf_uuid", "name", "chain", "onerror"],
  { ...WORKFLOW_FIELDS, wf_uuid: { ...UUID, description: "The same as `uuid`." } },
  "open",
);

/** The answer of `POST /agent/v1/workflows/validate`, which stores nothing. */
export const VALID_WORKFLOW = whole("A workflow that would be accepted.", {
  valid: always(true),
  name: TEXT,
  tasks: { ...COUNT, description: "Tasks of its chain." },
});

/** Refuses what POST /workflows would refuse, and keeps nothing. */
async function validateWorkflow(c: Context<HttpEnv>, context: WorkflowsContext): Promise<Response> {
  const body = await readJson(c, wholeBody(context.limits));
  const { name, chain } = await acceptedWorkflow(c, body, context.newUuid(), context);
  const answer: ShapeOf<typeof VALID_WORKFLOW> = { valid: true, name, tasks: chain.length };
  return c.json(answer);
}

/** A body as a workflow, after a decoder has checked its sources. */
async function acceptedWorkflow(
  c: Context<HttpEnv>,
  body: unknown,
  uuid: WorkflowUuid,
  { newUuid, limits, checkSources, wording }: WorkflowsContext,
): Promise<Workflow> {
  const read = readWorkflow(body, uuid, newUuid, limits);
  const workflow = read.accept(await checkSources(read.sources, c.req.raw.signal));
  return CONVENTIONS[wording].digests ? await withDigests(workflow) : workflow;
}

/** Adds `chain_md5`, the MD5 of each chain as JSON text, by which clients see whether a chain has changed. */
async function withDigests(workflow: Workflow): Promise<Workflow> {
  const { createHash } = await import("node:crypto");
  const digests = PHASES.flatMap((name) => {
    const tasks = workflow[name];
    if (tasks === undefined) return [];
    return [[`${name}_md5`, createHash("md5").update(JSON.stringify(tasks)).digest("hex")]];
  });
  return { ...workflow, ...Object.fromEntries(digests) };
}

/** The client's uuid, if it may choose one, or a new one. */
function newWorkflowUuid(body: unknown, context: WorkflowsContext): WorkflowUuid {
  const { clientUuid } = CONVENTIONS[context.wording];
  return clientUuid && isJsonObject(body) && body.uuid !== undefined
    ? parseUuid<WorkflowUuid>(body.uuid, "uuid")
    : context.newUuid<WorkflowUuid>();
}

function creationRefusal(
  outcome: Exclude<CreateWorkflowOutcome, { kind: "created" }>,
  uuid: WorkflowUuid,
  max: number,
): AgentError {
  switch (outcome.kind) {
    case "full": {
      const message = `Cannot create a workflow: there are ${max}, the maximum`;
      return new AgentError("overloaded", message);
    }
    case "uuid_taken":
      return new AgentError("conflict", `Cannot create workflow ${uuid}: it exists already`);
    case "name_taken":
      return secondName(outcome.uuid);
    default:
      return unreachable(outcome);
  }
}

function secondName(holder: WorkflowUuid): AgentError {
  const message = `Cannot accept the workflow: Workflow.name must be unique, and ${holder} has it`;
  return invalidArgument("name", message);
}

async function getWorkflow(c: Context<HttpEnv>, context: WorkflowsContext): Promise<Response> {
  const uuid = workflowUuidOf(c);
  const text = await context.store.workflows.text(uuid, "shown");
  if (text === undefined) throw notFound(uuid);
  const headers = answerNames(uuid, context.wording);
  return await answerText(c, text, { ...context, shown: shownTo(c, "other"), headers });
}

async function replaceWorkflow(c: Context<HttpEnv>, context: WorkflowsContext): Promise<Response> {
  const body = await readJson(c, wholeBody(context.limits));
  const { uuid } = (await changeableWorkflow(c, context, "change")).workflow;
  const workflow = await acceptedWorkflow(c, body, uuid, context);
  const { putStatus, putLocation, uniqueNames: uniqueName } = CONVENTIONS[context.wording];
  const outcome = await context.store.workflows.replace(workflow, { uniqueName });
  if (outcome.kind === "name_taken") throw secondName(outcome.uuid);
  if (outcome.kind === "not_found") throw notFound(uuid);
  const headers = putLocation ? { location: `/workflows/${uuid}` } : {};
  return await answerWorkflow(c, { workflow, status: putStatus, headers }, context);
}

interface WrittenWorkflow {
  readonly workflow: Workflow;
  readonly status: 200 | 201;
  readonly headers: Record<string, string>;
}

/** The workflow as written; a large one is read again while it is sent. */
async function answerWorkflow(
  c: Context<HttpEnv>,
  { workflow, status, headers }: WrittenWorkflow,
  context: WorkflowsContext,
): Promise<Response> {
  if (!isLarge(c)) return c.json(workflow, status, headers);
  const text = await context.store.workflows.text(workflow.uuid, "stored");
  if (text === undefined) throw notFound(workflow.uuid);
  return await answerText(c, text, { ...context, shown: shownTo(c, "other"), status, headers });
}

async function removeWorkflow(c: Context<HttpEnv>, context: WorkflowsContext): Promise<Response> {
  const { uuid } = (await changeableWorkflow(c, context, "delete")).workflow;
  if (!await context.store.workflows.remove(uuid)) throw notFound(uuid);
  return c.body(null, 204);
}

function workflowUuidOf(c: Context<HttpEnv>): WorkflowUuid {
  return parsePathUuid<WorkflowUuid>(c.req.param("wf_uuid") ?? "", "workflow");
}

async function storedWorkflow(
  c: Context<HttpEnv>,
  { store }: WorkflowsContext,
): Promise<StoredWorkflow> {
  const uuid = workflowUuidOf(c);
  const stored = await store.workflows.get(uuid);
  if (stored === undefined) throw notFound(uuid);
  return stored;
}

async function changeableWorkflow(
  c: Context<HttpEnv>,
  context: WorkflowsContext,
  verb: "change" | "delete",
): Promise<StoredWorkflow> {
  const stored = await storedWorkflow(c, context);
  if (!stored.builtin) return stored;
  const { name } = stored.workflow;
  const message = `Cannot ${verb} workflow ${JSON.stringify(name)}: it is part of the agent`;
  throw new AgentError("conflict", message);
}

function notFound(uuid: WorkflowUuid): AgentError {
  return new AgentError(
    "not_found",
    `Cannot find workflow ${uuid}: it does not exist, or was deleted`,
  );
}
