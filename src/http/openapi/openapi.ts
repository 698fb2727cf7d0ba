// GET /openapi.json: the OpenAPI document of the whole agent. It is built on the first request, so that it
// costs nothing at start-up.

import { Hono } from "hono";
import { sha256Hex } from "../../domain/digest.ts";
import type { HttpContext, HttpEnv } from "../context.ts";
import { answerDocument, serve, type ServedDocument } from "../answer/served_document.ts";

/** The path of the document. `/v1/openapi.json` is another one, which describes the image index alone. */
const PATH = "/openapi.json";

/** The properties of an agent that its document shows. */
type DescribedAgent = Pick<HttpContext, "now" | "limits"> & {
  readonly machines: Pick<HttpContext["machines"], "policy">;
};

/** The routes of the description of this agent. @see OpenAPI Specification 3.1.0 */
export function openapiRoutes(agent: DescribedAgent): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  let shown: { bounds: string; document: Promise<ServedDocument> } | undefined;
  app.get(PATH, async (c) => {
    // The policy changes when the configuration is read again.
    const bounds = JSON.stringify(agent.machines.policy);
    if (shown?.bounds !== bounds) shown = { bounds, document: load(agent) };
    return await answerDocument(c.req.raw.headers, await shown.document);
  });
  return app;
}

/** Its `Last-Modified` is the time of this request, the first under its policy. */
async function load({ now, limits, machines }: DescribedAgent): Promise<ServedDocument> {
  const { openapiDocument } = await import("./document.ts");
  const document = openapiDocument({ limits, policy: machines.policy });
  const body = new TextEncoder().encode(`${JSON.stringify(document, null, 2)}\n`);
  return serve({
    path: PATH,
    body,
    sha256: await sha256Hex(body),
    etag: null,
    last_modified: null,
    fetched_at: now(),
  });
}
