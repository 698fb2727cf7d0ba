// GET /agent/v1/jobs, one job, and its log: the views for operators and the console. Answers contain neither
// task sources nor secrets, and no answer grows with the number of jobs.

import {
  COUNT,
  FLAG,
  listOf,
  NULLABLE_COUNT,
  NULLABLE_TEXT,
  type ShapeOf,
  shapeRef,
  TEXT,
  whole,
} from "../../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { spanEnd, uuidBeginning, uuidOf } from "../../../domain/description/formats.ts";
import {
  about,
  atMostChars,
  integer,
  kept,
  text,
  wholeText,
} from "../../../domain/description/value.ts";
import type { MachineUuid } from "../../../domain/id.ts";
import type { ObjectOf } from "../../../domain/description/object.ts";
import { openFindings, refuseFindings } from "../../../domain/description/description.ts";
import { invalidArgument } from "../../../domain/error.ts";
import { jsonProblem } from "../../../domain/json_problem.ts";
import { attemptOnWire, FAILED_ATTEMPT } from "../../../domain/job/job.ts";
import {
  SUMMARY,
  SUMMARY_FIELDS,
  SUMMARY_ORDERS,
  type SummaryFilter,
  summaryOnWire,
  type SummaryPlace,
  type SummaryView,
} from "../../../domain/job/summary.ts";
import { LOG_LINE, logLineOnWire } from "../../../domain/job/log_line.ts";
import { byExecution, type Execution } from "../../../domain/job/state.ts";
import { EXECUTION_WORDS, parseExecutionFilter } from "../../../domain/job/wire.ts";
import { HEAP_BYTES_MAX } from "../../../domain/json.ts";
import { LOG_PAGE_BYTES } from "../../../store/store.ts";
import { jobNotFound } from "../../../store/job_orders.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { seesSecrets } from "../../caller.ts";
import { readQuery } from "../../request/query.ts";
import { jobUuidOf } from "./change.ts";
import { JOB_FILTER_FIELDS, paramFilter, paramsForbidden, withHost } from "./filter.ts";

type JobViewContext = Pick<ServedAgent, "store" | "now" | "machines">;

const JOBS_DEFAULT = 50;
const JOBS_MAX = 200;
/** Memory for one summary: its params as text and as a value. */
const SUMMARY_HEAP_BYTES = 32 * 1024;
/** Lines per page of a log. */
const LINES_DEFAULT = 100;
const LINES_MAX = 1000;
const SEARCH_CHARS_MAX = 200;
/** Characters of a list that names each state once. */
const STATES_CHARS_MAX = EXECUTION_WORDS.join(",").length;
const CURSOR_CHARS_MAX = 200;
/** Characters of the `params` filter, which is JSON. */
const PARAMS_CHARS_MAX = 4096;

/** The routes that list jobs, count them, and show one job or its log. */
export function jobViewRoutes(context: JobViewContext): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/jobs", (c) => listSummaries(c, context));
  app.get("/agent/v1/jobs/counts", (c) => countSummaries(c, context));
  // The pattern excludes `cancel`, `retry` and `prune`, which are calls on many jobs and have no GET.
  app.get("/agent/v1/jobs/:job_uuid{[0-9A-Fa-f-]+}", (c) => getSummary(c, context));
  app.get("/agent/v1/jobs/:job_uuid/log", (c) => getLog(c, context));
  return app;
}

const WORD = `(?:${EXECUTION_WORDS.join("|")})`;

const states = kept(
  atMostChars(
    STATES_CHARS_MAX,
    text(
      new RegExp(`^${WORD}(?:,${WORD})*$`),
      `words separated by commas, each one of ${EXECUTION_WORDS.join(", ")}`,
    ),
  ),
  (words): Execution[] => [...new Set(words.split(",").map(parseExecutionFilter))],
);

