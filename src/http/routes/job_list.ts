// GET /jobs: the filter and the page that a query asks for.

import type { Context } from "hono";
import { AgentError } from "../../domain/error.ts";
import { parseUuid, type WorkflowUuid } from "../../domain/id.ts";
import type { Instant } from "../../domain/instant.ts";
import { parseExecutionFilter } from "../../domain/job/wire.ts";
import type { JobFilter } from "../../store/job_store.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { seesSecrets } from "../request/caller.ts";
import type { Showing } from "../../store/stored_text.ts";
import { shownTo } from "../request/shown_text.ts";
import { showingOf } from "./job_change.ts";
import { isParamKey, limitParams, parseSpanEnd } from "./job_filter.ts";
import { listResponse, type NextPage } from "../request/json_list.ts";
import { type Page, pageOf, readOpenQuery } from "../request/query.ts";

const KEYS = [
  "execution",
  "limit",
  "offset",
  "since",
  "until",
  "target",
  "name",
  "workflow_uuid",
] as const;

/**
 * Newest first; `X-Count` tells how many jobs there are on all pages. Every other key of the query
 * names one of the params.
 */
export async function listJobs(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const { query, others } = readOpenQuery(c.req.url, KEYS, isParamKey);
  if (others.size > 0 && !seesSecrets(c.get("caller"))) throw hiddenParams(others);
  const filter = filterOf(query, limitParams(others));
  const page = pageOf(query);
  c.header("x-count", String(await deps.store.jobs.count(filter)));
  const showing = () => showingOf(c, deps);
  const options = { ...deps, shown: shownTo(c, "job") };
  return await listResponse(c, jobPages(filter, page, showing, deps), options);
}

/** Jobs that are made meanwhile come before the first page, and are not in the list. */
function jobPages(
  filter: JobFilter,
  page: Page,
  showing: () => Showing,
  deps: AppDeps,
): NextPage {
  let left = page.limit ?? Number.MAX_SAFE_INTEGER;
  let place: { offset?: number; before?: number } = { offset: page.offset ?? 0 };
  return async (size) => {
    const limit = Math.min(size, left);
    const listed = await deps.store.jobs.texts(filter, { limit, ...place }, showing());
    left -= listed.entries;
    if (listed.place !== undefined) place = { before: listed.place };
    return { ...listed, last: listed.last || left === 0 };
  };
}

/** Who is not shown params may not find out by trial what they are. */
function hiddenParams(params: ReadonlyMap<string, string>): AgentError {
  const [name] = params.keys();
  const message = `Cannot filter by the param ${name}: the scope "read" is shown no params, ` +
    'expected "admin"';
  return new AgentError("forbidden", message);
}

/** @throws {AgentError} `invalid_argument` naming the key */
function filterOf(
  query: ReadonlyMap<string, string>,
  params: ReadonlyMap<string, string>,
): JobFilter {
  const execution = query.get("execution");
  const target = query.get("target");
  const name = query.get("name");
  const workflow_uuid = query.get("workflow_uuid");
  const since = spanEndOf(query, "since");
  const until = spanEndOf(query, "until");
  return {
    ...(execution === undefined ? {} : { execution: parseExecutionFilter(execution) }),
    ...(target === undefined ? {} : { target }),
    ...(name === undefined ? {} : { name }),
    ...(workflow_uuid === undefined
      ? {}
      : { workflow_uuid: parseUuid<WorkflowUuid>(workflow_uuid, "workflow_uuid") }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    ...(params.size === 0 ? {} : { params: Object.fromEntries(params) }),
  };
}

function spanEndOf(query: ReadonlyMap<string, string>, name: string): Instant | undefined {
  // In a query an unescaped plus sign is a blank, and no date holds a blank.
  const text = query.get(name)?.replace(" ", "+");
  return text === undefined ? undefined : parseSpanEnd(text, name);
}
