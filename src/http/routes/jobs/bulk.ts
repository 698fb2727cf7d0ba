// POST /agent/v1/jobs/cancel and /agent/v1/jobs/retry: one change to many jobs. Each job is changed alone, so a
// refusal does not affect the others.

import {
  COUNT,
  FLAG,
  listOf,
  NULLABLE_TEXT,
  orNull,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  whole,
  wordOf,
} from "../../../domain/description/answer.ts";
import { type Context, Hono } from "hono";
import { AgentError } from "../../../domain/error.ts";
import { HOST_STATES } from "../../../domain/host.ts";
import type { JobUuid } from "../../../domain/id.ts";
import { mapLimited } from "../../../runtime/run.ts";
import { pause } from "../../../runtime/wait.ts";
import type { JobFilter, JobKey } from "../../../store/job_store.ts";
import type { HttpEnv, ServedAgent } from "../../served_agent.ts";
import { errorWords } from "../../answer/error_response.ts";
import { cancelUnseen, type JobChangeContext, stopDeadline } from "./change.ts";
import { type RetryContext, retryJob } from "./retry.ts";
import type { Caller } from "../../caller.ts";
import { readJson, smallBody } from "../../request/body.ts";
import type { MachineJobs } from "../../../machines/machine_jobs.ts";
import { object } from "../../../domain/description/object.ts";
import { parse } from "../../../domain/description/description.ts";
import { about, integer } from "../../../domain/description/value.ts";
import {
  type Execution,
  EXECUTIONS,
  isCancelable,
  isHeld,
  isRetryable,
} from "../../../domain/job/state.ts";
import { EXECUTION_WORDS, parseExecutionFilter } from "../../../domain/job/wire.ts";
import { executionIn, JOB_FILTER_FIELDS, paramFilter, withHost } from "./filter.ts";

type BulkContext =
  & Pick<ServedAgent, "closing">
  & JobChangeContext
  & RetryContext;

/** Jobs that are changed at once: their writes share commits. */
const CHANGES_AT_A_TIME = 50;

/** Executions of jobs that can be canceled; running jobs come last. */
export const CANCELABLE: readonly string[] = EXECUTIONS.filter(isCancelable)
  .sort((one, other) => Number(isHeld(one)) - Number(isHeld(other)));
/**
 * Executions of jobs that a bulk retry takes, in both spellings. A job that succeeded is only retried by
 * itself, and one in `retried` already has its next attempt.
 */
export const RETRYABLE: readonly string[] = EXECUTION_WORDS.filter((word) => {
  const execution = parseExecutionFilter(word);
  return isRetryable(execution, execution === "retried") && execution !== "succeeded";
});

/** Why one of several jobs stays as it is; the others are changed all the same. */
export const REFUSED_JOB = whole("A job that was not changed, and why.", {
  uuid: UUID,
  code: { ...TEXT, description: "As `code` of an error." },
  message: TEXT,
});

const CHANGE_FIELDS = {
  matched: { ...COUNT, description: "Jobs that matched in this call." },
  refused: {
    ...listOf(shapeRef("RefusedJob", REFUSED_JOB)),
    description: "Jobs that were not changed; they may match the next call again.",
  },
  more: { ...FLAG, description: "Whether more jobs match, beyond the limit." },
};
const CANCELED_JOB = whole("A canceled job, and whether its task has ended.", {
  uuid: UUID,
  stop_confirmed: {
    ...FLAG,
    description: "False while the host of the job has not confirmed that its task has ended.",
  },
  host: { ...NULLABLE_TEXT, description: "That host, otherwise null." },
  host_state: { ...orNull(wordOf(HOST_STATES)), description: "`away` if it was not heard lately." },
});
const RETRIED_JOB = whole("A changed job.", {
  uuid: UUID,
  next_attempt: { ...UUID, description: "The job that repeats it." },
});

/** The answer of `POST /agent/v1/jobs/cancel`, with a job in exactly one of its lists. */
export const CANCELED_JOBS = whole("The outcome for each job.", {
  ...CHANGE_FIELDS,
  canceled: listOf(CANCELED_JOB),
});

/** The answer of `POST /agent/v1/jobs/retry`, which names each job and its successor. */
export const RETRIED_JOBS = whole("The outcome for each job.", {
  ...CHANGE_FIELDS,
  retried: listOf(RETRIED_JOB),
});

/** Which jobs a filter may find, and how they are changed. */
interface ManyJobsChange<Done> {
  /** Executions of the jobs concerned, in the words of `filter.execution`. */
  readonly executions: readonly string[];
  /** A further condition on a job. */
  readonly fits: (key: JobKey) => boolean;
  /**
   * @param untilMs when waits for other hosts end, for all jobs of the call
   * @returns what the answer says of the job
   */
  readonly change: (uuid: JobUuid, untilMs: number) => Promise<Done>;
}

/** What a call has done; see CANCELED_JOBS. */
interface ManyJobsChanged<Done> extends Omit<ShapeOf<typeof CANCELED_JOBS>, "canceled"> {
  readonly done: readonly Done[];
}

