// /jobs: creates, shows and changes jobs. Handlers write rows and give the runner a hint; the row is what
// counts.

import { type Context, Hono } from "hono";
import { openFindings, refuseFindings } from "../../../domain/description/description.ts";
import { about } from "../../../domain/description/value.ts";
import { nearName } from "../../../domain/near_word.ts";
import type { JobUuid } from "../../../domain/id.ts";
import {
  cancelRequest,
  parseJobRequest,
  resumeOf,
  resumeRequest,
} from "../../../domain/job/request.ts";
import { carriedOut, orderJob } from "../../../store/job_orders.ts";
import { PARAM_LOOKED_AT_MAX } from "../../../store/limits.ts";
import type { JobFilter, JobOrder } from "../../../store/job_store.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { CONVENTIONS } from "../../request/compat.ts";
import { IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED } from "../../../domain/job/idempotency.ts";
import { cancelJob, jobText, jobUuidOf, readChange, resumeJob } from "./change.ts";
import { readJson, smallBody, wholeBody } from "../../request/body.ts";
import { type Page, PAGE_FIELDS, readTexts, textsOf } from "../../request/query.ts";
import type { MachineJobs } from "../../../machines/machine_jobs.ts";
import { answerJob, answerNames, shownTo } from "../../answer/text_answer.ts";
import { askedBy, seesSecrets, showingTo } from "../../caller.ts";
import type { Showing } from "../../../store/stored_text.ts";
import {
  anyExecution,
  isParamKey,
  JOB_FILTER_FIELDS,
  PARAM_KEYS_MAX,
  paramFilter,
  paramsForbidden,
  withHost,
} from "./filter.ts";
import { listResponse, type NextPage } from "../../answer/json_list.ts";
import { openJobWait } from "./wait.ts";
import { EXECUTION_WORDS } from "../../../domain/job/wire.ts";

type JobsContext = Pick<
  ServedAgent,
  | "store"
  | "limits"
  | "now"
  | "newUuid"
  | "wording"
  | "log"
  | "budget"
  | "closing"
  | "changes"
>;

/** Creates, lists, shows and changes jobs, and waits for them. @see document 2, Endpoints */
export function jobRoutes(context: JobsContext, machineJobs: MachineJobs): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/jobs", (c) => listJobs(c, context));
  app.post("/jobs", (c) => postJob(c, context, machineJobs));
  app.get("/jobs/:job_uuid", (c) => getJob(c, context));
  app.get("/jobs/:job_uuid/wait", openJobWait(context));
  app.post("/jobs/:job_uuid/cancel", (c) => postCancel(c, context));
  app.post("/jobs/:job_uuid/resume", (c) => postResume(c, context));
  return app;
}

async function postJob(
  c: Context<HttpEnv>,
  context: JobsContext,
  machineJobs: MachineJobs,
): Promise<Response> {
  const { store, limits, wording } = context;
  const body = await readJson(c, wholeBody(limits));
  const { exec_after, ...request } = parseJobRequest(body, limits);
  const key = c.req.header(IDEMPOTENCY_KEY);
  const asked = await askedBy(c.get("caller"), { key, asked: body }, context);
  const order: JobOrder = {
    uuid: context.newUuid<JobUuid>(),
    ...request,
    exec_after: exec_after ?? undefined,
    ...asked,
  };
  const showing = showingTo(c.get("caller"), context);
  const rules = {
    unfinishedMax: limits.unfinishedJobsMax,
    needsTasks: !CONVENTIONS[wording].emptyChain,
    showing,
  };
  const outcome = machineJobs.owns(order.workflow_uuid)
    ? await machineJobs.create(order, showing)
    : await orderJob(order, rules, store.jobs, c.get("memory"));
  const { kind, job, text } = carriedOut(outcome, order);
  const headers = {
    ...(kind === "repeated" ? { [IDEMPOTENCY_REPLAYED]: "true" } : {}),
    location: `/jobs/${job.uuid}`,
    ...answerNames(job.uuid, wording),
  };
  return await answerJob(c, { text, showing, status: 201, headers }, context);
}

async function getJob(c: Context<HttpEnv>, context: JobsContext): Promise<Response> {
  const uuid = jobUuidOf(c);
  const showing = showingTo(c.get("caller"), context);
  const text = await jobText(uuid, showing, context);
  const headers = answerNames(uuid, context.wording);
  return await answerJob(c, { text, showing, headers }, context);
}

async function postCancel(c: Context<HttpEnv>, context: JobsContext): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c, smallBody(context.limits));
  await readChange("cancel", uuid, body, cancelRequest, context);
  const showing = showingTo(c.get("caller"), context);
  return await answerJob(c, { text: await cancelJob(uuid, context, showing), showing }, context);
}

