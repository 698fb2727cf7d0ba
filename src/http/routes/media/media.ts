// /agent/v1/media: the files that machines may boot from, by their digests. Fetching and verifying are jobs of a
// built-in workflow; their info reports the progress.

import {
  COUNT,
  INSTANT,
  listOf,
  type ShapeOf,
  TEXT,
  UUID,
  whole,
  wordOf,
} from "../../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { CHECK_LEVELS, parseDigest } from "../../../domain/digest.ts";
import { object } from "../../../domain/description/object.ts";
import { parse } from "../../../domain/description/description.ts";
import { AgentError } from "../../../domain/error.ts";
import type { JsonObject } from "../../../domain/json.ts";
import { startMediaJob } from "../../../machines/media_jobs.ts";
import { parseMediaRequest } from "../../../domain/machine/media.ts";
import type { KnownFile } from "../../../mirror/media/known_files.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { orderedBy } from "../../caller.ts";
import { readJson, wholeBody } from "../../request/body.ts";

type MediaContext = Pick<
  ServedAgent,
  "store" | "limits" | "now" | "newUuid" | "mediaFiles" | "library"
>;

/** The body of a request to verify a medium, which has no options. */
export const verifyRequest = object({});

/** Reading, fetching, checking and removing media by their digests. */
export function mediaRoutes(context: MediaContext): Hono<HttpEnv> {
  const routes = new Hono<HttpEnv>();
  const files = context.mediaFiles;
  routes.get("/agent/v1/media", async (c) => c.json((await files.list()).map(knownOnWire)));
  routes.post("/agent/v1/media", async (c) => {
    const body = await readJson(c, wholeBody(context.limits));
    const media = parseMediaRequest(body, "", "kept");
    // The round trip drops undefined members.
    return await started(c, context, JSON.parse(JSON.stringify(media)) as JsonObject);
  });
  routes.get(
    "/agent/v1/media/:digest",
    async (c) => c.json(knownOnWire(await files.get(digestOf(c)))),
  );
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
    throw new AgentError(
      "not_found",
      `Cannot find medium ${shown}, expected the 64 hex digits of its sha256`,
      {
        cause,
        about: { kind: "medium" },
      },
    );
  }
}

/** The 202 of `POST /agent/v1/media`; `Location` names the job too. */
export const MEDIUM_STARTED = whole("The job that does it.", { job_uuid: UUID });

/** Starts the job and answers with it. */
async function started(
  c: Context<HttpEnv>,
  context: MediaContext,
  media: JsonObject,
): Promise<Response> {
  const { unfinishedJobsMax } = context.limits;
  const by = orderedBy(c.get("caller"), context);
  const job_uuid = await startMediaJob(media, { ...context, unfinishedJobsMax, by });
  c.header("location", `/jobs/${job_uuid}`);
  const answer: ShapeOf<typeof MEDIUM_STARTED> = { job_uuid };
  return c.json(answer, 202);
}

/** An entry of `GET /agent/v1/media`; `size` in bytes, as it is used. */
export const MEDIUM = whole("A verified file.", {
  digest: { ...TEXT, description: "`sha256:` and the hex digits, of the file as it is used." },
  name: TEXT,
  path: { ...TEXT, description: "Its path on this host." },
  size: COUNT,
  source: wordOf(["artifact", "url", "path"]),
  origin: { ...TEXT, description: "The address without its query, or the path." },
  label: { ...TEXT, description: "For people." },
  level: {
    ...wordOf(CHECK_LEVELS),
    description:
      "How far the file was verified: `none`; it has the digests of the `index`, or the one " +
      "in the request; the `vendor`'s checksum document agrees; that document or the file " +
      "has a `signature` by a key of the operator.",
  },
  created_at: INSTANT,
  last_used_at: INSTANT,
  verified_at: { ...INSTANT, description: "When its bytes were last hashed." },
  used_by: {
    ...listOf(UUID),
    description: "Unfinished jobs that use it; until they end, it is not removed.",
  },
});

function knownOnWire({ sha256, cached: _, ...file }: KnownFile): ShapeOf<typeof MEDIUM> {
  return { digest: `sha256:${sha256}`, ...file };
}
