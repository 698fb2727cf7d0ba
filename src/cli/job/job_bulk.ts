// Changes of every job that fits a filter: how many there are, a question, and calls until none is
// left. One call changes a bounded number of jobs, so that a large choice is made in rounds.

import type { Execution } from "../../domain/job/state.ts";
import { parseExecutionFilter } from "../../domain/job/wire.ts";
import type { JsonObject, JsonValue } from "../../domain/json.ts";
import { objectsIn, readObject, readObjects, textIn } from "../kit/answer.ts";
import type { ApiCall } from "../kit/api_call.ts";
import { type Flag, usageError } from "../kit/arguments.ts";
import type { Call } from "../kit/command.ts";
import { confirmed, YES_FLAG } from "../kit/confirm.ts";
import { EXIT, type ExitCode } from "../kit/exit_code.ts";
import {
  FILTER_FLAGS,
  filterOf,
  filterText,
  hiddenParams,
  type JobFilter,
  limitOf,
  noteUnknownWorkflow,
  queryOf,
} from "./job_filter.ts";

/** A change that can be made to many jobs at once. */
export interface BulkChange {
  readonly verb: "cancel" | "retry";
  /** Key of the answer under which the changed jobs are. */
  readonly done: "canceled" | "retried";
  /** Executions of the jobs that it touches. */
  readonly touches: readonly Execution[];
  /** Whether it touches a job of a list, where the execution alone does not tell. */
  fits?(job: JsonObject): boolean;
  /** The line of one changed job. */
  line(changed: JsonObject): string;
}

/** The flags of every command that can change many jobs. */
export const BULK_FLAGS: readonly Flag[] = [
  ...FILTER_FLAGS,
  { name: "limit", placeholder: "N", help: "at most so many jobs; all that fit when left out" },
  YES_FLAG,
];

/** Flags that choose jobs, which a command for one job does not take. */
const CHOOSING = [...FILTER_FLAGS.map(({ name }) => name), "limit"];

/** Jobs of one call; the agent takes no more. */
const BATCH_MAX = 1000;
/** More calls than the jobs of an agent can need; ends a change of jobs that come ever anew. */
const ROUNDS_MAX = 10_000;
const CALL_DEADLINE_MS = 300_000;

/** Whether many jobs are meant. @throws {AgentError} `invalid_argument` when that is not clear */
export function isBulk({ args }: Call): boolean {
  const [uuid] = args.operands;
  const chosen = CHOOSING.filter((name) => args.has(name));
  if (uuid === undefined && chosen.every((name) => name === "limit")) {
    throw usageError(
      "expected a job, or the flags that choose jobs, such as --execution, --workflow or --target",
    );
  }
  if (uuid !== undefined && chosen.length > 0) {
    throw usageError(`both a job and --${chosen[0]} are given: expected one of them`);
  }
  return uuid === undefined;
}

/** Changes every job that fits the flags. */
export async function changeJobs(call: Call, change: BulkChange): Promise<ExitCode> {
  const { args, client, printer, terminal } = call;
  const filter = filterOf(call);
  const limit = limitOf(args);
  checkExecution(filter, change);
  if (args.has("curl")) {
    await client.send(batchCall(change, filter, limit));
    return EXIT.ok;
  }
  if (!args.has(YES_FLAG.name)) {
    const deed = await deedText(call, change, filter, limit);
    if (deed !== undefined && !await confirmed(call, deed)) {
      printer.note("nothing was changed");
      return EXIT.failure;
    }
    if (deed === undefined) return await show(call, change, filter, NOTHING);
  }
  // What a round makes anew may end and fit before the next one; only older jobs are meant.
  const until = filter.until ?? new Date(terminal.nowMs()).toISOString();
  const report: Report = { changed: [], refused: new Map(), more: false };
  try {
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const left = limit === undefined ? BATCH_MAX : limit - report.changed.length;
      const meant = round === 0 ? filter : { ...filter, until };
      const answer = await client.send(batchCall(change, meant, Math.min(left, BATCH_MAX)));
      if (answer.kind === "printed") break;
      const changed = takeAnswer(readObject(answer.body, "the answer"), change, report);
      // A round that changes nothing would meet the same refusals again.
      if (!report.more || changed === 0 || report.changed.length === limit) break;
    }
  } catch (error) {
    // What earlier rounds have done stays done, and nobody else will tell it.
    if (report.changed.length > 0) await show(call, change, filter, report);
    throw error;
  }
  return await show(call, change, filter, report);
}