async function postResume(c: Context<HttpEnv>, context: JobsContext): Promise<Response> {
  const uuid = jobUuidOf(c);
  const body = await readJson(c, wholeBody(context.limits));
  const read = await readChange("resume", uuid, body, resumeRequest, context);
  const resume = resumeOf(read, CONVENTIONS[context.wording].resume);
  const showing = showingTo(c.get("caller"), context);
  const text = await resumeJob(uuid, resume, context, showing);
  return await answerJob(c, { text, showing }, context);
}

/** The query of GET /jobs; every other key names one of the params. */
export const JOB_QUERY_FIELDS = {
  execution: about("Only jobs in this state.", anyExecution),
  ...JOB_FILTER_FIELDS,
  ...PAGE_FIELDS,
};

/**
 * GET /jobs, newest first; `X-Count` is the number of jobs on all pages.
 * @throws {AgentError} `forbidden` for a filter by a param that the caller may not see
 */
async function listJobs(c: Context<HttpEnv>, context: JobsContext): Promise<Response> {
  const texts = textsOf(c.req.url);
  const isParam = (name: string) => !Object.hasOwn(JOB_QUERY_FIELDS, name) && isParamKey(name);
  const params = new Map([...texts].filter(([name]) => isParam(name)));
  const known = new Map([...texts].filter(([name]) => !isParam(name)));
  const [name] = params.keys();
  if (name !== undefined && !seesSecrets(c.get("caller"))) throw paramsForbidden(name);
  const { limit, offset, ...filter } = readTexts(known, JOB_QUERY_FIELDS);
  const wanted = params.size === 0 ? {} : { params: paramsOf(params) };
  const fitting = { ...await withHost(filter, context.store), ...wanted };
  const count = await context.store.jobs.count(fitting);
  if (count === 0) await refuseMisspelt(params, context);
  c.header("x-count", String(count));
  const showing = () => showingTo(c.get("caller"), context);
  const options = { ...context, shown: shownTo(c, "job") };
  return await listResponse(c, jobPages(fitting, { limit, offset }, showing, context), options);
}

/** Letters of a filter's name that are enough to suggest it. */
const BEGINNING_CHARS_MIN = 3;
/** Names that other lists use for the execution of a job. */
const EXECUTION_NAMES = ["state", "states", "status"];

/** A misspelled filter would be a param that no job has, and find nothing. */
async function refuseMisspelt(
  params: ReadonlyMap<string, string>,
  { store }: JobsContext,
): Promise<void> {
  const findings = openFindings();
  for (const [name, text] of params) {
    const near = filterNear(name, text);
    if (near === undefined || await store.jobs.hasParam(name)) continue;
    const words =
      `is not a param of the newest ${PARAM_LOOKED_AT_MAX} jobs: the nearest filter is ` +
      JSON.stringify(near);
    findings.add(name, "UnknownField", words);
  }
  refuseFindings(findings, "query");
}

function filterNear(name: string, text: string): string | undefined {
  const known = Object.keys(JOB_QUERY_FIELDS);
  const begun = name.length >= BEGINNING_CHARS_MIN
    ? known.find((one) => one.startsWith(name.toLowerCase()))
    : undefined;
  const near = begun ?? nearName(name, known);
  if (near !== undefined || !EXECUTION_NAMES.includes(name.toLowerCase())) return near;
  return text === "" || EXECUTION_WORDS.includes(text) ? "execution" : undefined;
}

/** The params of a query, where each is a key of its own; errors name them so. */
function paramsOf(texts: ReadonlyMap<string, string>): Record<string, string> {
  const findings = openFindings();
  const beyond = [...texts.keys()][PARAM_KEYS_MAX];
  if (beyond !== undefined) {
    const words = `is one too many, expected at most ${PARAM_KEYS_MAX} params, found ${texts.size}`;
    findings.add(beyond, "TooLarge", words);
  }
  const read = beyond === undefined
    ? paramFilter.read(Object.fromEntries(texts), "", findings)
    : undefined;
  refuseFindings(findings, "query");
  // The description admits only texts.
  return (read ?? {}) as Record<string, string>;
}

/** Jobs created after the first page belong before it, so later pages leave them out. */
function jobPages(
  filter: JobFilter,
  page: Page,
  showing: () => Showing,
  context: JobsContext,
): NextPage {
  let left = page.limit ?? Number.MAX_SAFE_INTEGER;
  let place: { offset?: number; before?: number } = { offset: page.offset ?? 0 };
  return async (size) => {
    const limit = Math.min(size, left);
    const listed = await context.store.jobs.texts(filter, { limit, ...place }, showing());
    left -= listed.entries;
    if (listed.place !== undefined) place = { before: listed.place };
    return { ...listed, last: listed.last || left === 0 };
  };
}
