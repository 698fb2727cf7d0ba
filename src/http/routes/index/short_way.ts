// The short way of the commonest request of all: GET of a document of the index that is in memory,
// by a program on this host. Judging and routing such a request costs more than answering it. Only
// what is plain beyond doubt goes this way, and is answered as it would be on the long one; all else,
// refusals included, is left to the application.

import type { Log } from "../../../metrics/log.ts";
import type { HttpEnv, HttpLimits } from "../../context.ts";
import {
  answerDocument,
  type DocumentWish,
  heldAnswer,
} from "../../request/conditional_request.ts";
import {
  type DocumentCache,
  openDocumentCache,
  toldAgeSeconds,
} from "../../request/document_cache.ts";
import { cleanRequestId } from "../../request/request_id.ts";
import type { App } from "../../listen/server.ts";
import { type Context, Hono } from "hono";
import { AgentError } from "../../../domain/error.ts";
import { quote } from "../../../domain/index/index_document.ts";
import {
  aliasPath,
  archivePath,
  DISTRO_LIST_PATH,
  distroPath,
  IMAGES_PATH,
  isIndexName,
  OPENAPI_PATH,
  releasePath,
  SERVED_ALIASES,
} from "../../../domain/index/index_path.ts";
import type { Now } from "../../../domain/instant.ts";
import type { IndexStore } from "../../../store/store.ts";
import { builtinOpenapi } from "./openapi.ts";
import type { ServedDocument } from "../../request/served_document.ts";

/** The names of this host that need no look at the configuration; see local_only.ts. */
const PLAIN_HOST = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/;
const TREE = "/v1/";

/** What the short way works with. */
interface ShortWayDependencies {
  /** That of the routes of the tree: what they put in is found here. */
  readonly cache: DocumentCache;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly newId: () => string;
  /** What is beyond them is left to the application to refuse. */
  readonly limits: Pick<HttpLimits, "headerFieldsMax" | "headerCharsMax">;
  readonly log: Log;
}

/** The application with the short way before it. */
export function withShortWay(app: App, deps: ShortWayDependencies): App {
  return {
    fetch: (request, env) => shortAnswer(request, env, deps) ?? app.fetch(request, env),
  };
}

function shortAnswer(
  request: Request,
  { remote }: HttpEnv["Bindings"],
  { cache, nowMs, newId, limits, log }: ShortWayDependencies,
): Response | undefined {
  if (request.method !== "GET" || remote?.transport !== "tcp") return undefined;
  const { url } = request;
  // Behind the scheme and the host, as they were sent.
  const path = url.slice(url.indexOf("/", url.indexOf("://") + 3));
  if (!path.startsWith(TREE)) return undefined;
  const freshness = cache.heldFreshness();
  const document = cache.held(path.slice(1));
  if (document === undefined || freshness === undefined) return undefined;
  const head = readHead(request.headers, limits);
  if (head === undefined || !PLAIN_HOST.test(head.host)) return undefined;
  const answer = heldAnswer(head, document);
  if (answer === undefined) return undefined;
  const request_id = cleanRequestId(head.requestId) ?? newId();
  answer.headers.set("x-request-id", request_id);
  const age = toldAgeSeconds(freshness, nowMs());
  if (age !== undefined) answer.headers.set(AGE_HEADER, String(age));
  log.debug("request answered", { request_id, method: "GET", path, status: answer.status });
  return answer;
}

/** What the short way looks at of a header. */
interface ShortHead extends DocumentWish {
  readonly host: string;
  readonly requestId: string | undefined;
}

/**
 * Reads a header in one pass: asking for one field after the other would go through all of them for
 * each, and take longer than everything else here.
 * @returns undefined when the application has to judge the request: it may be of a page of another
 * site (see local_only.ts), shows who calls (see access.ts), or has a header beyond the limits
 */
