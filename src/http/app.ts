// The HTTP application: the fast path for index documents, the middleware in order, then the routes, one file per
// resource. Also what all routes share: the shape of errors, and the answers to unknown paths and wrong methods.

import { type Context, Hono } from "hono";
import type { Result, Router } from "hono/router";
import { TrieRouter } from "hono/router/trie-router";
import { getPath } from "hono/utils/url";
import { AgentError } from "../domain/error.ts";
import { openMachineJobs } from "../machines/machine_jobs.ts";
import type { RequestCount } from "../metrics/meters.ts";
import type { Mirror } from "../mirror/mirror.ts";
import { openDocumentCache } from "./answer/document_cache.ts";
import { errorResponse } from "./answer/error_response.ts";
import { openConsoleTickets } from "./console/tickets.ts";
import type { HttpEnv, ServedAgent } from "./served_agent.ts";
import { forwarding } from "./request/forwarding.ts";
import { admitted, asksForPage, quotedPath, UI_PATH } from "./request/access.ts";
import { openSessions } from "./request/sessions.ts";
import { audited } from "./request/audit.ts";
import { OPEN_ACCESS } from "./caller.ts";
import type { App } from "./server.ts";
import { reworded } from "./request/compat.ts";
import { headChecked } from "./request/head_check.ts";
import { bounded, counted, remembering } from "./request/request_gate.ts";
import { jsonOnly } from "./request/body.ts";
import { strictQuery } from "./request/query.ts";
import { identified } from "./request/request_id.ts";
import { openAccessLines } from "./request/access_lines.ts";
import { openapiRoutes } from "./openapi/routes.ts";
import { agentRoutes, callerRoutes, sessionRoutes } from "./routes/agent.ts";
import { eventRoutes } from "./routes/events/events.ts";
import { hostRoutes, type HostSources } from "./routes/host.ts";
import { indexTreeRoutes } from "./routes/index/documents.ts";
import { withFastPath } from "./routes/index/fast_path.ts";
import { imageSearchRoutes } from "./routes/index/images.ts";
import { indexSyncRoutes } from "./routes/index/mirror.ts";
import { healthRoutes, metricsRoutes, readinessRoutes, statsRoutes } from "./routes/monitoring.ts";
import { hostsRoutes } from "./routes/hosts.ts";
import { jobBulkRoutes } from "./routes/jobs/bulk.ts";
import { jobInfoRoutes } from "./routes/jobs/info.ts";
import { jobRoutes } from "./routes/jobs/jobs.ts";
import { jobPruneRoutes } from "./routes/jobs/prune.ts";
import { jobRetryRoutes } from "./routes/jobs/retry.ts";
import { jobViewRoutes } from "./routes/jobs/view.ts";
import { leftoverRoutes } from "./routes/machines/leftovers.ts";
import { machineRoutes } from "./routes/machines/machines.ts";
import { mediaRoutes } from "./routes/media/media.ts";
import { mediaLibraryRoutes } from "./routes/media/library.ts";
import { uiRoutes } from "./routes/ui.ts";
import { workflowRoutes } from "./routes/workflows.ts";

/** The methods that routes use; HEAD is answered wherever GET is. */
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

/** Parts of the agent that have routes of their own. */
interface ServedParts {
  readonly mirror: Parameters<typeof indexSyncRoutes>[0]["mirror"] & Pick<Mirror, "generation">;
  readonly readings: HostReadings;
}

/** What the agent reads of itself and of its host. */
export interface HostReadings {
  readonly self: Parameters<typeof agentRoutes>[0];
  readonly metrics: Parameters<typeof metricsRoutes>[0];
  readonly readiness: Parameters<typeof readinessRoutes>[0];
  readonly host: HostSources;
}

/** Makes the agent's whole application. It owns no resources, and reads nothing before the first request. */
export function createAgentApp(
  context: ServedAgent & { readonly requests: RequestCount },
  { mirror, readings }: ServedParts,
): App {
  const { store, budget, newUuid, requests: { requests } } = context;
  const generation = () => mirror.generation;
  const cache = openDocumentCache(store.index, generation, budget);
  const app = createApp(context, [
    indexTreeRoutes({ ...context, cache }),
    imageSearchRoutes(store),
    indexSyncRoutes({ ...context, index: store.index, mirror }),
    agentRoutes(readings.self),
    metricsRoutes(readings.metrics),
    readinessRoutes(readings.readiness),
    hostRoutes(readings.host),
  ]);
  return withFastPath(app, {
    ...context,
    access: context.access ?? OPEN_ACCESS,
    requests,
    cache,
    // Not `now`: formatting an instant takes a twentieth of the time of a 304.
    nowMs: Date.now,
    newId: () => newUuid(),
  });
}

