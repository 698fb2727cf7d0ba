// /jobs/:job_uuid/info: what tasks and other programs tell about the progress of a job.

import { type Context, Hono } from "hono";
import { AgentError, invalidArgument } from "../domain/error.ts";
import { type JobUuid, parsePathUuid } from "../domain/id.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import type { AppDeps, HttpEnv, HttpLimits } from "./app_deps.ts";
import { readJson } from "./json_body.ts";
import { integerOf, readQuery } from "./query.ts";

/** @see document 2, Job info entry */
export function jobInfoRoutes(deps: AppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/jobs/:job_uuid/info", (c) => listInfo(c, deps));
  app.post("/jobs/:job_uuid/info", (c) => appendInfo(c, deps));
  return app;
}

/** Oldest first; `after` skips as many entries as a caller has read already. */
async function listInfo(c: Context<HttpEnv>, { store }: AppDeps): Promise<Response> {
  const uuid = parsePathUuid<JobUuid>(c.req.param("job_uuid") ?? "", "job");
  const query = readQuery(c.req.url, ["after"]);
  const after = integerOf(query, "after", { min: 0, max: Number.MAX_SAFE_INTEGER });
  const entries = await store.info.list(uuid, after);
  if (entries === undefined) throw notFound(uuid);
  return c.json(entries);
}

async function appendInfo(c: Context<HttpEnv>, { store, limits, now }: AppDeps): Promise<Response> {
  const uuid = parsePathUuid<JobUuid>(c.req.param("job_uuid") ?? "", "job");
  const entry = parseInfoEntry(await readJson(c.req.raw, limits), limits);
  const last = await store.info.list(uuid, limits.infoEntriesMax - 1);
  if (last !== undefined && last.length > 0) {
    const message =
      `Cannot add to the info of job ${uuid}: it has ${limits.infoEntriesMax} entries`;
    throw new AgentError("conflict", message);
  }
  if (!await store.info.append(uuid, entry, now())) throw notFound(uuid);
  return c.body(null, 200);
}

/**
 * The entry of a body: the whole object, since that is what clients of node-workflow send, except
 * that exactly `{"message": {...}}`, the form of document 2, stands for the object inside.
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
  if (new TextEncoder().encode(JSON.stringify(entry)).byteLength > limits.infoEntryBytesMax) {
    const message = `Cannot accept the message: it is over ${limits.infoEntryBytesMax} bytes`;
    throw new AgentError("too_large", message);
  }
  return entry;
}

function notFound(uuid: JobUuid): AgentError {
  return new AgentError("not_found", `Cannot find job ${uuid}`);
}
