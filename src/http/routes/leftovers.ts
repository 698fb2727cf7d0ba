// /agent/v1/leftovers: what jobs should have removed from the host and could not. It is removed by the
// agent, who tries again and again; here is seen what is owed.

import { Hono } from "hono";
import { executionOnWire, type Wording } from "../../domain/job/wire.ts";
import type { JsonObject } from "../../domain/json.ts";
import type { Leftover } from "../../store/machine_claim_store.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { PAGE_MAX } from "../request/query.ts";

/** @see docs/machines.md, When the undoing fails */
export function leftoverRoutes({ store, wording }: AppDeps): Hono<HttpEnv> {
  const app = new Hono<HttpEnv>();
  app.get("/agent/v1/leftovers", async (c) => {
    const left = await store.machineClaims.left(PAGE_MAX);
    return c.json(left.map((leftover) => leftoverOnWire(leftover, wording)));
  });
  return app;
}

function leftoverOnWire(leftover: Leftover, wording: Wording): JsonObject {
  const { uuid, job_uuid, execution, claimed_at, tries, next_try_at, error } = leftover;
  const job_execution = executionOnWire(execution, wording);
  return { uuid, job_uuid, job_execution, claimed_at, tries, next_try_at, error };
}
