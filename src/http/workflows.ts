// /workflows: the workflows that jobs are made of. Jobs keep their own copy of the chain, so a
// workflow may be changed or deleted at any time.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { parsePathUuid, parseUuid, type WorkflowUuid } from "../domain/id.ts";
import { isJsonObject } from "../domain/json.ts";
import { parseWorkflow, type StoredWorkflow, type Workflow } from "../domain/workflow.ts";
import type { AppDeps, HttpEnv } from "./app_deps.ts";
import { CONVENTIONS } from "./compat.ts";
import { readJson } from "./json_body.ts";
import { pageOf, readQuery } from "./query.ts";
import { nameAnswer } from "./request_id.ts";

/** @see document 2, Endpoints */
export function workflowRoutes(deps: AppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/workflows", (c) => listWorkflows(c, deps));
  app.post("/workflows", (c) => createWorkflow(c, deps));
  app.get("/workflows/:wf_uuid", (c) => getWorkflow(c, deps));
  app.put("/workflows/:wf_uuid", (c) => replaceWorkflow(c, deps));
  app.delete("/workflows/:wf_uuid", (c) => removeWorkflow(c, deps));
  return app;
}

/**
 * Built-in workflows are part of the agent and nobody's making: a list shows them when it is asked
 * for them, by `builtin=true` or by name.
 */
async function listWorkflows(c: Context<HttpEnv>, { store }: AppDeps): Promise<Response> {
  const query = readQuery(c.req.url, ["name", "builtin", "limit", "offset"]);
  const { limit, offset = 0 } = pageOf(query);
  const name = query.get("name");
  const withBuiltin = name !== undefined || readFlag(query, "builtin");
  const stored = await store.workflows.list(name === undefined ? {} : { name });
  const listed = stored.filter(({ builtin }) => withBuiltin || !builtin);
  c.header("x-count", String(listed.length));
  const page = listed.slice(offset, limit === undefined ? undefined : offset + limit);
  return c.json(page.map(({ workflow }) => workflow));
}

function readFlag(query: ReadonlyMap<string, string>, name: string): boolean {
  const word = query.get(name) ?? "false";
  if (word === "true" || word === "false") return word === "true";
  throw invalidArgument(name, `Cannot read ${name}: expected true or false`);
}

async function createWorkflow(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const body = await readJson(c.req.raw, deps.limits);
  const uuid = await newWorkflowUuid(body, deps);
  const workflow = parseWorkflow(body, uuid, deps.newUuid, deps.limits);
  await refuseSecondName(workflow, deps);
  const { workflowsMax } = deps.limits;
  if (!await deps.store.workflows.create(workflow, deps.now(), workflowsMax)) {
    const message = `Cannot create a workflow: there are ${workflowsMax}, the most there may be`;
    throw new AgentError("overloaded", message);
  }
  c.header("location", `/workflows/${uuid}`);
  nameAnswer(c, uuid, deps.wording);
  return c.json(workflow, 201);
}

/** @throws {AgentError} `conflict` when a client chose a uuid that is taken */
async function newWorkflowUuid(body: unknown, deps: AppDeps): Promise<WorkflowUuid> {
  const { clientUuid } = CONVENTIONS[deps.wording];
  if (!clientUuid || !isJsonObject(body) || body.uuid === undefined) {
    return deps.newUuid<WorkflowUuid>();
  }
  const uuid = parseUuid<WorkflowUuid>(body.uuid, "uuid");
  if (await deps.store.workflows.get(uuid) === undefined) return uuid;
  throw new AgentError("conflict", `Cannot create workflow ${uuid}: it exists already`);
}

/** @throws {AgentError} `invalid_argument`, only where names are unique */
async function refuseSecondName(workflow: Workflow, { store, wording }: AppDeps): Promise<void> {
  if (!CONVENTIONS[wording].uniqueNames) return;
  const holders = await store.workflows.list({ name: workflow.name });
  const holder = holders.find((stored) => stored.workflow.uuid !== workflow.uuid);
  if (holder === undefined) return;
  const message = `Cannot accept the workflow: ${holder.workflow.uuid} has the same name`;
  throw invalidArgument("name", message);
}

async function getWorkflow(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const { workflow } = await storedWorkflow(c, deps);
  nameAnswer(c, workflow.uuid, deps.wording);
  return c.json({ ...workflow, wf_uuid: workflow.uuid });
}

async function replaceWorkflow(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const body = await readJson(c.req.raw, deps.limits);
  const { uuid } = (await changeableWorkflow(c, deps, "change")).workflow;
  const workflow = parseWorkflow(body, uuid, deps.newUuid, deps.limits);
  await refuseSecondName(workflow, deps);
  if (!await deps.store.workflows.replace(workflow)) throw notFound(uuid);
  const { putStatus, putLocation } = CONVENTIONS[deps.wording];
  if (putLocation) c.header("location", `/workflows/${uuid}`);
  return c.json(workflow, putStatus);
}

async function removeWorkflow(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const { uuid } = (await changeableWorkflow(c, deps, "delete")).workflow;
  if (!await deps.store.workflows.remove(uuid)) throw notFound(uuid);
  return c.body(null, 204);
}

async function storedWorkflow(c: Context<HttpEnv>, { store }: AppDeps): Promise<StoredWorkflow> {
  const uuid = parsePathUuid<WorkflowUuid>(c.req.param("wf_uuid") ?? "", "workflow");
  const stored = await store.workflows.get(uuid);
  if (stored === undefined) throw notFound(uuid);
  return stored;
}

async function changeableWorkflow(
  c: Context<HttpEnv>,
  deps: AppDeps,
  verb: "change" | "delete",
): Promise<StoredWorkflow> {
  const stored = await storedWorkflow(c, deps);
  if (!stored.builtin) return stored;
  const { name } = stored.workflow;
  const message = `Cannot ${verb} workflow ${JSON.stringify(name)}: it is part of the agent`;
  throw new AgentError("conflict", message);
}

function notFound(uuid: WorkflowUuid): AgentError {
  return new AgentError("not_found", `Cannot find workflow ${uuid}`);
}
