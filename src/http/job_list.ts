// GET /jobs: the filter and the page that a query asks for.

import type { Context } from "hono";
import { parseUuid, type WorkflowUuid } from "../domain/id.ts";
import { type Instant, parseInstant } from "../domain/instant.ts";
import { jobOnWire, parseExecutionFilter } from "../domain/job.ts";
import type { JobFilter } from "../store/store.ts";
import type { AppDeps, HttpEnv } from "./app_deps.ts";
import { pageOf, readQuery } from "./query.ts";

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

/** Newest first; `X-Count` tells how many jobs there are on all pages. */
export async function listJobs(c: Context<HttpEnv>, deps: AppDeps): Promise<Response> {
  const query = readQuery(c.req.url, KEYS);
  const filter = filterOf(query);
  const page = pageOf(query);
  const jobs = await deps.store.jobs.list({ ...filter, ...page });
  const paged = page.limit !== undefined || page.offset !== undefined;
  const count = paged ? await deps.store.jobs.count(filter) : jobs.length;
  c.header("x-count", String(count));
  return c.json(jobs.map((job) => jobOnWire(job, deps.wording)));
}

/** @throws {AgentError} `invalid_argument` naming the key */
function filterOf(query: ReadonlyMap<string, string>): JobFilter {
  const execution = query.get("execution");
  const target = query.get("target");
  const name = query.get("name");
  const workflow_uuid = query.get("workflow_uuid");
  const since = instantOf(query, "since");
  const until = instantOf(query, "until");
  return {
    ...(execution === undefined ? {} : { execution: parseExecutionFilter(execution) }),
    ...(target === undefined ? {} : { target }),
    ...(name === undefined ? {} : { name }),
    ...(workflow_uuid === undefined
      ? {}
      : { workflow_uuid: parseUuid<WorkflowUuid>(workflow_uuid, "workflow_uuid") }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
  };
}

function instantOf(query: ReadonlyMap<string, string>, name: string): Instant | undefined {
  // In a query an unescaped plus sign is a blank, and no date holds a blank.
  const text = query.get(name)?.replace(" ", "+");
  return text === undefined ? undefined : parseInstant(text, name);
}
