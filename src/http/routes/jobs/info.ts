// /jobs/:job_uuid/info: what tasks and other programs report about the progress of a job.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument } from "../../../domain/error.ts";
import { AGENT_PREFIX, forgedName } from "../../../domain/job/job.ts";
import { isJsonObject, type JsonObject } from "../../../domain/json.ts";
import type { HttpContext, HttpEnv, HttpLimits } from "../../context.ts";
import { jobUuidOf } from "./change.ts";
import { jobNotFound } from "../../../store/job_refusal.ts";
import { infoBody, readJson } from "../../request/json_body.ts";
import { listResponse, type NextPage } from "../../request/json_list.ts";
import { shownTo } from "../../request/text_answer.ts";
import { integerOf, PAGE_MAX, readQuery } from "../../request/query.ts";

/** What these routes use. */
type JobInfoContext = Pick<HttpContext, "store" | "limits" | "now" | "log" | "budget">;

/** @see document 2, Job info entry */
export function jobInfoRoutes(context: JobInfoContext): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/jobs/:job_uuid/info", (c) => listInfo(c, context));
  app.post("/jobs/:job_uuid/info", (c) => appendInfo(c, context));
  return app;
}

/** Oldest first; `after` skips as many entries. */
async function listInfo(c: Context<HttpEnv>, context: JobInfoContext): Promise<Response> {
  const { store } = context;
  const uuid = jobUuidOf(c);
  const query = readQuery(c.req.url, ["after", "limit"]);
  let after = integerOf(query, "after", { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
  let left = integerOf(query, "limit", { min: 1, max: PAGE_MAX }) ?? Number.MAX_SAFE_INTEGER;
  const next: NextPage = async (size) => {
    const limit = Math.min(size, left);
    const listed = await store.info.texts(uuid, after, limit);
    if (listed === undefined) throw jobNotFound(uuid);
    after += listed.entries;
    left -= listed.entries;
    return { ...listed, last: listed.last || left === 0 };
  };
  return await listResponse(c, next, { ...context, shown: shownTo(c, "other") });
}

async function appendInfo(
  c: Context<HttpEnv>,
  { store, limits, now }: JobInfoContext,
): Promise<Response> {
  const uuid = jobUuidOf(c);
  const entry = parseInfoEntry(await readJson(c, infoBody(limits)), limits);
  const outcome = await store.info.append(uuid, entry, now(), limits.infoEntriesMax);
  if (outcome === "not_found") throw jobNotFound(uuid);
  if (outcome === "full") {
    const message =
      `Cannot add to the info of job ${uuid}: it has ${limits.infoEntriesMax} entries`;
    throw new AgentError("conflict", message);
  }
  return c.body(null, 200);
}

/**
 * The entry in a body: the whole object, as clients of node-workflow send it. Exactly `{"message": {...}}`, the
 * form of document 2, means the object inside.
 * @throws {AgentError} `invalid_argument`, `too_large`
 */
function parseInfoEntry(
  body: unknown,
  limits: Pick<HttpLimits, "infoEntryBytesMax">,
): JsonObject {
  if (!isJsonObject(body)) {
    throw invalidArgument("message", "Cannot read the message: expected a JSON object");
  }
  const wrapped = Object.keys(body).length === 1 && isJsonObject(body.message);
  const entry = wrapped ? body.message : body;
  if (!isJsonObject(entry) || Object.keys(entry).length === 0) {
    const message = "Cannot read the message: expected an object with at least one key";
    throw invalidArgument("message", message, "Missing");
  }
  const forged = forgedName(entry);
  if (forged !== undefined) {
    const message = `Cannot accept the message: only the agent writes ${AGENT_PREFIX} names`;
    throw invalidArgument(forged, message);
  }
  if (new TextEncoder().encode(JSON.stringify(entry)).byteLength > limits.infoEntryBytesMax) {
    const message = `Cannot accept the message: it is over ${limits.infoEntryBytesMax} bytes`;
    throw new AgentError("too_large", message);
  }
  return entry;
}
