// Whether the agent is there: `/healthz` for supervisors, `/ping` for clients of node-workflow; and
// whether it can do its work: `/readyz` for whoever sends work to it. access.ts lets probes without a
// token come to the first and the last.

import { type Context, Hono } from "hono";
import type { HttpEnv } from "../app_deps.ts";
import type { ReadinessReport } from "./readiness.ts";

const READY = 200;
const NOT_READY = 503;

/** The two routes; neither asks the store, so a stuck disk does not hide the agent. */
export function healthRoutes(): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/healthz", (c) => c.json({ status: "ok" }));
  app.get("/ping", (c) => c.json({ pid: Deno.pid, backend: "sqlite" }));
  return app;
}

/**
 * What the looks found, by their names; 503 when one has failed. Who was let in without being known is
 * told no more than that.
 */
export function readinessRoutes(readiness: () => Promise<ReadinessReport>): Hono {
  const app = new Hono();
  app.get("/readyz", async (c: Context<HttpEnv>) => {
    const { ready, checks } = await readiness();
    c.header("cache-control", "no-store");
    const verdict = { status: ready ? "ready" : "not_ready" };
    const known = c.get("caller") !== undefined;
    return c.json(known ? { ...verdict, checks } : verdict, ready ? READY : NOT_READY);
  });
  return app;
}
