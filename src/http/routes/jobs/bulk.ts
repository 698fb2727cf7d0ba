// POST /agent/v1/jobs/cancel and /agent/v1/jobs/retry: one change to many jobs. Each job is changed by itself,
// so a refusal does not affect the others.

import { type Context, Hono } from "hono";
import { AgentError } from "../../../domain/error.ts";
import { type JobUuid, parseUuid, type WorkflowUuid } from "../../../domain/id.ts";
import { isJsonObject, isWholeText, type JsonObject } from "../../../domain/json.ts";
import { mapLimited, pause } from "../../../program/loop.ts";
import type { JobFilter, JobKey } from "../../../store/job_store.ts";
import type { HttpContext, HttpEnv } from "../../context.ts";
import { errorWords } from "../../request/error_response.ts";
import { cancelUnseen, type JobChangeContext } from "./change.ts";
import { type RetryContext, retryJob } from "./retry.ts";
import { readJson, smallBody } from "../../request/json_body.ts";
import type { MachineJobs } from "../../../machines/machine_jobs.ts";
import {
  type Check,
  type Findings,
  integer,
  oneOf,
  openFindings,
  readObject,
  refuseFindings,
  type Shape,
} from "../../../domain/field_check.ts";
import type { Execution } from "../../../domain/job/state.ts";
import { parseExecutionFilter } from "../../../domain/job/wire.ts";
import { isParamKey, PARAM_KEYS_MAX, parseSpanEnd } from "./filter.ts";
import { instantAfter } from "../../../domain/instant.ts";

/** What these routes use. */
type BulkContext =
  & Pick<HttpContext, "closing">
  & JobChangeContext
  & RetryContext;

/** Jobs that are changed at once: their writes share commits. */
const CHANGES_AT_A_TIME = 50;

/** A change to many jobs. */
interface ManyJobsChange {
  /** The jobs concerned, in the words of `filter.execution`. */
  readonly executions: readonly string[];
  /** The member of the answer that lists the changed jobs. */
  readonly done: "canceled" | "retried";
  /** A further condition for a job. */
  readonly fits: (key: JobKey) => boolean;
  /** @returns further members of the job's answer */
  readonly change: (uuid: JobUuid) => Promise<JsonObject>;
}

/** The routes of changes to many jobs. */
export function jobBulkRoutes(context: BulkContext, machineJobs: MachineJobs): Hono<HttpEnv> {
  const cancel: ManyJobsChange = {
    executions: ["queued", "waiting", "running"],
    done: "canceled",
    fits: () => true,
    change: async (uuid) => {
      await cancelUnseen(uuid, context);
      return {};
    },
  };
  const retry: ManyJobsChange = {
    executions: ["failed", "failure", "canceled"],
    done: "retried",
    fits: ({ retried }) => !retried,
    change: async (uuid) => {
      const next_attempt = await retryJob(uuid, undefined, context, machineJobs);
      return { next_attempt };
    },
  };
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/cancel", (c) => changeMany(c, cancel, context));
  app.post("/agent/v1/jobs/retry", (c) => changeMany(c, retry, context));
  return app;
}

/** `matched` counts the jobs of this call; `more` says whether others exceed its limit. */
async function changeMany(
  c: Context<HttpEnv>,
  bulk: ManyJobsChange,
  context: BulkContext,
): Promise<Response> {
  const body = await readJson(c, smallBody(context.limits));
  const selection = parseSelection(body, bulk.executions);
  const { uuids, more } = await selectJobs(selection, bulk.fits, context);
  const done = new Map<JobUuid, JsonObject>();
  const refused = new Map<JobUuid, JsonObject>();
  await mapLimited(uuids, CHANGES_AT_A_TIME, async (uuid) => {
    try {
      done.set(uuid, { uuid, ...await bulk.change(uuid) });
    } catch (error) {
      // Any other error is a defect, and ends the call.
      if (!(error instanceof AgentError)) throw error;
      refused.set(uuid, { uuid, ...errorWords(error) });
    }
  });
  const inOrder = (found: ReadonlyMap<JobUuid, JsonObject>) =>
    uuids.flatMap((uuid) => found.get(uuid) ?? []);
  return c.json({
    matched: uuids.length,
    [bulk.done]: inOrder(done),
    refused: inOrder(refused),
    more,
  });
}

// The bodies of these calls, and the jobs that they select.

/** Jobs that one call may change. */
export const JOBS_OF_A_CALL_MAX = 1000;
/** Jobs that are read from the store at a time. */
const JOBS_AT_A_TIME = 100;

/** A parsed selection. */
interface Selection {
  readonly filter: Omit<JobFilter, "execution">;
  readonly executions: readonly Execution[];
  readonly limit: number;
}

/** The selected jobs, and whether others exceed the limit. */
interface Selected {
  readonly uuids: readonly JobUuid[];
  readonly more: boolean;
}

/**
 * Reads the body of a call on many jobs.
 * @param words of `filter.execution`; without it, all of them are selected
 * @throws {AgentError} `invalid_argument` naming every incorrect field
 */
export function parseSelection(body: unknown, words: readonly string[]): Selection {
  const findings = openFindings();
  const filterShape: Shape = { checks: filterChecks(words), required: [] };
  const filterCheck: Check = (value, field) => {
    // A selection of everything is more often a mistake than intended.
    refuseEmpty(value, field, findings);
    return readObject(value, field, filterShape, findings);
  };
  const checks = { filter: filterCheck, limit: integer(1, JOBS_OF_A_CALL_MAX) };
  const read = readObject(body, "", { checks, required: ["filter"] }, findings);
  refuseFindings(findings, "selection of jobs");
  const { execution, ...filter } = isJsonObject(read?.filter) ? read.filter : {};
  const asked = typeof execution === "string" ? [execution] : words;
  return {
    // The checks have let through values of these types only.
    filter: filter as Selection["filter"],
    executions: [...new Set(asked.map(parseExecutionFilter))],
    limit: typeof read?.limit === "number" ? read.limit : JOBS_OF_A_CALL_MAX,
  };
}

