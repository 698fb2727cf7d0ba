// /jobs: creating jobs, looking at them, and changing them. Handlers write rows and give the runner a
// hint; what the row says is what counts.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument } from "../domain/error.ts";
import type { JobUuid } from "../domain/id.ts";
import type { NewJob } from "../domain/job.ts";
import { type JobRequest, parseJobRequest, parseResume } from "../domain/job_request.ts";
import { jobOnWire } from "../domain/job_wire.ts";
import type { JsonValue } from "../domain/json.ts";
import { parseLockPattern } from "../domain/lock_pattern.ts";
import type { Workflow } from "../domain/workflow.ts";
import type { CreateJobOutcome } from "../store/job_store.ts";
import type { AppDeps, HttpEnv } from "./app_deps.ts";
import { CONVENTIONS } from "./compat.ts";
import { earlierJob, IDEMPOTENCY_REPLAYED, idempotencyOf } from "./idempotency.ts";
import { cancelJob, jobNotFound, jobUuidOf, resumeJob } from "./job_change.ts";
import { listJobs } from "./job_list.ts";
import { jobRefusal } from "./job_refusal.ts";
import { openJobWait } from "./job_wait.ts";
import { readJson } from "./json_body.ts";
import type { MachineJobs } from "./machine_jobs.ts";
import { nameAnswer } from "./request_id.ts";

/** @see document 2, Endpoints */
export function jobRoutes(deps: AppDeps, machineJobs: MachineJobs): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/jobs", (c) => listJobs(c, deps));
  app.post("/jobs", (c) => postJob(c, deps, machineJobs));
  app.get("/jobs/:job_uuid", (c) => getJob(c, deps));
  app.get("/jobs/:job_uuid/wait", openJobWait(deps));
  app.post("/jobs/:job_uuid/cancel", (c) => postCancel(c, deps));
  app.post("/jobs/:job_uuid/resume", (c) => postResume(c, deps));
  return app;
}

async function postJob(
  c: Context<HttpEnv>,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<Response> {
  const body = await readJson(c.req.raw, deps.limits);
  const request = parseJobRequest(body, deps.limits);
  if (request.locks !== null) await parseLockPattern(request.locks);
  // parseJobRequest has refused everything but an object that was read from JSON.
  const idempotency = await idempotencyOf(c.req.raw.headers, body as JsonValue);
  const created_at = deps.now();
  const { exec_after, target, locks, callback_url, params } = request;
  const wish = {
    uuid: deps.newUuid<JobUuid>(),
    exec_after: exec_after ?? created_at,
    target,
    locks,
    callback_url,
    params,
    ...(idempotency === undefined ? {} : { idempotency }),
    created_at,
  };
  const outcome = await makeJob(wish, request, deps, machineJobs);
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  if (outcome.kind === "repeated") c.header(IDEMPOTENCY_REPLAYED, "true");
  else deps.wake();
  const { job } = outcome;
  c.header("location", `/jobs/${job.uuid}`);
  nameAnswer(c, job.uuid, deps.wording);
  return c.json(jobOnWire(job, deps.wording, deps.now()), 201);
}

async function makeJob(
  wish: Omit<NewJob, "workflow">,
  { workflow_uuid }: JobRequest,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<CreateJobOutcome> {
  const { store, limits } = deps;
  // A repeated request is answered as before, whether or not the workflow is still there.
  const earlier = await earlierJob(wish.idempotency, store.jobs);
  if (earlier !== undefined) return earlier;
  const job = { ...wish, workflow: await workflowOf(workflow_uuid, deps) };
  return machineJobs.owns(workflow_uuid)
    ? await machineJobs.create(job)
    : await store.jobs.create(job, limits.unfinishedJobsMax);
}

/** @throws {AgentError} `not_found`, its message telling what was not found */
async function workflowOf(
  uuid: JobRequest["workflow_uuid"],
  { store, wording }: AppDeps,
): Promise<Workflow> {
  const stored = await store.workflows.get(uuid);
  if (stored === undefined) {
    throw new AgentError("not_found", `Cannot create a job: no workflow has uuid ${uuid}`);
  }
  if (stored.workflow.chain.length === 0 && !CONVENTIONS[wording].emptyChain) {
    throw invalidArgument("workflow", `Cannot create a job: workflow ${uuid} has no tasks`);
  }
  return stored.workflow;
}

async function getJob(c: Context<HttpEnv>, { store, wording, now }: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  const job = await store.jobs.get(uuid);
  if (job === undefined) throw jobNotFound(uuid);
  nameAnswer(c, uuid, wording);
  return c.json(jobOnWire(job, wording, now()));
}

async function postCancel(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  await readJson(c.req.raw, deps.limits); // The body has no meaning, but it must be JSON.
  return c.json(jobOnWire(await cancelJob(uuid, deps), deps.wording, deps.now()));
}

async function postResume(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c.req.raw, deps.limits);
  const resume = parseResume(body, CONVENTIONS[deps.wording].resume);
  return c.json(jobOnWire(await resumeJob(uuid, resume, deps), deps.wording, deps.now()));
}