/** The application after the fast path. @param parts routes of parts that not every application has */
export function createApp(
  context: ServedAgent,
  parts: readonly Hono<HttpEnv>[] = [],
): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>({ getPath: pathOf, router: openRouter() });
  if (context.requests !== undefined) app.use(counted(context.requests));
  const lines = openAccessLines(context.log, context.now);
  context.closing.addEventListener("abort", lines.flush, { once: true });
  app.use(audited({ log: context.log, lines, now: context.now, trail: context.auditTrail }));
  app.use(identified(context, lines));
  app.use(bounded(context.limits.requestsMax));
  app.use(headChecked(context));
  app.use(remembering(context.budget));
  const access = context.access ?? OPEN_ACCESS;
  const tickets = openConsoleTickets(context.limits, access.nowMs);
  const sessions = openSessions(access.nowMs);
  app.use(admitted(access, tickets, sessions, context));
  app.use(jsonOnly);
  app.use(forwarding(context));
  app.use(strictQuery);
  const { unfinishedJobsMax } = context.limits;
  const machineJobs = openMachineJobs({ ...context, ...context.machines, unfinishedJobsMax });
  app.route("/", healthRoutes(context.store));
  app.route("/", openapiRoutes(context));
  app.route("/", workflowRoutes(context));
  app.route("/", jobRoutes(context, machineJobs));
  app.route("/", jobViewRoutes(context));
  app.route("/", eventRoutes(context));
  app.route("/", jobInfoRoutes(context));
  app.route("/", jobRetryRoutes(context, machineJobs));
  app.route("/", jobBulkRoutes(context, machineJobs));
  app.route("/", jobPruneRoutes(context));
  app.route("/", statsRoutes(context));
  app.route("/", callerRoutes());
  app.route("/", machineRoutes(context, machineJobs, tickets));
  app.route("/", leftoverRoutes(context));
  app.route("/", hostsRoutes(context));
  // Before the routes by digest, which would take the word `library` for a digest.
  app.route("/", mediaLibraryRoutes(context));
  app.route("/", mediaRoutes(context));
  app.route("/", sessionRoutes(context, access, sessions));
  app.route("/", uiRoutes());
  for (const routes of parts) app.route("/", routes);
  app.onError((error, c) => errorResponse(reworded(error, context.wording), c.get("request_id")));
  app.notFound((c) => noRoute(app, c));
  return app;
}

/** What the path of a route contains that has more than one path. */
const VARIABLE = /[:*]/;

/**
 * A router that keeps what it found for a path without parameters: most requests are for a few of them, and to search
 * again takes 5 us and as many KB.
 */
function openRouter<T>(): Router<T> {
  const tree = new TrieRouter<T>();
  const fixed = new Set<string>();
  const kept = new Map<string, Result<T>>();
  return {
    name: "kept",
    add(method, path, handler) {
      kept.clear();
      if (!VARIABLE.test(path)) fixed.add(path);
      tree.add(method, path, handler);
    },
    match(method, path) {
      // Callers choose the method and the path, so others are not kept.
      if (!fixed.has(path) || !(METHODS as readonly string[]).includes(method)) {
        return tree.match(method, path);
      }
      const key = `${method} ${path}`;
      const found = kept.get(key) ?? tree.match(method, path);
      kept.set(key, found);
      return found;
    },
  };
}

/**
 * The path from the first line of the request. Without a Host header on the unix socket, the binary's runtime
 * omits the host from the URL, and Hono would mistake the first part of the path for it.
 */
function pathOf(request: Request): string {
  const [, scheme, path] = /^([a-z+]+:\/\/)(\/.*)$/.exec(request.url) ?? [];
  return getPath(path === undefined ? request : new Request(`${scheme}localhost${path}`));
}

/**
 * Answers requests that no route takes: 405 if the path has other methods, else 404. Browsers are sent to the
 * console.
 */
function noRoute(app: Hono<HttpEnv>, c: Context<HttpEnv>): Response {
  const { method, path } = c.req;
  if (asksForPage(c.req.raw, path)) return c.redirect(UI_PATH, 303);
  const allowed = allowedMethods(app, path);
  const shown = quotedPath(path);
  if (allowed.length === 0) {
    const message = `Cannot find ${shown}: no such path, see /docs or /openapi.json`;
    return refused(c, new AgentError("not_found", message));
  }
  const allow = allowed.join(", ");
  const message = `Cannot ${method} ${shown}, expected ${allow}`;
  const response = refused(c, new AgentError("method_not_allowed", message));
  response.headers.set("allow", allow);
  return response;
}

function refused(c: Context<HttpEnv>, error: AgentError): Response {
  return errorResponse(error, c.get("request_id"));
}

/** The methods of a path, by the router; middleware is left out. */
function allowedMethods(app: Hono<HttpEnv>, path: string): string[] {
  // A path with a route of its own is not a parameter of another: `library` is not a `:digest` of media.
  const own = app.routes.filter((route) => route.path === path && route.method !== "ALL");
  const isRoute = (method: string) =>
    own.length > 0
      ? own.some((route) => route.method === method)
      : app.router.match(method, path)[0].some(([[, route]]) => route.method !== "ALL");
  return METHODS
    .filter(isRoute)
    .flatMap((method) => method === "GET" ? ["GET", "HEAD"] : [method]);
}
