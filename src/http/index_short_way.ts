// The short way of the commonest request of all: GET of a document of the index that is in memory,
// by a program on this host. Judging and routing such a request costs more than answering it. Only
// what is plain beyond doubt goes this way, and is answered as it would be on the long one; all else,
// refusals included, is left to the application.

import type { Now } from "../domain/instant.ts";
import type { Log } from "../log.ts";
import type { HttpEnv } from "./app_deps.ts";
import { heldAnswer } from "./conditional_request.ts";
import { type DocumentCache, toldAgeSeconds } from "./document_cache.ts";
import { AGE_HEADER } from "./index_tree.ts";
import { cleanRequestId } from "./request_id.ts";
import type { App } from "./server.ts";

/** The names of this host that need no look at the configuration; see local_only.ts. */
const PLAIN_HOST = /^(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?$/;
/** Whoever sends one of these may be a page of another site; see local_only.ts. */
const BROWSER_HEADERS = ["origin", "sec-fetch-site"] as const;
const TREE = "/v1/";

/** What the short way works with. */
export interface ShortWayDependencies {
  /** That of the routes of the tree: what they put in is found here. */
  readonly cache: DocumentCache;
  readonly now: Now;
  readonly newId: () => string;
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
  { cache, now, newId, log }: ShortWayDependencies,
): Response | undefined {
  if (request.method !== "GET" || remote?.transport !== "tcp") return undefined;
  const { url } = request;
  // Behind the scheme and the host, as they were sent.
  const path = url.slice(url.indexOf("/", "http://".length));
  if (!path.startsWith(TREE)) return undefined;
  const freshness = cache.heldFreshness();
  const document = cache.held(path.slice(1));
  if (document === undefined || freshness === undefined) return undefined;
  const { headers } = request;
  if (!PLAIN_HOST.test(headers.get("host") ?? "")) return undefined;
  if (BROWSER_HEADERS.some((name) => headers.has(name))) return undefined;
  const answer = heldAnswer(headers, document);
  if (answer === undefined) return undefined;
  const sent = headers.get("x-request-id") ?? headers.get("request-id");
  const request_id = cleanRequestId(sent) ?? newId();
  answer.headers.set("x-request-id", request_id);
  const age = toldAgeSeconds(freshness, now());
  if (age !== undefined) answer.headers.set(AGE_HEADER, String(age));
  log.debug("request answered", { request_id, method: "GET", path, status: answer.status });
  return answer;
}
