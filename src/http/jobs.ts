// /jobs: creating jobs, looking at them, and the two changes that callers may make to one. Handlers
// write rows and give the runner a hint; what the row says is what counts.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { type JobUuid, parsePathUuid } from "../domain/id.ts";
import {
  executionOnWire,
  type Job,
  jobOnWire,
  type JobRequest,
  parseJobRequest,
  parseResume,
} from "../domain/job.ts";
import type { Workflow } from "../domain/workflow.ts";
import type { ChangeOutcome } from "../store/store.ts";
import type { AppDeps, HttpEnv } from "./app_deps.ts";
import { CONVENTIONS } from "./compat.ts";
import { listJobs } from "./job_list.ts";
import { openJobWait } from "./job_wait.ts";
import { readJson } from "./json_body.ts";
import type { MachineJobs } from "./machine_jobs.ts";

/** @see document 2, Endpoints */
export function jobRoutes(deps: AppDeps, machineJobs: MachineJobs): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/jobs", (c) => listJobs(c, deps));
  app.post("/jobs", (c) => createJob(c, deps, machineJobs));
  app.get("/jobs/:job_uuid", (c) => getJob(c, deps));
  app.get("/jobs/:job_uuid/wait", openJobWait(deps));
  app.post("/jobs/:job_uuid/cancel", (c) => cancelJob(c, deps));
  app.post("/jobs/:job_uuid/resume", (c) => resumeJob(c, deps));
  return app;
}

async function createJob(
  c: Context<HttpEnv>,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<Response> {
  const request = parseJobRequest(await readJson(c.req.raw, deps.limits), deps.limits);
  const workflow = await workflowOf(request, deps);
  const created_at = deps.now();
  const job = {
    uuid: deps.newUuid<JobUuid>(),
    workflow,
    exec_after: request.exec_after ?? created_at,
    target: request.target,
    params: request.params,
    created_at,
  };
  const outcome = workflow.uuid === deps.machines.provisionWorkflow
    ? await machineJobs.create(job)
    : await deps.store.jobs.create(job);
  if (outcome.kind === "duplicate") {
    const message = `Cannot create a job: job ${outcome.job_uuid} with the same target and ` +
      "params is not finished";
    throw new AgentError("conflict", message, {
      errors: [{ field: "target", code: "Invalid", message }],
    });
  }
  deps.wake();
  c.header("location", `/jobs/${outcome.job.uuid}`);
  return c.json(jobOnWire(outcome.job, deps.wording), 201);
}

/** @throws {AgentError} `not_found`, its message telling what was not found */
async function workflowOf(
  { workflow_uuid }: JobRequest,
  { store, wording }: AppDeps,
): Promise<Workflow> {
  const stored = await store.workflows.get(workflow_uuid);
  if (stored === undefined) {
    throw new AgentError("not_found", `Cannot create a job: no workflow has uuid ${workflow_uuid}`);
  }
  if (stored.workflow.chain.length === 0 && !CONVENTIONS[wording].emptyChain) {
    const message = `Cannot create a job: workflow ${workflow_uuid} has no tasks`;
    throw invalidArgument("workflow", message);
  }
  return stored.workflow;
}

async function getJob(c: Context<HttpEnv>, { store, wording }: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  const job = await store.jobs.get(uuid);
  if (job === undefined) throw notFound(uuid);
  return c.json(jobOnWire(job, wording));
}

async function cancelJob(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  await readJson(c.req.raw, deps.limits); // The body has no meaning, but it must be JSON.
  const job = changedJob(await deps.store.jobs.cancel(uuid, deps.now()), "cancel", uuid, deps);
  deps.cancelRunning(uuid);
  deps.changes.ring(uuid);
  deps.wake(); // Its oncancel chain may be due.
  return c.json(jobOnWire(job, deps.wording));
}

async function resumeJob(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c.req.raw, deps.limits);
  const resume = parseResume(body, CONVENTIONS[deps.wording].resume);
  const outcome = await deps.store.jobs.resume(uuid, resume, deps.now());
  const job = changedJob(outcome, "resume", uuid, deps);
  deps.wake();
  return c.json(jobOnWire(job, deps.wording));
}

/** @throws {AgentError} `not_found`, `conflict` */
function changedJob(
  outcome: ChangeOutcome,
  verb: "cancel" | "resume",
  uuid: JobUuid,
  { wording }: AppDeps,
): Job {
  if (outcome.kind === "changed") return outcome.job;
  if (outcome.kind === "not_found") throw notFound(uuid);
  const execution = executionOnWire(outcome.job.execution, wording);
  const wanted = verb === "cancel" ? "queued, running or waiting" : "waiting";
  const message = `Cannot ${verb} job ${uuid}: execution is "${execution}", expected ${wanted}`;
  throw new AgentError("conflict", message);
}

function jobUuidOf(c: Context<HttpEnv>): JobUuid {
  return parsePathUuid<JobUuid>(c.req.param("job_uuid") ?? "", "job");
}

function notFound(uuid: JobUuid): AgentError {
  return new AgentError("not_found", `Cannot find job ${uuid}`);
}
