// `zonewright job cancel`, `job resume` and `job retry`: changes to one job, or to every job that matches a filter. A
// call changes a limited number of jobs, so a large selection takes several rounds.

import { type Execution, UNFINISHED } from "../../domain/job/state.ts";
import type { JsonObject, JsonValue } from "../../domain/json.ts";
import type { ApiCall } from "../client/api_call.ts";
import { objectsAt, readObject, readObjects, textIn } from "../client/answer.ts";
import { cannot, type Flag, usageError } from "../command/arguments.ts";
import {
  type Command,
  confirmed,
  EXIT,
  type ExitCode,
  type Invocation,
  YES_FLAG,
} from "../command/command.ts";
import { changedDocument, readJob } from "../client/job.ts";
import { isMeant, jobNamed, jobPath } from "../command/named.ts";
import { parseJsonText } from "../command/typed_value.ts";
import { parseExecutionFilter } from "../../domain/job/wire.ts";
import {
  FILTER_FLAGS,
  filterOf,
  filterText,
  hiddenParams,
  type JobSelection,
  limitOf,
  noteUnknownWorkflow,
  queryOf,
} from "./selection.ts";
import { checkTimeout, FOLLOW_FLAGS } from "../follow/follow.ts";
import { showNewJob } from "./run.ts";

/** A change that can be made to many jobs at once. */
interface JobsChange {
  readonly verb: "cancel" | "retry";
  /** Key of the changed jobs in the answer. */
  readonly done: "canceled" | "retried";
  /** Executions of the jobs that it applies to. */
  readonly touches: readonly Execution[];
  /** Whether it applies to a job of the list, if the execution alone does not decide. */
  fits?(job: JsonObject): boolean;
  line(changed: JsonObject): string;
}

const BULK_FLAGS: readonly Flag[] = [
  ...FILTER_FLAGS,
  { name: "limit", placeholder: "N", help: "at most this many jobs [all matching jobs]" },
  YES_FLAG,
];

/** Flags that select jobs, which are refused along with the uuid of a job. */
const SELECTING_FLAGS = [...FILTER_FLAGS.map(({ name }) => name), "limit"];

/** Jobs of one call; the agent's limit. */
const BATCH_MAX = 1000;
/** More calls than an agent's jobs can need; ends a change if new jobs keep arriving. */
const ROUNDS_MAX = 10_000;
const CALL_DEADLINE_MS = 300_000;

/** Whether the command is for many jobs. @throws {AgentError} `invalid_argument` when that is unclear */
function isBulk({ args }: Invocation): boolean {
  const [uuid] = args.operands;
  const chosen = SELECTING_FLAGS.filter((name) => args.has(name));
  if (uuid === undefined && chosen.every((name) => name === "limit")) {
    throw usageError(
      "expected a job, or filters such as --execution, --workflow or --target",
    );
  }
  if (uuid !== undefined && chosen.length > 0) {
    throw usageError(`a job and the filter --${chosen[0]} are both given, expected one of them`);
  }
  return uuid === undefined;
}

/** Changes every job that matches the flags. */
async function changeJobs(call: Invocation, change: JobsChange): Promise<ExitCode> {
  const { args, client, terminal } = call;
  const filter = await filterOf(call, change.verb);
  const limit = limitOf(args);
  checkExecution(filter, change);
  if (client.prints(batchCall(change, filter, limit))) return EXIT.ok;
  if (!args.has(YES_FLAG.name)) {
    const action = await actionText(call, change, filter, limit);
    if (action === undefined) return await show(call, change, filter, NOTHING);
    if (!await confirmed(call, action)) return EXIT.failure;
  }
  // A job created in one round may end and match in the next, so only older jobs are selected.
  const until = filter.until ?? new Date(terminal.nowMs()).toISOString();
  const report: Report = { changed: [], refused: new Map(), more: false };
  try {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const left = limit === undefined ? BATCH_MAX : limit - report.changed.length;
      const meant = round === 0 ? filter : { ...filter, until };
      const answer = await client.send(batchCall(change, meant, Math.min(left, BATCH_MAX)));
      const changed = takeAnswer(readObject(answer.body, "the answer"), change, report);
      // After a round without changes, the next would get the same refusals.
      if (!report.more || changed === 0 || report.changed.length === limit) break;
    }
  } catch (error) {
    // Changes of earlier rounds stand, and nothing else reports them.
    if (report.changed.length > 0) await show(call, change, filter, report);
    throw error;
  }
  return await show(call, change, filter, report);
}

interface Report {
  readonly changed: JsonObject[];
  /** By the uuid of the job, since the next round meets a refused one again. */
  readonly refused: Map<string, JsonObject>;
  /** Whether matching jobs are left. */
  more: boolean;
}

const NOTHING: Report = { changed: [], refused: new Map(), more: false };