/** The routes of changes to many jobs. */
export function jobBulkRoutes(context: BulkContext, machineJobs: MachineJobs): Hono<HttpEnv> {
  const cancel: ManyJobsChange<ShapeOf<typeof CANCELED_JOB>> = {
    executions: CANCELABLE,
    fits: () => true,
    change: async (uuid, untilMs) => {
      const job = await cancelUnseen(uuid, context, untilMs);
      const host = job?.host ?? undefined;
      return {
        uuid,
        stop_confirmed: job === undefined,
        host: host?.name ?? null,
        host_state: host?.state ?? null,
      };
    },
  };
  const retryBy = (caller: Caller | undefined): ManyJobsChange<ShapeOf<typeof RETRIED_JOB>> => ({
    executions: RETRYABLE,
    fits: ({ retried }) => !retried,
    change: async (uuid) => {
      const next_attempt = await retryJob(uuid, { caller }, context, machineJobs);
      return { uuid, next_attempt };
    },
  });
  const app = new Hono<HttpEnv>();
  app.post("/agent/v1/jobs/cancel", async (c) => {
    const { done: canceled, ...rest } = await changeMany(c, cancel, context);
    const answer: ShapeOf<typeof CANCELED_JOBS> = { ...rest, canceled };
    return c.json(answer);
  });
  app.post("/agent/v1/jobs/retry", async (c) => {
    const { done: retried, ...rest } = await changeMany(c, retryBy(c.get("caller")), context);
    const answer: ShapeOf<typeof RETRIED_JOBS> = { ...rest, retried };
    return c.json(answer);
  });
  return app;
}

/** Both lists are in the order in which the jobs were found. */
async function changeMany<Done>(
  c: Context<HttpEnv>,
  bulk: ManyJobsChange<Done>,
  context: BulkContext,
): Promise<ManyJobsChanged<Done>> {
  const body = await readJson(c, smallBody(context.limits));
  const { filter, ...selection } = parseSelection(body, bulk.executions);
  const named = { ...selection, filter: await withHost(filter, context.store) };
  const { uuids, more } = await selectJobs(named, bulk.fits, context);
  const done = new Map<JobUuid, Done>();
  const refused = new Map<JobUuid, ShapeOf<typeof REFUSED_JOB>>();
  const untilMs = stopDeadline();
  await mapLimited(uuids, CHANGES_AT_A_TIME, async (uuid) => {
    try {
      done.set(uuid, await bulk.change(uuid, untilMs));
    } catch (error) {
      // Any other error is a defect, and ends the call.
      if (!(error instanceof AgentError)) throw error;
      refused.set(uuid, { uuid, ...errorWords(error) });
    }
  });
  const inOrder = <T>(found: ReadonlyMap<JobUuid, T>) =>
    uuids.flatMap((uuid) => found.get(uuid) ?? []);
  return { matched: uuids.length, done: inOrder(done), refused: inOrder(refused), more };
}

/** Jobs that one call may change. */
const JOBS_OF_A_CALL_MAX = 1000;
/** Jobs that are read from the store at a time. */
const JOBS_AT_A_TIME = 100;

interface Selection {
  readonly filter: Omit<JobFilter, "execution" | "host"> & { readonly host?: string };
  readonly executions: readonly Execution[];
  readonly limit: number;
}

/** The selected jobs, and whether there are others beyond the limit. */
interface Selected {
  readonly uuids: readonly JobUuid[];
  readonly more: boolean;
}

/**
 * The body of a call on many jobs.
 * @param words of `filter.execution`; without it, all of them are selected
 */
export function jobSelection(words: readonly string[]) {
  return object({
    filter: about(
      "A job must match every key.",
      // Selecting everything is more often a mistake than intended.
      object({
        execution: about(
          "Only jobs in this state; by default, in any of these.",
          executionIn(words),
        ),
        ...JOB_FILTER_FIELDS,
        params: paramFilter,
      }, { namesMin: 1 }),
    ),
    limit: about(
      "Number of jobs to change, newest first.",
      integer(1, JOBS_OF_A_CALL_MAX),
      { default: JOBS_OF_A_CALL_MAX },
    ),
  }, { required: ["filter"] });
}

/** @throws {AgentError} `invalid_argument` naming every incorrect field */
function parseSelection(body: unknown, words: readonly string[]): Selection {
  const { filter, limit = JOBS_OF_A_CALL_MAX } = parse(
    jobSelection(words),
    body,
    "",
    "selection of jobs",
  );
  const { execution, ...others } = filter;
  const asked = execution === undefined ? words.map(parseExecutionFilter) : [execution];
  // The values of params are texts.
  return {
    filter: others as Selection["filter"],
    executions: [...new Set(asked)],
    limit,
  };
}

/**
 * Finds the selected jobs, newest first within each execution. A job that is new or changes its execution
 * meanwhile may be missed.
 * @param fits a further condition for a job
 */
async function selectJobs(
  { filter, executions, limit }: Omit<Selection, "filter"> & { readonly filter: JobFilter },
  fits: (key: JobKey) => boolean,
  { store, closing }: Pick<ServedAgent, "store" | "closing">,
): Promise<Selected> {
  const found = new Set<JobUuid>();
  for (const execution of executions) {
    let before: { before?: number } = {};
    let page;
    do {
      page = await store.jobs.keys({ ...filter, execution }, { limit: JOBS_AT_A_TIME, ...before });
      for (const key of page) {
        before = { before: key.place };
        if (!fits(key)) continue;
        if (found.size === limit) return { uuids: [...found], more: true };
        found.add(key.uuid);
      }
      // Other requests get their turn between two pages.
      await pause(0, closing);
    } while (page.length === JOBS_AT_A_TIME);
  }
  return { uuids: [...found], more: false };
}
