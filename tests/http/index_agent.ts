// An agent that listens, in front of a mirror of the small tree: the application as agent.ts puts it
// together, fast path included.

import { systemNow } from "../../src/domain/instant.ts";
import { type JobUuid, randomUuid } from "../../src/domain/id.ts";
import { createApp } from "../../src/http/app.ts";
import { OPEN_ACCESS } from "../../src/http/caller.ts";
import { openDocumentCache } from "../../src/http/answer/document_cache.ts";
import { indexSyncRoutes } from "../../src/http/routes/index/mirror.ts";
import { imageSearchRoutes } from "../../src/http/routes/index/images.ts";
import { indexTreeRoutes } from "../../src/http/routes/index/documents.ts";
import { withFastPath } from "../../src/http/routes/index/fast_path.ts";
import { type App, listen } from "../../src/http/server.ts";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { openMeters, type RequestMeter } from "../../src/metrics/meters.ts";
import { GRACE_MS, LISTENING } from "../support/listening.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { type TestMirror, withMirror } from "../mirror/test_mirror.ts";
import { type HttpAgent, withHttpAgent } from "./http_agent.ts";

export interface IndexAgent extends TestMirror {
  readonly url: string;
  readonly port: number;
  readonly agent: HttpAgent;
  /** The application with the fast path before it, and the application alone. */
  readonly apps: { readonly fast: App; readonly plain: App };
  /** Counts what the fast path answers. */
  readonly requests: RequestMeter;
  /** Asks for a path below the address. */
  get(path: string, headers?: Record<string, string>, method?: string): Promise<IndexAnswer>;
}

/** An answer that was read to its end. */
export interface IndexAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** Runs a test with an agent whose mirror has been synced. */
export async function withIndexAgent(
  run: (agent: IndexAgent) => Promise<void>,
  budget = openMemoryBudget(),
): Promise<void> {
  await withMirror(async (test) => {
    const { mirror, store, clock } = test;
    const now = () => clock.now;
    const generation = () => mirror.generation;
    const cache = openDocumentCache(store.index, generation, budget);
    const routes = [
      indexTreeRoutes({ now, budget, log: silentLog, cache }),
      imageSearchRoutes(store),
      indexSyncRoutes({
        mirror,
        index: store.index,
        limits: DEFAULT_HTTP_LIMITS,
        log: silentLog,
        now: systemNow,
      }),
    ];
    await withHttpAgent(async (agent) => {
      const { log } = agent.context;
      const { requests } = openMeters();
      const fastPath = {
        cache,
        nowMs: () => Date.parse(now()),
        newId: () => randomUuid<JobUuid>(),
        limits: agent.context.limits,
        allowedHosts: [],
        access: OPEN_ACCESS,
        requests,
        log,
      };
      const plain = createApp(agent.context, routes);
      const app = withFastPath(plain, fastPath);
      const apps = { fast: app, plain };
      const tcp = { hostname: "127.0.0.1", port: 0 };
      const server = await listen(app, { ...LISTENING, tcp, log });
      const port = server.port ?? 0;
      const url = `http://127.0.0.1:${port}`;
      try {
        await mirror.sync();
        const get = (path: string, headers: Record<string, string> = {}, method = "GET") =>
          ask(url + path, headers, method);
        await run({ ...test, url, port, agent, apps, requests, get });
      } finally {
        await server.shutdown(GRACE_MS);
      }
    }, { routes, now });
  });
}

/** Without encodings unless they are asked for. */
async function ask(
  url: string,
  sent: Record<string, string>,
  method: string,
): Promise<IndexAnswer> {
  const response = await fetch(url, {
    method,
    headers: { "accept-encoding": "identity", ...sent },
  });
  const bytes = await response.bytes();
  const text = new TextDecoder().decode(bytes);
  return { status: response.status, headers: response.headers, bytes, text };
}