function readHead(
  headers: Headers,
  { headerFieldsMax, headerCharsMax }: ShortWayDependencies["limits"],
): ShortHead | undefined {
  let [fields, chars, plain, host] = [0, 0, true, ""];
  let xRequestId: string | undefined;
  let requestId: string | undefined;
  let noneMatch: string | null = null;
  let modifiedSince: string | null = null;
  let acceptEncoding: string | null = null;
  headers.forEach((value, name) => {
    fields += 1;
    chars += name.length + value.length;
    if (name === "host") host = value;
    else if (name === "accept-encoding") acceptEncoding = value;
    else if (name === "if-none-match") noneMatch = value;
    else if (name === "if-modified-since") modifiedSince = value;
    else if (name === "x-request-id") xRequestId = value;
    else if (name === "request-id") requestId = value;
    else if (name === "origin" || name === "sec-fetch-site" || name === "authorization") {
      plain = false;
    }
  });
  if (!plain || fields > headerFieldsMax || chars > headerCharsMax) return undefined;
  return { host, requestId: xRequestId ?? requestId, noneMatch, modifiedSince, acceptEncoding };
}

// The image index as document 1 has it: eight read-only operations on the documents that the mirror
// took, byte for byte as their publisher wrote them. A request looks a path up in the store; it is
// never joined to a path of a file system.

/** Carries the age of a stale tree, whole seconds since it was last compared with its upstream. */
export const AGE_HEADER = "x-index-age";

/** What the routes of the tree work with. */
interface IndexTreeDependencies {
  readonly index: IndexStore;
  /** Grows with every sync that is recorded; what is kept in memory is then compared again. */
  readonly generation: () => number;
  readonly now: Now;
  /** Shared with the short way; one of its own unless given. */
  readonly cache?: DocumentCache;
}

/** The routes of document 1. Errors are thrown, for the app to answer. */
export function indexTreeRoutes(deps: IndexTreeDependencies): Hono {
  const { index, generation, now } = deps;
  const cache = deps.cache ?? openDocumentCache(index, generation);
  const openapi = builtinOpenapi();
  const answer = async (c: Context, path: string, builtin?: ServedDocument) => {
    const document = await cache.get(path) ?? builtin;
    if (document === undefined) throw await notFound(cache, path);
    const response = await answerDocument(c.req.raw.headers, document);
    const age = toldAgeSeconds(await cache.freshness(), Date.parse(now()));
    if (age !== undefined) response.headers.set(AGE_HEADER, String(age));
    return response;
  };

  const routes = new Hono();
  routes.get("/v1/index.json", (c) => answer(c, DISTRO_LIST_PATH));
  routes.get("/v1/openapi.json", async (c) => answer(c, OPENAPI_PATH, await openapi));
  // No operation of document 1, but publishers may have it.
  routes.get("/v1/images.json", (c) => answer(c, IMAGES_PATH));
  routes.get("/v1/distros/:distro/index.json", (c) => answer(c, distroPath(name(c, "distro"))));
  routes.get(
    "/v1/distros/:distro/releases/:release/index.json",
    (c) => answer(c, releasePath(name(c, "distro"), name(c, "release"))),
  );
  routes.get(
    "/v1/distros/:distro/releases/:release/archive.json",
    (c) => answer(c, archivePath(name(c, "distro"), name(c, "release"))),
  );
  for (const alias of SERVED_ALIASES) {
    routes.get(
      `/v1/distros/:distro/aliases/${alias}.json`,
      (c) => answer(c, aliasPath(name(c, "distro"), alias)),
    );
  }
  return routes;
}

/** A decoded parameter may hold a slash, and would then name another document. */
function name(c: Context, noun: "distro" | "release"): string {
  const text = c.req.param(noun) ?? "";
  if (isIndexName(text)) return text;
  throw new AgentError("not_found", `Cannot find ${noun} ${quote(text)}: it is no name`);
}

async function notFound(cache: DocumentCache, path: string): Promise<AgentError> {
  const { atMs } = await cache.freshness();
  const reason = atMs === undefined ? "the index has not been synced yet" : "the index has none";
  return new AgentError("not_found", `Cannot find ${path}: ${reason}`);
}
