// What every request of the application passes whatever its head says: it is counted, takes one of the places, and has
// memory of its own.

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../../domain/error.ts";
import { MS_PER_SECOND } from "../../domain/instant.ts";
import { type MemoryBudget, RequestMemory } from "../../domain/memory_budget.ts";
import type { RequestCount } from "../../metrics/meters.ts";
import type { HttpEnv } from "../served_agent.ts";
import { answeredRoute } from "./access_lines.ts";

/**
 * Counts requests of the application, each under the pattern of its route, or under `none`. It
 * comes before everything that may refuse them.
 */
export function counted({ requests }: RequestCount): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const beganMs = performance.now();
    await next();
    const seconds = (performance.now() - beganMs) / MS_PER_SECOND;
    requests.answered(c.req.method, answeredRoute(c), c.res.status, seconds);
  };
}

/** One place in this many is kept for requests without a body. */
const BODILESS_SHARE = 8;
const BODILESS = ["GET", "HEAD"];

/** The refusal of a request beyond the limit. */
export function tooManyRequests(placesMax: number): AgentError {
  return new AgentError(
    "overloaded",
    `Cannot accept the request: ${placesMax} requests are under way, the maximum`,
  );
}

/**
 * Refuses requests beyond the limit: more would only wait in memory, so they get a 503. Slow bodies
 * hold a place for long, so the last places are kept for requests without a body, and reading stays
 * possible.
 */
export function bounded(requestsMax: number): MiddlewareHandler<HttpEnv> {
  let underWay = 0;
  return async (c, next) => {
    const placesMax = BODILESS.includes(c.req.method)
      ? requestsMax
      : requestsMax - Math.floor(requestsMax / BODILESS_SHARE);
    if (underWay >= placesMax) throw tooManyRequests(placesMax);
    underWay += 1;
    let counted = true;
    const release = () => {
      if (counted) underWay -= 1;
      counted = false;
    };
    let kept = false;
    const keep = () => {
      kept = true;
      return release;
    };
    c.set("release", release);
    c.set("keep", keep);
    try {
      await next();
    } finally {
      if (!kept) release();
    }
  };
}

/** Opens the memory of each request, and releases it. */
export function remembering(budget: MemoryBudget): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const memory = new RequestMemory(budget);
    c.set("memory", memory);
    try {
      await next();
    } finally {
      memory.release();
    }
  };
}
