// What requests take: places and memory.
//
// Only so many requests are answered at once. More would only wait in memory, so they get a 503. Slow bodies
// hold a place for long, so the last places are kept for requests without a body, and reading stays possible.

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../../domain/error.ts";
import { type MemoryBudget, RequestMemory } from "../../domain/memory_budget.ts";
import type { HttpEnv } from "../context.ts";

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

/** Refuses requests beyond the limit. */
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