function takeAnswer(answer: JsonObject, { done }: JobsChange, report: Report): number {
  const changed = objectsAt(answer, done);
  report.changed.push(...changed);
  for (const one of objectsAt(answer, "refused")) {
    report.refused.set(textIn(one, "uuid") ?? "", one);
  }
  report.more = answer.more === true;
  return changed.length;
}

function batchCall({ verb }: JobsChange, filter: JobSelection, limit: number | undefined): ApiCall {
  // All its values are strings, so a filter is already JSON.
  const body = { filter: filter as JsonValue, ...(limit === undefined ? {} : { limit }) };
  return {
    method: "POST",
    path: `/agent/v1/jobs/${verb}`,
    body,
    deadlineMs: CALL_DEADLINE_MS,
  };
}

/** @throws {AgentError} `invalid_argument` for jobs that the change never applies to */
function checkExecution({ execution }: JobSelection, { verb, touches }: JobsChange): void {
  if (execution === undefined || touches.includes(parseExecutionFilter(execution))) return;
  throw cannot(
    `${verb} jobs whose execution is ${JSON.stringify(execution)}, expected --execution ` +
      touches.join(" or "),
  );
}

/** `cancel 12 jobs with execution "queued"`, or undefined when there are none. */
async function actionText(
  { client }: Invocation,
  change: JobsChange,
  filter: JobSelection,
  limit: number | undefined,
): Promise<string | undefined> {
  const executions = filter.execution === undefined ? change.touches : [filter.execution];
  let exact = hiddenParams(filter).length === 0;
  let count = 0;
  for (const execution of executions) {
    const query = queryOf({ ...filter, execution });
    query.set("limit", String(change.fits === undefined ? 1 : BATCH_MAX));
    const sent = await client.send({ method: "GET", path: `/jobs?${query}` });
    const total = Number(sent.headers.get("x-count"));
    const jobs = readObjects(sent.body, "the jobs");
    const unfit = change.fits === undefined ? 0 : jobs.filter((job) => !change.fits?.(job)).length;
    count += total - unfit;
    // Some of the jobs not examined may not qualify either.
    exact &&= change.fits === undefined || total <= jobs.length;
  }
  if (count === 0) return undefined;
  const some = Math.min(count, limit ?? count);
  const number = `${exact ? "" : "up to "}${some} job${some === 1 ? "" : "s"}`;
  return `${change.verb} ${number} with ${filterText(filter)}`;
}

async function show(
  call: Invocation,
  change: JobsChange,
  filter: JobSelection,
  { changed, refused, more }: Report,
): Promise<ExitCode> {
  const { printer } = call;
  const refusals = [...refused.values()];
  if (printer.json) {
    const matched = changed.length + refusals.length;
    printer.document({ matched, [change.done]: changed, refused: refusals, more });
  } else {
    for (const one of changed) printer.data(change.line(one));
    for (const one of refusals) printer.note(`zonewright: ${textIn(one, "message") ?? ""}`);
  }
  const rest = refusals.length === 0 ? "" : `, ${refusals.length} refused`;
  const none = changed.length + refusals.length === 0;
  const left = more ? ", more jobs match" : "";
  printer.note(none ? "no job matches" : `${changed.length} ${change.done}${rest}${left}`);
  if (none) await noteUnknownWorkflow(call, filter);
  return refusals.length === 0 ? EXIT.ok : EXIT.conflict;
}

/** `zonewright job retry`: one job by its uuid, or all that match filters, after a question. */
export const RETRY: Command = {
  summary: "run a finished job again, or every matching one",
  operands: "[JOB]",
  examples: [
    ['job retry "$JOB" --follow', "prints the uuid of the new job"],
    ['job retry "$JOB" --from copy', "keep the results of the tasks before copy"],
    ["job retry --execution failed --since 1d", "shows the count and asks"],
    ["job retry --workflow hello --param zone=a --yes", "does not ask"],
  ],
  flags: [
    {
      name: "from",
      placeholder: "TASK",
      help: "start with this task: its name, uuid or index, 0 for the first",
    },
    ...BULK_FLAGS,
    ...FOLLOW_FLAGS,
  ],
  notes: [
    "The new job uses the workflow as it is now, with the target, locks and callback of the old job and\n" +
    "the params that were asked for; with --from it keeps the old job's chain, and the params as its\n" +
    "tasks left them. Given filters instead of a JOB, the command acts on\n" +
    "every matching failed or canceled job that was not retried yet. On a terminal it shows the count\n" +
    "and asks; in scripts, pass --yes.",
  ],
  shared: "agent",
  async run(call) {
    if (!isBulk(call)) {
      checkTimeout(call);
      return await retryJob(call);
    }
    const single = ["from", ...FOLLOW_FLAGS.map(({ name }) => name)];
    const wrong = single.find((name) => call.args.has(name));
    if (wrong !== undefined) throw usageError(`--${wrong} is for one job, expected its uuid`);
    return await changeJobs(call, RETRY_JOBS);
  },
  hint(error, { operands, given }) {
    const [uuid] = operands;
    if (uuid === undefined) return undefined;
    if (given.has("from") && error.errors.some(({ field }) => field === "from")) {
      return `zonewright job get ${uuid}  shows its tasks`;
    }
    if (error.code !== "conflict") return undefined;
    return `zonewright job wait ${uuid}, or zonewright job cancel ${uuid}`;
  },
};