/** The filters of a count; the list takes them too. */
export const COUNT_QUERY_FIELDS = {
  uuid: about(
    "Only jobs whose uuid begins with these characters, at least 4.",
    uuidBeginning,
  ),
  search: about(
    "Only jobs with this text in the workflow's name, the target, the error or the params. " +
      "The case of ASCII letters is ignored. For a caller of scope `read`, params are not " +
      "searched.",
    wholeText(SEARCH_CHARS_MAX),
  ),
  ...JOB_FILTER_FIELDS,
  machine: about(
    "Only jobs that created this machine or acted on it: `machine` in their summaries.",
    uuidOf<MachineUuid>(),
  ),
  params: about(
    "A JSON object: only jobs whose params have these values, a string as it is, any other " +
      "value as its JSON. Not for a caller of scope `read`.",
    atMostChars(PARAMS_CHARS_MAX, text(/^\{/, "the JSON of an object of params")),
  ),
  finished_since: about(
    "Only jobs that ended at this instant or later. The list is then sorted by end, unless " +
      "`target` or `machine` is given.",
    spanEnd,
  ),
};

/** The query of the list. */
export const SUMMARY_QUERY_FIELDS = {
  state: about(
    "Only jobs in one of these states, separated by commas: `queued`, `running`, " +
      "`waiting`, `succeeded`, `failed`, `canceled`, or `retried` for jobs that another job " +
      "replaced.",
    states,
  ),
  ...COUNT_QUERY_FIELDS,
  limit: about("Jobs on this page.", integer(1, JOBS_MAX), { default: JOBS_DEFAULT }),
  cursor: about(
    "Continues a list: `next` of the previous page, with the same filters.",
    wholeText(CURSOR_CHARS_MAX),
  ),
};

/** The answer of `GET /agent/v1/jobs`. A page can be short and still have a `next`. */
export const SUMMARY_PAGE = whole("A page of summaries.", {
  jobs: listOf(shapeRef("JobSummary", SUMMARY)),
  next: { ...NULLABLE_TEXT, description: "`cursor` of the next page; null at the end." },
});

/** A page may be short or even empty and still have a `next`. */
async function listSummaries(c: Context<HttpEnv>, context: JobViewContext): Promise<Response> {
  const { limit = JOBS_DEFAULT, cursor, state, ...others } = readQuery(
    c.req.url,
    SUMMARY_QUERY_FIELDS,
  );
  const filter: SummaryFilter = {
    ...await filterOf(c, others, context),
    ...(state === undefined ? {} : { states: state }),
  };
  const after = cursor === undefined ? undefined : placeOf(cursor);
  await c.get("memory").reserve("answers", limit * SUMMARY_HEAP_BYTES, "list jobs");
  const { summaries, next } = await context.store.jobs.summaries(filter, { limit, after });
  const view = viewOf(c, context);
  const answer: ShapeOf<typeof SUMMARY_PAGE> = {
    jobs: summaries.map((job) => summaryOnWire(job, view)),
    next: next === undefined ? null : cursorOf(next),
  };
  return c.json(answer);
}

/** The answer of `GET /agent/v1/jobs/counts`, for the filters of the list. */
export const JOB_COUNTS = whole("Numbers of matching jobs.", {
  counts: whole("By their states.", byExecution(() => COUNT)),
  whole: { ...FLAG, description: "False if there may be more." },
});

/** Matching jobs by state. `whole` is false if there were too many jobs to count all of them. */
async function countSummaries(c: Context<HttpEnv>, context: JobViewContext): Promise<Response> {
  const filter = await filterOf(c, readQuery(c.req.url, COUNT_QUERY_FIELDS), context);
  const { counts, whole: isWhole } = await context.store.jobs.summaryCounts(filter);
  c.header("cache-control", "no-store");
  const answer: ShapeOf<typeof JOB_COUNTS> = {
    counts: byExecution((execution) => counts.get(execution) ?? 0),
    whole: isWhole,
  };
  return c.json(answer);
}

type CountQuery = ObjectOf<typeof COUNT_QUERY_FIELDS, never>;

/** @throws {AgentError} `forbidden` for a filter by a param that the caller may not see */
async function filterOf(
  c: Context<HttpEnv>,
  { params: json, ...others }: CountQuery,
  { store }: Pick<JobViewContext, "store">,
): Promise<SummaryFilter> {
  const params = json === undefined ? undefined : paramsOf(json);
  const [name] = Object.keys(params ?? {});
  const sees = seesSecrets(c.get("caller"));
  if (name !== undefined && !sees) throw paramsForbidden(name);
  const named = await withHost(others, store);
  return { ...named, ...(params === undefined ? {} : { params }), searchesParams: sees };
}

/** @throws {AgentError} `invalid_argument` naming the mistake in the JSON */
function paramsOf(json: string): Readonly<Record<string, string>> {
  const findings = openFindings();
  const read = paramFilter.read(parsedParams(json), "params", findings);
  refuseFindings(findings, "query");
  // paramFilter accepts only strings as values.
  return (read ?? {}) as Record<string, string>;
}

function parsedParams(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    throw invalidArgument("params", `Cannot read params as JSON: ${jsonProblem(json)}`);
  }
}

