// The routes of the index on a real server, in front of a mirror of the small tree.

import { openDocumentCache } from "../../src/http/answer/document_cache.ts";
import type { HttpEnv } from "../../src/http/served_agent.ts";
import { Hono } from "hono";
import { AgentError } from "../../src/domain/error.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { errorResponse } from "../../src/http/answer/error_response.ts";
import { indexSyncRoutes } from "../../src/http/routes/index/mirror.ts";
import { imageSearchRoutes } from "../../src/http/routes/index/images.ts";
import { indexTreeRoutes } from "../../src/http/routes/index/documents.ts";
import { remembering } from "../../src/http/request/request_gate.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { type TestMirror, withMirror } from "../mirror/test_mirror.ts";

/** Runs a test with the server's address; `null` is a mirror without an upstream. */
export async function served(
  run: (test: TestMirror, url: string) => Promise<void>,
  upstream?: null,
): Promise<void> {
  await withMirror(async (test) => {
    const { mirror, store, clock } = test;
    const app = new Hono<HttpEnv>();
    const budget = openMemoryBudget();
    app.use(remembering(budget));
    const cache = openDocumentCache(store.index, () => mirror.generation, budget);
    const now = () => clock.now;
    app.route(
      "/",
      indexTreeRoutes({ now, budget, log: silentLog, cache }),
    );
    app.route("/", imageSearchRoutes(store));
    app.route(
      "/",
      indexSyncRoutes({
        mirror,
        index: store.index,
        limits: DEFAULT_HTTP_LIMITS,
        log: silentLog,
        now,
      }),
    );
    app.onError((error) => errorResponse(error, "request-1"));
    app.notFound(() => errorResponse(new AgentError("not_found", "Cannot find it"), "request-1"));
    const options = { port: 0, hostname: "127.0.0.1", onListen() {} };
    await using http = Deno.serve(options, (request) => app.fetch(request));
    await run(test, `http://127.0.0.1:${http.addr.port}`);
  }, upstream === undefined ? {} : { upstream });
}
