// How many requests are answered at the same time. More would only wait in memory; they are told to
// come back instead. Callers whose bodies come slowly hold their places for long, so those with a body
// never get the last ones: whoever only asks is answered.

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../../domain/error.ts";
import type { HttpEnv } from "../context.ts";

/** One place of so many is for requests without a body; with fewer places there is none. */
const BODILESS_SHARE = 8;
const BODILESS = ["GET", "HEAD"];

/** Refuses a request while as many as the limit are under way. */
export function bounded(requestsMax: number): MiddlewareHandler<HttpEnv> {
  let underWay = 0;
  return async (c, next) => {
    const placesMax = BODILESS.includes(c.req.method)
      ? requestsMax
      : requestsMax - Math.floor(requestsMax / BODILESS_SHARE);
    if (underWay >= placesMax) {
      const message = `Cannot answer now: ${placesMax} requests are under way`;
      throw new AgentError("overloaded", message);
    }
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
