// GET /jobs/:job_uuid/wait: answers when a job is final or waiting, or when the time is up, with the
// job as it is then. It spares clients the polling that node-workflow's had to do.

import type { Context } from "hono";
import { closing } from "../../program/closing.ts";
import { AgentError } from "../../domain/error.ts";
import type { JobUuid } from "../../domain/id.ts";
import { isFinal } from "../../domain/job/state.ts";
import type { AppDeps, HttpEnv } from "../app_deps.ts";
import { jobNotFound, jobText, jobUuidOf, showingOf } from "./job_change.ts";
import { integerOf, readQuery } from "../request/query.ts";
import { answerJob } from "../request/shown_text.ts";

const TIMEOUT_SECONDS = 30;
const TIMEOUT_SECONDS_MAX = 60;
/** The row is read again after this time although nobody told of a change: hints may be lost. */
const LOOK_MS_MAX = 1_000;

/** Makes the handler, which counts how many requests wait. */
export function openJobWait(deps: AppDeps): (c: Context<HttpEnv>) => Promise<Response> {
  let waiting = 0;
  return async (c) => {
    const uuid = jobUuidOf(c);
    const query = readQuery(c.req.url, ["timeout"]);
    const seconds = integerOf(query, "timeout", { min: 0, max: TIMEOUT_SECONDS_MAX });
    if (waiting >= deps.limits.waitsMax) {
      const message = `Cannot wait for job ${uuid}: ${waiting} requests are waiting`;
      throw new AgentError("overloaded", message);
    }
    // From here on the request counts among those that wait, no longer among those that work.
    c.get("release")();
    waiting += 1;
    try {
      const deadlineMs = performance.now() + (seconds ?? TIMEOUT_SECONDS) * 1000;
      await settled(c, deps, uuid, deadlineMs);
      return await answerJob(c, await jobText(uuid, showingOf(c, deps), deps), deps);
    } finally {
      waiting -= 1;
    }
  };
}

/** Waits for the job to be final or waiting, or for the time. @throws {AgentError} `not_found` */
async function settled(
  c: Context<HttpEnv>,
  { store, closing: ending, changes }: AppDeps,
  uuid: JobUuid,
  deadlineMs: number,
): Promise<void> {
  // Before the first look at the row, so that no change can come in between unheard.
  await closing(changes.listen(uuid), async (listener) => {
    let gone: AbortSignal | undefined;
    for (;;) {
      const execution = await store.jobs.execution(uuid);
      if (execution === undefined) throw jobNotFound(uuid);
      const leftMs = deadlineMs - performance.now();
      // Ends by the job, by the time, or by the caller or the agent going away.
      if (isFinal(execution) || execution === "waiting" || leftMs <= 0) return;
      gone ??= AbortSignal.any([c.req.raw.signal, ending]);
      if (gone.aborted) return;
      await listener.wait(Math.min(LOOK_MS_MAX, leftMs), gone);
    }
  });
}
