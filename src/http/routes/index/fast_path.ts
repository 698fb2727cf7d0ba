// The fast path of the most common request: GET of an index document that is in memory. Routing such a
// request through the application costs more than answering it. The fast path checks a request as the
// application does and gives the same answer; everything else, refusals included, is left to the application.

import { MS_PER_SECOND } from "../../../domain/instant.ts";
import type { Log } from "../../../metrics/log.ts";
import type { RequestCount } from "../../../metrics/meters.ts";
import { AGE_HEADER, type DocumentCache, reportedAgeSeconds } from "../../answer/document_cache.ts";
import { heldAnswer } from "../../answer/served_document.ts";
import type { Access } from "../../caller.ts";
import { type HeadRules, openHeadCheck, readHead } from "../../request/head_check.ts";
import { cleanRequestId } from "../../request/request_id.ts";
import type { HttpEnv } from "../../served_agent.ts";
import type { App } from "../../server.ts";

const TREE = "/v1/";
/** The route under which its answers are counted. */
const ROUTE = `${TREE}*`;

/** What the fast path needs. */
interface FastPathContext extends HeadRules, RequestCount {
  /** Shared with the routes of the tree, which fill it. */
  readonly cache: DocumentCache;
  /** The time of day, milliseconds since 1970. */
  readonly nowMs: () => number;
  readonly newId: () => string;
  readonly access: Pick<Access, "requiresToken">;
  readonly log: Log;
}

/** Puts the fast path in front of the application, which counts the requests that it gets. */
export function withFastPath(app: App, context: FastPathContext): App {
  const { requests } = context;
  const answerTo = openFastPath(context);
  return {
    fetch(request, env) {
      const beganMs = performance.now();
      const answer = answerTo(request, env);
      if (answer === undefined) return app.fetch(request, env);
      const seconds = (performance.now() - beganMs) / MS_PER_SECOND;
      requests.answered(request.method, ROUTE, answer.status, seconds);
      return answer;
    },
  };
}

function openFastPath(
  context: FastPathContext,
): (request: Request, env: HttpEnv["Bindings"]) => Response | undefined {
  const { cache, nowMs, newId, access, log } = context;
  const check = openHeadCheck(context);
  return (request, env) => {
    if (request.method !== "GET" || env.remote === undefined) return undefined;
    const { url } = request;
    // The path as it was sent, after the scheme and the host.
    const path = url.slice(url.indexOf("/", url.indexOf("://") + 3));
    if (!path.startsWith(TREE)) return undefined;
    const freshness = cache.heldFreshness();
    const document = cache.held(path.slice(1));
    if (document === undefined || freshness === undefined) return undefined;
    const head = readHead(request.headers);
    if (check(head, request, env) !== undefined) return undefined;
    // Callers that show or need a token, and calls that are audited.
    if (head.authorization !== null || head.upgrade !== null || access.requiresToken(env.remote)) {
      return undefined;
    }
    // The application closes the connection.
    if (head.transferEncoding !== null) return undefined;
    const answer = heldAnswer(head, document);
    if (answer === undefined) return undefined;
    const request_id = cleanRequestId(head.requestId) ?? newId();
    answer.headers.set("x-request-id", request_id);
    const age = reportedAgeSeconds(freshness, nowMs());
    if (age !== undefined) answer.headers.set(AGE_HEADER, String(age));
    log.debug("request answered", { request_id, method: "GET", path, status: answer.status });
    return answer;
  };
}