/** What all rounds came to. */
interface Report {
  readonly changed: JsonObject[];
  /** By the uuid of the job, since a refused one is met again in the next round. */
  readonly refused: Map<string, JsonObject>;
  /** Whether jobs are left that fit. */
  more: boolean;
}

const NOTHING: Report = { changed: [], refused: new Map(), more: false };

function takeAnswer(answer: JsonObject, { done }: BulkChange, report: Report): number {
  const changed = objectsIn(answer, done);
  report.changed.push(...changed);
  for (const one of objectsIn(answer, "refused")) {
    report.refused.set(textIn(one, "uuid") ?? "", one);
  }
  report.more = answer.more === true;
  return changed.length;
}

function batchCall({ verb }: BulkChange, filter: JobFilter, limit: number | undefined): ApiCall {
  // Texts only: a filter is JSON as it stands.
  const body = { filter: filter as JsonValue, ...(limit === undefined ? {} : { limit }) };
  return {
    method: "POST",
    path: `/agent/v1/jobs/${verb}`,
    body,
    deadlineMs: CALL_DEADLINE_MS,
  };
}

/** @throws {AgentError} `invalid_argument` for jobs that the change never touches */
function checkExecution({ execution }: JobFilter, { verb, touches }: BulkChange): void {
  if (execution === undefined || touches.includes(parseExecutionFilter(execution))) return;
  throw usageError(
    `no job can be ${verb === "cancel" ? "canceled" : "made anew"} that is ` +
      `${JSON.stringify(execution)}: expected --execution ${touches.join(" or ")}`,
  );
}

/** `cancel 12 jobs with execution "queued"`, or undefined when there are none. */
async function deedText(
  { client }: Call,
  change: BulkChange,
  filter: JobFilter,
  limit: number | undefined,
): Promise<string | undefined> {
  const executions = filter.execution === undefined ? change.touches : [filter.execution];
  let exact = hiddenParams(filter).length === 0;
  let count = 0;
  for (const execution of executions) {
    const query = queryOf({ ...filter, execution });
    query.set("limit", String(change.fits === undefined ? 1 : BATCH_MAX));
    const sent = await client.send({ method: "GET", path: `/jobs?${query}` });
    if (sent.kind === "printed") return undefined;
    const total = Number(sent.headers.get("x-count"));
    const jobs = readObjects(sent.body, "the jobs");
    const unfit = change.fits === undefined ? 0 : jobs.filter((job) => !change.fits?.(job)).length;
    count += total - unfit;
    // The jobs that were not looked at may be unfit too.
    exact &&= change.fits === undefined || total <= jobs.length;
  }
  if (count === 0) return undefined;
  const some = Math.min(count, limit ?? count);
  const number = `${exact ? "" : "up to "}${some} job${some === 1 ? "" : "s"}`;
  return `${change.verb} ${number} with ${filterText(filter)}`;
}

async function show(
  call: Call,
  change: BulkChange,
  filter: JobFilter,
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
  const left = more ? ", more are left that fit" : "";
  printer.note(none ? "no job fits" : `${changed.length} ${change.done}${rest}${left}`);
  if (none) await noteUnknownWorkflow(call, filter);
  return refusals.length === 0 ? EXIT.ok : EXIT.conflict;
}
