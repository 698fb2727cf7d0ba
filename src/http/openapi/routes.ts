// GET /openapi.json: the OpenAPI document of the whole agent, and GET /docs: the same for people. Both are built
// on the first request, so that they cost nothing at start-up.

import { Hono } from "hono";
import { base64Of } from "../../domain/bytes.ts";
import { sha256Hex } from "../../domain/digest.ts";
import { answerDocument, serve, type ServedDocument } from "../answer/served_document.ts";
import { PAGE_HEADERS } from "../routes/ui.ts";
import type { HttpEnv, ServedAgent } from "../served_agent.ts";

/** The path of the document. `/v1/openapi.json` is another one, which describes the image index alone. */
const PATH = "/openapi.json";
const PAGE_PATH = "/docs";

/** The properties of an agent that its document shows. */
type DescribedAgent = Pick<ServedAgent, "now" | "limits"> & {
  readonly machines: Pick<ServedAgent["machines"], "policy">;
};

/** The routes of the description of this agent. @see OpenAPI Specification 3.1.0 */
export function openapiRoutes(agent: DescribedAgent): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  for (const [path, load] of [[PATH, loadDocument], [PAGE_PATH, loadPage]] as const) {
    let shown: { bounds: string; document: Promise<ServedDocument> } | undefined;
    app.get(path, async (c) => {
      // The policy changes when the configuration is read again.
      const bounds = JSON.stringify(agent.machines.policy);
      if (shown?.bounds !== bounds) shown = { bounds, document: load(agent) };
      return await answerDocument(c.req.raw.headers, await shown.document);
    });
  }
  return app;
}

async function loadDocument(agent: DescribedAgent): Promise<ServedDocument> {
  const { openapiDocument } = await import("./document.ts");
  const text = JSON.stringify(openapiDocument(boundsOf(agent)), null, 2);
  return await served(agent, PATH, `${text}\n`);
}

async function loadPage(agent: DescribedAgent): Promise<ServedDocument> {
  const { openapiPage, PAGE_STYLE } = await import("./page.ts");
  const style = new Uint8Array(await crypto.subtle.digest("SHA-256", utf8(PAGE_STYLE)));
  const policy = `default-src 'none'; img-src data:; style-src 'sha256-${base64Of(style)}'; ` +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  return await served(agent, PAGE_PATH, await openapiPage(boundsOf(agent)), {
    ...PAGE_HEADERS,
    "content-security-policy": policy,
    "content-type": "text/html; charset=utf-8",
  });
}

function boundsOf({ limits, machines: { policy } }: DescribedAgent) {
  return { limits, policy };
}

/** Its `Last-Modified` is the time of this request, the first under its policy. */
async function served(
  { now }: DescribedAgent,
  path: string,
  text: string,
  headers?: Readonly<Record<string, string>>,
): Promise<ServedDocument> {
  const body = utf8(text);
  const sha256 = await sha256Hex(body);
  const document = { path, body, sha256, etag: null, last_modified: null, fetched_at: now() };
  return serve(document, undefined, headers);
}

function utf8(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