function viewOf(c: Context<HttpEnv>, { now, machines }: JobViewContext): SummaryView {
  return { now: now(), host: machines.host, showsParams: seesSecrets(c.get("caller")) };
}

/** A position in a list as an opaque text: base64url without padding. */
function cursorOf({ order, at, id }: SummaryPlace): string {
  const text = btoa(`${order} ${id} ${at}`).replaceAll("=", "");
  return text.replaceAll("+", "-").replaceAll("/", "_");
}

const PLACE = /^([a-z]+) (\d{1,16}) ([0-9TZ:.-]{0,24})$/;

function placeOf(cursor: string): SummaryPlace {
  const [, word, id, at = ""] = PLACE.exec(decoded(cursor)) ?? [];
  const order = SUMMARY_ORDERS.find((one) => one === word);
  if (order !== undefined) return { order, at, id: Number(id) };
  const message = `Cannot continue the list: cursor is ${JSON.stringify(cursor)}, expected ` +
    "`next` of the page before";
  throw invalidArgument("cursor", message);
}

function decoded(cursor: string): string {
  try {
    return atob(cursor.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    // placeOf() refuses the empty text.
    return "";
  }
}

/** The answer of `GET /agent/v1/jobs/UUID`: a summary with what only a single job shows. */
export const JOB_READ = whole("A job and its failed attempts.", {
  ...SUMMARY_FIELDS,
  secret_params: {
    ...listOf(TEXT),
    description: "Names of the fields that the workflow declares secret.",
  },
  attempts: listOf(shapeRef("FailedAttempt", FAILED_ATTEMPT)),
});

/** The summary, and the failed attempts that are still kept. */
async function getSummary(c: Context<HttpEnv>, context: JobViewContext): Promise<Response> {
  const uuid = jobUuidOf(c);
  const job = await context.store.jobs.summary(uuid);
  if (job === undefined) throw jobNotFound(uuid);
  const attempts = await context.store.log.attempts(uuid);
  const secrets = new Set(job.secrets);
  const answer: ShapeOf<typeof JOB_READ> = {
    ...summaryOnWire(job, viewOf(c, context)),
    secret_params: job.secrets,
    attempts: attempts.map((attempt) => attemptOnWire(attempt.phase, attempt, secrets)),
  };
  return c.json(answer);
}

const sequence = integer(0, Number.MAX_SAFE_INTEGER);

/** The query of GET /jobs/:job_uuid/log: a page of lines by their `sequence`. */
export const LOG_QUERY_FIELDS = {
  last: about(
    "Lines on this page: the newest ones, unless `after` is given.",
    integer(1, LINES_MAX),
    { default: LINES_DEFAULT },
  ),
  before: about("The newest lines before this `sequence`.", sequence),
  after: about("The oldest lines after this `sequence`.", sequence),
};

/** The answer of `GET /agent/v1/jobs/UUID/log`; `before` and `after` page through it. */
export const LOG_PAGE = whole("A page of a log.", {
  lines: listOf(shapeRef("LogLine", LOG_LINE)),
  before: {
    ...NULLABLE_COUNT,
    description: "`before` for earlier lines; null if there are none.",
  },
  after: { ...COUNT, description: "`after` for later lines." },
  more: { ...FLAG, description: "Whether there are more lines in the direction of the page." },
});

async function getLog(c: Context<HttpEnv>, { store }: JobViewContext): Promise<Response> {
  const uuid = jobUuidOf(c);
  const { last: limit = LINES_DEFAULT, before, after } = readQuery(c.req.url, LOG_QUERY_FIELDS);
  await c.get("memory").reserve("answers", HEAP_BYTES_MAX * LOG_PAGE_BYTES, "show the log");
  const part = await store.log.lines(uuid, {
    limit,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  });
  if (part === undefined) throw jobNotFound(uuid);
  const secrets = new Set(part.secrets);
  const lines = part.lines.map((line) => logLineOnWire(line, secrets));
  const first = part.lines[0]?.seq;
  const end = part.lines.at(-1)?.seq ?? after ?? 0;
  const answer: ShapeOf<typeof LOG_PAGE> = {
    lines,
    before: after === undefined && part.more ? first ?? null : null,
    after: end,
    more: part.more,
  };
  return c.json(answer);
}