const RETRY_JOBS: JobsChange = {
  verb: "retry",
  done: "retried",
  touches: ["failed", "canceled"],
  fits: (job) => textIn(job, "next_attempt") === undefined,
  line: (changed) => textIn(changed, "next_attempt") ?? "",
};

async function retryJob(call: Invocation): Promise<ExitCode> {
  const from = call.args.text("from");
  const body = from === undefined ? {} : { from: /^\d{1,9}$/.test(from) ? Number(from) : from };
  const { uuid } = await jobNamed(call, call.args.operand);
  const path = `/agent/v1/jobs/${uuid}/retry`;
  const sent = await call.client.send({ method: "POST", path, body });
  return await showNewJob(call, readJob(sent.body));
}

/** `zonewright job cancel`: one job by its uuid, or all that match filters, after a question. */
export const CANCEL: Command = {
  summary: "cancel an unfinished job, or every matching one",
  operands: "[JOB]",
  examples: [
    ['job cancel "$JOB"', "stops its running task; later ones do not run"],
    ["job cancel --execution queued --workflow hello", "shows the count and asks"],
    ["job cancel --since 1h --yes --json", "without a question, for scripts"],
  ],
  flags: BULK_FLAGS,
  notes: [
    "Given filters instead of a JOB, the command cancels every matching unfinished job. On a terminal it\n" +
    "shows the count and asks; in scripts, pass --yes. It also asks when fewer than 8 characters of a\n" +
    "uuid name the JOB, which --yes does not accept.",
    "A job of a host that is away is canceled at once. Its host learns of it when it returns; until\n" +
    "it confirms that the task has ended, or is forgotten, the job keeps its target and its machine.",
  ],
  shared: "agent",
  async run(call) {
    if (isBulk(call)) return await changeJobs(call, CANCEL_JOBS);
    const job = await jobNamed(call, call.args.operand);
    if (!await isMeant(call, "job", "cancel", job)) return EXIT.failure;
    return await change(call, `/jobs/${job.uuid}/cancel`, {});
  },
  hint(error, { operands: [uuid] }) {
    if (error.code !== "conflict" || uuid === undefined) return undefined;
    return `the job is final; zonewright job retry ${uuid} creates it again`;
  },
};

const CANCEL_JOBS: JobsChange = {
  verb: "cancel",
  done: "canceled",
  touches: UNFINISHED,
  line: (changed) => `${textIn(changed, "uuid") ?? ""} canceled${unconfirmedText(changed)}`,
};

/** What is still to come of a canceled job whose host has not confirmed that its task has ended. */
function unconfirmedText(job: JsonObject): string {
  if (job.stop_confirmed !== false) return "";
  const host = textIn(job, "host") ?? "its host";
  return job.host_state === "away"
    ? `: ${host} is away and learns of it when it returns; until then the job keeps its target and machine`
    : `: ${host} has not yet confirmed that its task has ended`;
}

/** `zonewright job resume JOB`: ends the task that waits, with `--result` or with `--error`. */
export const RESUME: Command = {
  summary: "continue a waiting job with the result of its task",
  operands: "JOB",
  examples: [
    ['job resume "$JOB" --result "disk is ready"', "the job continues"],
    ['job resume "$JOB" --error "no disk"', "the job fails"],
  ],
  flags: [
    { name: "result", placeholder: "TEXT", help: "the result [OK]" },
    { name: "result-json", placeholder: "JSON", help: "the result as a JSON value" },
    { name: "error", placeholder: "TEXT", help: "fail the job with this error" },
  ],
  shared: "agent",
  async run(call) {
    const { args } = call;
    const [one, other] = ["result", "result-json", "error"].filter((name) => args.has(name));
    if (other !== undefined) {
      throw usageError(`--${one} and --${other} are both given, expected one of them`);
    }
    const result = args.text("result");
    const json = args.text("result-json");
    const error = args.text("error");
    return await change(call, `${await jobPath(call)}/resume`, {
      ...(result === undefined ? {} : { result }),
      ...(json === undefined ? {} : { result: parseJsonText(json, "--result-json") }),
      ...(error === undefined ? {} : { error }),
    });
  },
};

async function change(call: Invocation, path: string, body: JsonObject): Promise<void> {
  const sent = await call.client.send({ method: "POST", path, body });
  const job = readJob(sent.body);
  if (call.printer.json) call.printer.document(await changedDocument(call.client, job));
  else call.printer.data(`${job.uuid} ${job.execution}${unconfirmedText(job.raw)}`);
}
