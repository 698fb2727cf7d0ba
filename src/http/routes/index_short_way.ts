// The short way of the commonest request of all: GET of a document of the index that is in memory,
// by a program on this host. Judging and routing such a request costs more than answering it. Only
// what is plain beyond doubt goes this way, and is answered as it would be on the long one; all else,
// refusals included, is left to the application.

import type { Log } from "../../metrics/log.ts";
import type { HttpEnv, HttpLimits } from "../app_deps.ts";
import { type DocumentWish, heldAnswer } from "../request/conditional_request.ts";
import { type DocumentCache, toldAgeSeconds } from "../request/document_cache.ts";
import { AGE_HEADER } from "./index_tree.ts";
import { cleanRequestId } from "../request/request_id.ts";
import type { App } from "../listen/server.ts";

/** The names of this host that need no look at the configuration; see local_only.ts. */
const PLAIN_HOST = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/;
const TREE = "/v1/";

/** What the short way works with. */
export interface ShortWayDependencies {
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