function refuseEmpty(value: unknown, field: string, findings: Findings): void {
  if (!isJsonObject(value) || Object.keys(value).length > 0) return;
  findings.add(field, "Missing", "must name at least one key");
}

function filterChecks(words: readonly string[]): Record<string, Check> {
  return {
    execution: oneOf(words),
    workflow_uuid: readBy((value, field) => parseUuid<WorkflowUuid>(value, field)),
    name: TEXT,
    target: TEXT,
    since: readBy(parseSpanEnd),
    until: readBy(parseSpanEnd),
    params: PARAMS,
  };
}

const TEXT: Check = (value, field, findings) => {
  if (typeof value === "string" && isWholeText(value)) return value;
  findings.add(field, "Invalid", "must be a text");
  return undefined;
};

/** A check by a function that throws; its own words name the field already. */
function readBy(parse: (value: unknown, field: string) => string): Check {
  return (value, field, findings) => {
    try {
      return parse(value, field);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      findings.add(field, "Invalid", error.message.replace(/^.*?: /, "is not read: "));
      return undefined;
    }
  };
}

/** Values as texts: one of them fits itself, and any other value by its JSON. */
const PARAMS: Check = (value, field, findings) => {
  if (!isJsonObject(value)) {
    findings.add(field, "Invalid", "must be an object of params by their names");
    return undefined;
  }
  refuseEmpty(value, field, findings);
  const entries = Object.entries(value);
  if (entries.length > PARAM_KEYS_MAX) {
    findings.add(field, "TooLarge", `must name at most ${PARAM_KEYS_MAX} params`);
  }
  const texts = entries.map(([name, wanted]): [string, string] => {
    const place = `${field}.${name.slice(0, 64)}`;
    if (!isParamKey(name)) findings.add(place, "Invalid", "is no name that jobs are filtered by");
    if (typeof wanted === "object" && wanted !== null) {
      findings.add(place, "Invalid", "must be a text, a number, a boolean or null");
    } else if (typeof wanted === "string" && !isWholeText(wanted)) {
      findings.add(place, "Invalid", "holds a NUL or half a character");
    }
    return [name, typeof wanted === "string" ? wanted : JSON.stringify(wanted)];
  });
  return Object.fromEntries(texts);
};

/**
 * Finds the selected jobs, newest first within each execution. A job that changes its execution meanwhile may
 * be missed, as are new ones.
 * @param fits a further condition for a job
 */
async function selectJobs(
  { filter, executions, limit }: Selection,
  fits: (key: JobKey) => boolean,
  { store, closing }: Pick<HttpContext, "store" | "closing">,
): Promise<Selected> {
  const found = new Set<JobUuid>();
  for (const execution of executions) {
    let before: { before?: number } = {};
    let page;
    do {
      page = await store.jobs.keys({ ...filter, execution }, { limit: JOBS_AT_A_TIME, ...before });
      for (const key of page) {
        before = { before: key.place };
        if (!fits(key)) continue;
        if (found.size === limit) return { uuids: [...found], more: true };
        found.add(key.uuid);
      }
      // Lets other requests run.
      await pause(0, closing);
    } while (page.length === JOBS_AT_A_TIME);
  }
  return { uuids: [...found], more: false };
}

// POST /agent/v1/jobs/prune: removes finished jobs by age at once, which the agent otherwise does by
// `keep_finished`.

/** Jobs that one call removes. */
export const PRUNED_OF_A_CALL_MAX = 1000;
/** As much as the calendar of the agent holds. Seconds. */
const AGE_SECONDS_MAX = 100 * 365 * 86_400;
/** Jobs removed in one write, so that no other write waits for long. */
const BATCH = 100;
const INFO_BATCH = 10_000;

const SHAPE: Shape = {
  checks: { older_than_seconds: integer(0, AGE_SECONDS_MAX) },
  required: ["older_than_seconds"],
};

/** What removing uses. */
type PruneContext = Pick<HttpContext, "store" | "limits" | "now" | "log">;

/** The route. */
export function jobPruneRoutes(
  context: PruneContext,
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/prune", (c) => pruneJobs(c, context));
  return app;
}

async function pruneJobs(
  c: Context<HttpEnv>,
  { store, limits, now, log }: PruneContext,
): Promise<Response> {
  const findings = openFindings();
  const read = readObject(await readJson(c, smallBody(limits)), "", SHAPE, findings);
  refuseFindings(findings, "request to remove jobs");
  const at = now();
  // The store takes jobs before an instant; those of exactly that age go too.
  const finished_before = instantAfter(at, 1 - Number(read?.older_than_seconds) * 1000);
  const retention = { finished_before, finished_max: Number.MAX_SAFE_INTEGER, limit: BATCH };
  let removed = 0;
  let batch = BATCH;
  while (batch === BATCH && removed < PRUNED_OF_A_CALL_MAX) {
    batch = await store.jobs.prune(retention, at);
    removed += batch;
    await store.jobs.pruneInfo(INFO_BATCH);
  }
  log.info("finished jobs removed", { jobs: removed, request_id: c.get("request_id") });
  return c.json({ removed, more: batch === BATCH });
}
