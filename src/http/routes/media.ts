// /agent/v1/media: the verified files of this host. Bringing one here, or reading one again, takes
// longer than a request: it is a job of the built-in workflow, and its info tells how far it is. An
// extension of the interface, so it lives under /agent/v1/.

import { type Context, Hono } from "hono";
import { parseDigest } from "../../domain/digest.ts";
import { AgentError, invalidArgument } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { parseMediaRequest } from "../../domain/machine/media.ts";
import type { KnownFile } from "../../mirror/media/known_files.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { jobRefusal } from "./job_change.ts";
import { readJson, wholeBody } from "../request/json_body.ts";

/** Target of the jobs: of two equal requests, the second joins the first one's job. */
const MEDIA_TARGET = "/media";

/** The routes of the media. */
export function mediaRoutes(deps: AppDeps): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  const { files } = deps.media;
  routes.get("/agent/v1/media", async (c) => c.json((await files.list()).map(onWire)));
  routes.post("/agent/v1/media", async (c) => {
    const body = await readJson(c, wholeBody(deps.limits));
    if (!isJsonObject(body)) {
      throw invalidArgument("body", "Cannot read the medium: expected a JSON object");
    }
    // The request is checked as a whole; what is kept of it is what it says.
    const media = parseMediaRequest(body, "", true);
    return await started(c, deps, JSON.parse(JSON.stringify(media)) as JsonObject);
  });
  routes.get("/agent/v1/media/:digest", async (c) => c.json(onWire(await files.get(digestOf(c)))));
  routes.delete("/agent/v1/media/:digest", async (c) => {
    await files.remove(digestOf(c));
    return c.body(null, 204);
  });
  routes.post("/agent/v1/media/:digest/verify", async (c) => {
    const body = await readJson(c, wholeBody(deps.limits));
    if (!isJsonObject(body) || Object.keys(body).length > 0) {
      throw invalidArgument(
        "body",
        "Cannot verify the medium: expected an empty object, or nothing",
      );
    }
    const { sha256 } = await files.get(digestOf(c));
    return await started(c, deps, { known: `sha256:${sha256}` });
  });
  return routes;
}

/** `sha256:<hex>` or the hex alone. @throws {AgentError} `not_found` for anything else */
function digestOf(c: Context<HttpEnv>): string {
  const text = c.req.param("digest") ?? "";
  try {
    return parseDigest(text.includes(":") ? text : `sha256:${text}`, "digest").value;
  } catch (cause) {
    const shown = JSON.stringify(text.slice(0, 200));
    throw new AgentError("not_found", `Cannot find medium ${shown}: expected its sha256`, {
      cause,
    });
  }
}

/** Makes a job of it, or joins the one of an equal request. */
async function started(
  c: Context<HttpEnv>,
  { store, media: { workflow }, wake, now, newUuid, limits }: AppDeps,
  wish: JsonObject,
): Promise<Response> {
  const stored = await store.workflows.get(workflow);
  if (stored === undefined) {
    throw new AgentError("not_found", "Cannot fetch a medium: its built-in workflow is missing");
  }
  const at = now();
  const outcome = await store.jobs.create({
    uuid: newUuid<JobUuid>(),
    workflow: stored.workflow,
    exec_after: at,
    target: MEDIA_TARGET,
    params: { media: wish },
    created_at: at,
  }, limits.unfinishedJobsMax);
  if (outcome.kind !== "created" && outcome.kind !== "repeated" && outcome.kind !== "duplicate") {
    throw jobRefusal(outcome);
  }
  const job_uuid = outcome.kind === "duplicate" ? outcome.job_uuid : outcome.job.uuid;
  wake();
  c.header("location", `/jobs/${job_uuid}`);
  return c.json({ job_uuid }, 202);
}

function onWire({ sha256, ...file }: KnownFile): JsonObject {
  return { digest: `sha256:${sha256}`, ...file, used_by: [...file.used_by] };
}
