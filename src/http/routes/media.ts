// /agent/v1/media: the verified files of this host. Fetching and verifying are jobs of a built-in workflow; their info reports the progress.

import { type Context, Hono } from "hono";
import { parseDigest } from "../../domain/digest.ts";
import { object } from "../../domain/description/object.ts";
import { parse } from "../../domain/description/value.ts";
import { AgentError } from "../../domain/error.ts";
import type { JsonObject } from "../../domain/json.ts";
import { startMediaJob } from "../../machines/media_jobs.ts";
import { parseMediaRequest } from "../../domain/machine/media.ts";
import type { KnownFile } from "../../mirror/media/known_files.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { readJson, wholeBody } from "../request/json_body.ts";

type MediaContext = Pick<
  HttpContext,
  "store" | "limits" | "now" | "newUuid" | "wake" | "mediaFiles" | "library"
>;

/** The body of a request to verify a medium, which has no options. */
export const verifyRequest = object({});

/** Reading, fetching, checking and removing media by their digests. */
export function mediaRoutes(context: MediaContext): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  const files = context.mediaFiles;
  routes.get("/agent/v1/media", async (c) => c.json((await files.list()).map(onWire)));
  routes.post("/agent/v1/media", async (c) => {
    const body = await readJson(c, wholeBody(context.limits));
    const media = parseMediaRequest(body, "", "kept");
    // The round trip drops undefined members.
    return await started(c, context, JSON.parse(JSON.stringify(media)) as JsonObject);
  });
  routes.get("/agent/v1/media/:digest", async (c) => c.json(onWire(await files.get(digestOf(c)))));
  routes.delete("/agent/v1/media/:digest", async (c) => {
    await context.library.removeKnown(digestOf(c));
    return c.body(null, 204);
  });
  routes.post("/agent/v1/media/:digest/verify", async (c) => {
    const body = await readJson(c, wholeBody(context.limits));
    parse(verifyRequest, body, "", "request to verify a medium");
    const { sha256 } = await files.get(digestOf(c));
    return await started(c, context, { known: `sha256:${sha256}` });
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

/** Starts the job and answers with it. */
async function started(
  c: Context<HttpEnv>,
  context: MediaContext,
  media: JsonObject,
): Promise<Response> {
  const { unfinishedJobsMax } = context.limits;
  const job_uuid = await startMediaJob(media, { ...context, unfinishedJobsMax });
  c.header("location", `/jobs/${job_uuid}`);
  return c.json({ job_uuid }, 202);
}

function onWire({ sha256, cached: _, ...file }: KnownFile): JsonObject {
  return { digest: `sha256:${sha256}`, ...file, used_by: [...file.used_by] };
}
