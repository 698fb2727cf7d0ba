// /jobs: creating jobs, looking at them, and changing them. Handlers write rows and give the runner a
// hint; what the row says is what counts.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import type { NewJob } from "../../domain/job/job.ts";
import { type JobRequest, parseJobRequest, parseResume } from "../../domain/job/request.ts";
import { jobOnWire } from "../../domain/job/wire.ts";
import type { JsonValue } from "../../domain/json.ts";
import { parseLockPattern } from "../../domain/job/lock_pattern.ts";
import type { Workflow } from "../../domain/job/workflow.ts";
import type { CreateJobOutcome } from "../../store/job_store.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { CONVENTIONS } from "../request/compat.ts";
import { earlierJob, IDEMPOTENCY_REPLAYED, idempotencyOf } from "../request/idempotency.ts";
import { cancelJob, jobText, jobUuidOf, resumeJob, showingOf } from "./job_change.ts";
import { listJobs } from "./job_list.ts";
import { jobRefusal } from "./job_refusal.ts";
import { openJobWait } from "./job_wait.ts";
import { isLarge, readJson, smallBody, wholeBody } from "../request/json_body.ts";
import type { MachineJobs } from "../../machines/machine_jobs.ts";
import { nameAnswer } from "../request/request_id.ts";
import type { RequestMemory } from "../request/request_memory.ts";
import { answerJob, shownTo } from "../request/shown_text.ts";
import { answerText } from "../request/text_answer.ts";

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
  const body = await readJson(c, wholeBody(deps.limits));
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
  const workflow = () => workflowOf(request.workflow_uuid, deps, c.get("memory"));
  const outcome = await makeJob(wish, request, workflow, deps, machineJobs);
  if (outcome.kind !== "created" && outcome.kind !== "repeated") throw jobRefusal(outcome);
  if (outcome.kind === "repeated") c.header(IDEMPOTENCY_REPLAYED, "true");
  else deps.wake();
  const { uuid } = outcome.job;
  c.header("location", `/jobs/${uuid}`);
  nameAnswer(c, uuid, deps.wording);
  // What is large is read again as it is sent.
  const small = !isLarge(c) && !c.get("memory").holds("jobs");
  return outcome.kind === "created" && small
    ? c.json(jobOnWire(outcome.job, deps.wording, deps.now()), 201)
    : await answerText(c, await jobText(uuid, showingOf(c, deps), deps), {
      ...deps,
      shown: shownTo(c, "job"),
      status: 201,
    });
}

async function makeJob(
  wish: Omit<NewJob, "workflow">,
  { workflow_uuid }: JobRequest,
  workflow: () => Promise<Workflow>,
  deps: AppDeps,
  machineJobs: MachineJobs,
): Promise<CreateJobOutcome> {
  const { store, limits } = deps;
  // A repeated request is answered as before, whether or not the workflow is still there.
  const earlier = await earlierJob(wish.idempotency, store.jobs);
  if (earlier !== undefined) return earlier;
  const job = { ...wish, workflow: await workflow() };
  return machineJobs.owns(workflow_uuid)
    ? await machineJobs.create(job)
    : await store.jobs.create(job, limits.unfinishedJobsMax);
}

/** Bytes of a workflow from which on it waits for its memory. */
const LARGE_WORKFLOW_BYTES = 128 * 1024;
/** What a byte of a workflow weighs: its text, its value, and its text again as the job is written. */
const WORKFLOW_BYTE_WEIGHT = 4;

/**
 * The workflow of a new job. Each request reads it for itself: one that is large once there is memory
 * for it, until the answer.
 * @throws {AgentError} `not_found`, its message telling what was not found; `overloaded`
 */
async function workflowOf(
  uuid: JobRequest["workflow_uuid"],
  { store, wording }: AppDeps,
  memory: RequestMemory,
): Promise<Workflow> {
  const bytes = await store.workflows.bytes(uuid) ?? 0;
  if (bytes >= LARGE_WORKFLOW_BYTES) {
    await memory.reserve("jobs", WORKFLOW_BYTE_WEIGHT * bytes, "create a job");
  }
  const stored = await store.workflows.get(uuid);
  if (stored === undefined) {
    throw new AgentError("not_found", `Cannot create a job: no workflow has uuid ${uuid}`);
  }
  if (stored.workflow.chain.length === 0 && !CONVENTIONS[wording].emptyChain) {
    throw invalidArgument("workflow", `Cannot create a job: workflow ${uuid} has no tasks`);
  }
  return stored.workflow;
}

async function getJob(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  const text = await jobText(uuid, showingOf(c, deps), deps);
  nameAnswer(c, uuid, deps.wording);
  return await answerJob(c, text, deps);
}

async function postCancel(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  await readJson(c, smallBody(deps.limits)); // The body has no meaning, but it must be JSON.
  return await answerJob(c, await cancelJob(uuid, deps, showingOf(c, deps)), deps);
}

async function postResume(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c, wholeBody(deps.limits));
  const resume = parseResume(body, CONVENTIONS[deps.wording].resume);
  return await answerJob(c, await resumeJob(uuid, resume, deps, showingOf(c, deps)), deps);
}
