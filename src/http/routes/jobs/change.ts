// Cancels and resumes jobs: changes the row, of which the store notifies the runner. Where another host has the job, the
// answer waits a moment for that host to end the task.

import type { Context } from "hono";
import {
  accepted,
  type Description,
  openFindings,
} from "../../../domain/description/description.ts";
import { AgentError } from "../../../domain/error.ts";
import { type JobUuid, parsePathUuid } from "../../../domain/id.ts";
import type { Resume } from "../../../domain/job/request.ts";
import {
  denialOf,
  type Execution,
  EXECUTIONS,
  isCancelable,
  isStopConfirmed,
} from "../../../domain/job/state.ts";
import type { JobSummary } from "../../../domain/job/summary.ts";
import { executionOnWire, type Wording } from "../../../domain/job/wire.ts";
import { whileOpen } from "../../../runtime/run.ts";
import { jobNotFound } from "../../../store/job_orders.ts";
import type { ChangedJob, ChangeOutcome } from "../../../store/job_store.ts";
import type { Showing, StoredText } from "../../../store/stored_text.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";

/** The part of the context that cancel and resume use. */
export type JobChangeContext = Pick<
  ServedAgent,
  "store" | "wording" | "now" | "changes" | "closing"
>;

/** How long a cancel waits for the job's host, if that is connected, milliseconds. */
const STOP_MS_MAX = 2_000;
/** Milliseconds between two looks at the row when no hint comes. */
const STOP_LOOK_MS = 500;

type ChangeVerb = "cancel" | "resume";
/** Executions in which a job can be changed so. */
const ALLOWED: Readonly<Record<ChangeVerb, readonly Execution[]>> = {
  cancel: EXECUTIONS.filter(isCancelable),
  resume: EXECUTIONS.filter((one) => denialOf(one, { kind: "resume" }) === undefined),
};

/** The uuid in a path. @throws {AgentError} `not_found` for an invalid one */
export function jobUuidOf(c: Context<HttpEnv>): JobUuid {
  return parsePathUuid<JobUuid>(c.req.param("job_uuid") ?? "", "job");
}

/** One job as text. @throws {AgentError} `not_found` */
export async function jobText(
  uuid: JobUuid,
  showing: Showing,
  context: Pick<ServedAgent, "store">,
): Promise<StoredText> {
  const text = await context.store.jobs.text(uuid, showing);
  if (text === undefined) throw jobNotFound(uuid);
  return text;
}

/**
 * Cancels an unfinished job.
 * @returns the changed job
 * @throws {AgentError} `not_found`, `conflict`
 */
export async function cancelJob(
  uuid: JobUuid,
  context: JobChangeContext,
  showing: Showing,
): Promise<StoredText> {
  const outcome = await context.store.jobs.cancel(uuid, showing);
  const text = changedText(outcome, "cancel", uuid, context);
  const seen = await untilStopped(outcome, context, stopDeadline());
  return seen === undefined && text !== undefined ? text : await jobText(uuid, showing, context);
}

/** The time until which cancels that begin now may wait for other hosts, by performance.now(). */
export function stopDeadline(): number {
  return performance.now() + STOP_MS_MAX;
}

/**
 * Cancels a job without reading it first, unless another host has it.
 * @param untilMs end of the wait for that host, by performance.now()
 * @returns the job, if another host has it and has not confirmed by then that its task ended
 * @throws {AgentError} `not_found`, `conflict`
 */
export async function cancelUnseen(
  uuid: JobUuid,
  context: JobChangeContext,
  untilMs: number,
): Promise<JobSummary | undefined> {
  const outcome = await context.store.jobs.cancel(uuid);
  changedText(outcome, "cancel", uuid, context);
  const seen = await untilStopped(outcome, context, untilMs);
  return seen === undefined || isStopConfirmed(seen, seen.host ?? undefined) ? undefined : seen;
}

/**
 * Waits until the host of a canceled job confirms that its task has ended; does not wait for a host that is away.
 * @returns the job by then; undefined when no other host has it
 */
async function untilStopped(
  outcome: ChangeOutcome,
  { store, changes, closing }: JobChangeContext,
  untilMs: number,
): Promise<JobSummary | undefined> {
  if (outcome.kind !== "changed" || outcome.job.held !== true) return undefined;
  const { uuid } = outcome.job;
  return await whileOpen(changes.listen(uuid), async (listener) => {
    for (;;) {
      const job = await store.jobs.summary(uuid);
      const host = job?.host ?? undefined;
      const leftMs = untilMs - performance.now();
      const isOver = job === undefined || isStopConfirmed(job, host) || host?.state === "away";
      if (isOver || leftMs <= 0 || closing.aborted) return job;
      await listener.wait(Math.min(STOP_LOOK_MS, leftMs), closing);
    }
  });
}

/**
 * Reports the outcome of a waiting job's task.
 * @returns the changed job
 * @throws {AgentError} `not_found`, `conflict`
 */
export async function resumeJob(
  uuid: JobUuid,
  resume: Resume,
  context: JobChangeContext,
  showing: Showing,
): Promise<StoredText> {
  const outcome = await context.store.jobs.resume(uuid, resume, showing);
  const text = changedText(outcome, "resume", uuid, context);
  return text ?? await jobText(uuid, showing, context);
}

function changedText(
  outcome: ChangeOutcome,
  verb: ChangeVerb,
  uuid: JobUuid,
  { wording }: JobChangeContext,
): StoredText | undefined {
  if (outcome.kind === "changed") return outcome.text;
  if (outcome.kind === "not_found") throw jobNotFound(uuid);
  // Document 2 refuses a second cancel too: a canceled job is finalized.
  throw denied(verb, outcome.job, wording);
}

function denied(verb: ChangeVerb, { uuid, execution }: ChangedJob, wording: Wording): AgentError {
  const found = executionOnWire(execution, wording);
  const wanted = ALLOWED[verb].join(" or ");
  const message = `Cannot ${verb} job ${uuid}: execution is "${found}", expected ${wanted}`;
  return new AgentError("conflict", message, verb === "resume" ? { refusal: "not_waiting" } : {});
}

/**
 * Reads the body of a change. A job that is missing or in the wrong state is refused first; only then is the
 * body.
 * @throws {AgentError} `not_found`, `conflict`, `invalid_argument`
 */
export async function readChange<T>(
  verb: ChangeVerb,
  uuid: JobUuid,
  body: unknown,
  description: Description<T>,
  { store, wording }: Pick<ServedAgent, "store" | "wording">,
): Promise<T> {
  const findings = openFindings();
  const read = description.read(body, "", findings);
  if (findings.list.length > 0) {
    const execution = await store.jobs.execution(uuid);
    if (execution === undefined) throw jobNotFound(uuid);
    if (!ALLOWED[verb].includes(execution)) throw denied(verb, { uuid, execution }, wording);
  }
  return accepted(read, findings, verb);
}
