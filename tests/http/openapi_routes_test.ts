// The description beside the routes that the application has: neither has one more than the other.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { openMemoryBudget } from "../../src/domain/memory_budget.ts";
import { randomUuid } from "../../src/domain/id.ts";
import { createApp } from "../../src/http/app.ts";
import { silentLog } from "../../src/metrics/log.ts";
import { Notifiers } from "../../src/runtime/notifier.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite_store.ts";
import { DEFAULT_HTTP_LIMITS } from "../support/limits.ts";
import { RUNNER, T0 } from "../support/job.ts";
import { filesOf, libraryOf, MACHINE_DEPS, NO_MACHINES, withHttpAgent } from "./http_agent.ts";
import { withIndex } from "./openapi_agent.ts";
import { assertDescribed, isRefused, OPERATIONS, pathOf } from "./openapi_operations.ts";
import { sourceChecksHere } from "../support/parsed_workflow.ts";

/** The routes of an application with everything that agent.ts mounts. */
async function routesOfApp(): Promise<string[]> {
  const store = await openSqliteStore(":memory:");
  const found: string[] = [];
  try {
    await withIndex((routes) => {
      const app = createApp({
        checkSources: sourceChecksHere().acceptable,
        store,
        budget: openMemoryBudget(),
        changes: new Notifiers(),
        now: () => T0,
        newUuid: randomUuid,
        limits: DEFAULT_HTTP_LIMITS,
        wording: "document",
        log: silentLog,
        machines: { ...MACHINE_DEPS, vmadm: NO_MACHINES },
        hostUuid: RUNNER,
        mediaFiles: filesOf(store, silentLog),
        library: libraryOf(store, silentLog),
        allowedHosts: [],
        closing: new AbortController().signal,
      }, routes);
      for (const { method, path } of app.routes) {
        // Middleware is registered for all methods; the console and the description have pages for people.
        if (method !== "ALL" && !/^\/(?:ui\b|docs$|$)/.test(path)) {
          found.push(`${method} ${path.replaceAll(/:(\w+)(?:\{[^}]*\})?/g, "{$1}")}`);
        }
      }
      return Promise.resolve();
    });
  } finally {
    await store.close();
  }
  return found;
}

Deno.test("every route is described, and everything described is a route", async () => {
  const described = OPERATIONS.filter((one) => !isRefused(one));
  assertEquals(
    described.map(({ method, path }) => `${method} ${path}`).sort(),
    (await routesOfApp()).sort(),
  );
});

Deno.test("every path that the description says is refused has no route, and answers so", async () => {
  const refused = OPERATIONS.filter(isRefused);
  assertEquals(refused.map(({ method, path }) => `${method} ${path}`), [
    "PUT /jobs/{job_uuid}",
    "DELETE /jobs/{job_uuid}",
    "PUT /jobs/{job_uuid}/info",
    "DELETE /jobs/{job_uuid}/info",
  ]);
  await withHttpAgent(async (agent) => {
    for (const one of refused) {
      for (const body of [undefined, {}]) {
        const answer = await agent.call(one.method, pathOf(one), body);
        assertEquals([one.id, answer.status], [one.id, 405]);
        assertDescribed(one, answer);
      }
    }
  });
});

Deno.test("a described path answers every other method with 405 and those it has", async () => {
  const refusal = OPERATIONS.find(isRefused);
  const paths = new Set(OPERATIONS.map(({ path }) => path));
  await withIndex((routes) =>
    withHttpAgent(async (agent) => {
      for (const path of paths) {
        const here = OPERATIONS.filter((one) => one.path === path && !isRefused(one));
        const methods = here.map(({ method }) => method);
        const allowed = methods.flatMap((one) => one === "GET" ? ["GET", "HEAD"] : [one]);
        const [first] = here;
        for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
          if (first === undefined || refusal === undefined || methods.includes(method)) continue;
          const answer = await agent.call(method, pathOf(first), undefined);
          assertEquals([method, path, answer.status], [method, path, 405]);
          assertDescribed(refusal, answer);
          const allow = answer.headers.get("allow")?.split(", ") ?? [];
          assertEquals([path, allow.sort()], [path, allowed.sort()]);
        }
      }
    }, { routes })
  );
});

Deno.test("no source loads the description before it is asked for", async () => {
  const folder = fromFileUrl(new URL("../../src/http", import.meta.url));
  const loading: string[] = [];
  let sources = 0;
  for (
    const room of ["", "console", "listen", "request", "routes", "routes/index", "routes/jobs"]
  ) {
    for await (const { name, isFile } of Deno.readDir(join(folder, room))) {
      // The description of the index, which is loaded when asked for as well.
      if (!isFile || name === "openapi.ts") continue;
      sources += 1;
      const text = await Deno.readTextFile(join(folder, room, name));
      // openapi/routes.ts loads the rest when asked.
      if (/from "[./]*openapi\/(?!routes\.ts)|from "\.\/openapi\.ts"/.test(text)) {
        loading.push(
          join(room, name),
        );
      }
    }
  }
  assert(sources > 30, `${sources} sources`);
  assertEquals(loading, []);
});
