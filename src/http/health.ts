// Whether the agent is there: `/healthz` for supervisors, `/ping` for clients of node-workflow.

import { Hono } from "hono";
import type { HttpEnv } from "./app_deps.ts";

/** The two routes; neither asks the store, so a stuck disk does not hide the agent. */
export function healthRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/healthz", (c) => c.json({ status: "ok" }));
  app.get("/ping", (c) => c.json({ pid: Deno.pid, backend: "sqlite" }));
  return app;
}
