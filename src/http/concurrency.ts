// How many requests are answered at the same time. More would only wait in memory; they are told to
// come back instead.

import type { MiddlewareHandler } from "hono";
import { AgentError } from "../domain/error.ts";
import type { HttpEnv } from "./app_deps.ts";

/** Refuses a request while as many as the limit are under way. */
export function bounded(requestsMax: number): MiddlewareHandler<HttpEnv> {
  let underWay = 0;
  return async (c, next) => {
    if (underWay >= requestsMax) {
      const message = `Cannot answer now: ${requestsMax} requests are under way`;
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
