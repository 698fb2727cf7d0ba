// GET /jobs/:job_uuid/wait: answers once a job is finished or waiting.

import type { Context } from "hono";
import { about, integer } from "../../../domain/description/value.ts";
import { AgentError, undefinedWhileAway } from "../../../domain/error.ts";
import type { JobUuid } from "../../../domain/id.ts";
import { type Execution, isFinal } from "../../../domain/job/state.ts";
import { whileOpen } from "../../../runtime/run.ts";
import { within } from "../../../runtime/wait.ts";
import { jobNotFound } from "../../../store/job_orders.ts";
import type { Store } from "../../../store/store.ts";
import { answerJob } from "../../answer/text_answer.ts";
import { showingTo } from "../../caller.ts";
import { readQuery } from "../../request/query.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { jobText, jobUuidOf } from "./change.ts";

type WaitContext =
  & Pick<ServedAgent, "limits" | "closing" | "changes">
  & Parameters<typeof jobText>[2]
  & Parameters<typeof answerJob>[2]
  & Parameters<typeof showingTo>[1];

const TIMEOUT_SECONDS = 30;
const TIMEOUT_SECONDS_MAX = 60;
/** The query of the wait. */
export const WAIT_FIELDS = {
  timeout: about(
    "Maximum number of seconds to wait.",
    integer(0, TIMEOUT_SECONDS_MAX),
    { default: TIMEOUT_SECONDS },
  ),
};
/** The row is read again after this time even without a hint, since hints may be lost. Milliseconds. */
const LOOK_MS_MAX = 1_000;

/**
 * Makes the handler of GET /jobs/:job_uuid/wait, which counts the waiting requests. It answers with
 * the job once it is finished or waiting, or when the time is up, so that clients need not poll.
 */
export function openJobWait(context: WaitContext): (c: Context<HttpEnv>) => Promise<Response> {
  let waiting = 0;
  return async (c) => {
    const uuid = jobUuidOf(c);
    const { timeout = TIMEOUT_SECONDS } = readQuery(c.req.url, WAIT_FIELDS);
    if (waiting >= context.limits.waitsMax) {
      const message = `Cannot wait for job ${uuid}: ${waiting} requests are waiting, the maximum`;
      throw new AgentError("overloaded", message);
    }
    // From here on the request counts as waiting, not as active.
    c.get("release")();
    waiting += 1;
    try {
      const deadlineMs = performance.now() + timeout * 1000;
      await settled(c, context, uuid, deadlineMs);
      const showing = showingTo(c.get("caller"), context);
      return await answerJob(c, { text: await jobText(uuid, showing, context), showing }, context);
    } finally {
      waiting -= 1;
    }
  };
}

/**
 * Waits until the job is finished or waiting, or the time is up; also while the database is away.
 * @throws {AgentError} `not_found`
 */
async function settled(
  c: Context<HttpEnv>,
  { store, closing, changes }: WaitContext,
  uuid: JobUuid,
  deadlineMs: number,
): Promise<void> {
  // Listens before the first read of the row, so that no change is missed.
  await whileOpen(changes.listen(uuid), async (listener) => {
    let gone: AbortSignal | undefined;
    for (;;) {
      const execution = await executionIn(deadlineMs - performance.now(), uuid, store);
      if (execution === undefined) throw jobNotFound(uuid);
      const leftMs = deadlineMs - performance.now();
      // Ends when the job is done, the time is up, or the caller or the agent leaves.
      const isSettled = execution !== "unread" && (isFinal(execution) || execution === "waiting");
      if (isSettled || leftMs <= 0) return;
      gone ??= AbortSignal.any([c.req.raw.signal, closing]);
      if (gone.aborted) return;
      await listener.wait(Math.min(LOOK_MS_MAX, leftMs), gone);
    }
  });
}

/** The execution of a job; `unread` when the read takes too long, or the database is away. */
async function executionIn(
  ms: number,
  uuid: JobUuid,
  { jobs }: Pick<Store, "jobs">,
): Promise<Execution | "unread" | undefined> {
  let read: Execution | "unread" | undefined = "unread";
  await within(ms, undefinedWhileAway(jobs.execution(uuid).then((execution) => read = execution)));
  return read;
}
