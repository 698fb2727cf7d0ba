// The jobs that flags select. `job list` turns the selection into a query, and changes to many jobs send it
// as it is.

import { readObjects, textIn } from "../client/answer.ts";
import { type Arguments, cannot, type Flag, usageError } from "../command/arguments.ts";
import { PAST_FORMS, readParams, typedPast } from "../command/typed_value.ts";
import { announceNamed, workflowBegun } from "../command/named.ts";
import type { Invocation } from "../command/command.ts";
import { parseExecutionFilter } from "../../domain/job/wire.ts";
import { isUuid } from "../../domain/id.ts";
import { nearest } from "../../domain/near_word.ts";

/** A job must match every given key; the words are those of the HTTP interface. */
export interface JobSelection {
  readonly execution?: string;
  readonly workflow_uuid?: string;
  readonly name?: string;
  readonly target?: string;
  /** A host by its uuid or its name. */
  readonly host?: string;
  readonly since?: string;
  readonly until?: string;
  readonly params?: Readonly<Record<string, string>>;
}

/** The flags that form a filter. */
export const FILTER_FLAGS: readonly Flag[] = [
  {
    name: "execution",
    also: "state",
    placeholder: "STATE",
    words: ["queued", "running", "waiting", "succeeded", "failed", "canceled"],
    help: "only queued, running, waiting, succeeded, failed or canceled; also --state",
  },
  { name: "failed", help: "the same as --execution failed" },
  { name: "workflow", placeholder: "WORKFLOW", help: "only jobs of this workflow: name or uuid" },
  { name: "target", placeholder: "TARGET", help: "only jobs with this target" },
  { name: "host", placeholder: "HOST", help: "only jobs that this host runs or has run" },
  {
    name: "since",
    placeholder: "TIME",
    help: `only jobs created since ${PAST_FORMS}`,
  },
  { name: "until", placeholder: "TIME", help: `only jobs created before ${PAST_FORMS}` },
  {
    name: "param",
    short: "p",
    placeholder: "K=V",
    many: true,
    help: "only jobs with this parameter (repeatable)",
  },
];

/**
 * The filter of a command line.
 * @param action what will be done to the jobs, such as `cancel`; not given if they are only shown
 * @throws {AgentError} `invalid_argument`
 */
export async function filterOf(call: Invocation, action?: string): Promise<JobSelection> {
  const { args, terminal } = call;
  if (args.has("failed") && args.has("execution")) {
    throw usageError("--failed and --execution are both given, expected one of them");
  }
  const execution = args.has("failed") ? "failed" : args.text("execution");
  const workflow = args.text("workflow");
  const target = args.text("target");
  const host = args.text("host");
  const since = instantOf(args, "since", terminal.nowMs());
  const until = instantOf(args, "until", terminal.nowMs());
  if (since !== undefined && until !== undefined && since >= until) {
    const found = `--since is ${since} and --until is ${until}`;
    throw cannot(`choose jobs: ${found}, expected --until to be the later one`);
  }
  const params = Object.entries(readParams(args.texts("param"))).map(([name, value]) =>
    [name, typeof value === "string" ? value : JSON.stringify(value)] as const
  );
  return {
    ...(execution === undefined ? {} : { execution }),
    ...(workflow === undefined ? {} : await workflowFilter(call, workflow, action)),
    ...(target === undefined ? {} : { target }),
    ...(host === undefined ? {} : { host }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    ...(params.length === 0 ? {} : { params: Object.fromEntries(params) }),
  };
}

/** Jobs keep the name of their workflow, so those of a deleted one are found by name too. */
async function workflowFilter(
  call: Invocation,
  word: string,
  action: string | undefined,
): Promise<JobSelection> {
  const folded = word.toLowerCase();
  if (isUuid(folded)) return { workflow_uuid: folded };
  const begun = await workflowBegun(call, word);
  if (begun === undefined) return { name: word };
  if (action !== undefined) announceNamed(call, "workflow", `${action} jobs of`, begun);
  return { workflow_uuid: begun.uuid };
}

function instantOf(args: Arguments, flag: string, nowMs: number): string | undefined {
  const text = args.text(flag);
  return text === undefined ? undefined : typedPast(text, `--${flag}`, nowMs);
}

/** Keys of the list that are not params of that name. */
const LIST_KEYS: readonly string[] = [
  "execution",
  "limit",
  "offset",
  "since",
  "until",
  "target",
  "name",
  "workflow_uuid",
  "host",
];

/** Names of params by which the list cannot filter, since its own keys have these names. */
export function hiddenParams({ params = {} }: JobSelection): string[] {
  return Object.keys(params).filter((name) => LIST_KEYS.includes(name));
}

/** The query of GET /jobs; params that it cannot express are left out, see hiddenParams(). */
export function queryOf({ params = {}, ...filter }: JobSelection): URLSearchParams {
  const listed = Object.entries(params).filter(([name]) => !LIST_KEYS.includes(name));
  return new URLSearchParams({ ...Object.fromEntries(listed), ...filter });
}

/**
 * The query of GET /agent/v1/jobs, which takes several executions with commas between them.
 * @throws {AgentError} `invalid_argument` for a word that is not an execution
 */
export function summaryQuery({ params, execution, ...filter }: JobSelection): URLSearchParams {
  const states = execution?.split(",").map(parseExecutionFilter);
  return new URLSearchParams({
    ...filter,
    ...(states === undefined ? {} : { state: states.join(",") }),
    ...(params === undefined ? {} : { params: JSON.stringify(params) }),
  });
}

/** A filter for people: `execution failed, param vm_uuid=…`. */
export function filterText({ params = {}, ...filter }: JobSelection): string {
  return [
    ...Object.entries(filter).map(([name, value]) => `${name} ${JSON.stringify(value)}`),
    ...Object.entries(params).map(([name, value]) => `param ${name}=${JSON.stringify(value)}`),
  ].join(", ");
}

/**
 * If no job matches because no workflow has the typed name, says so.
 * @returns whether that is so
 * @throws {AgentError} when the agent does not list its workflows
 */
export async function noteUnknownWorkflow(
  call: Invocation,
  { name }: JobSelection,
): Promise<boolean> {
  if (name === undefined) return false;
  const all = readObjects(await call.client.get("/workflows?builtin=true"), "the workflows");
  const names = all.flatMap((workflow) => textIn(workflow, "name") ?? []);
  if (names.includes(name)) return false;
  call.printer.note(`no workflow has the name ${JSON.stringify(name)}${nearest(name, names)}`);
  return true;
}

/** The integer after `--limit`. @throws {AgentError} `invalid_argument` */
export function limitOf(args: Arguments): number | undefined {
  const text = args.text("limit");
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    throw cannot(`use --limit ${JSON.stringify(text)}, expected a number from 1 on, such as 100`);
  }
  return Number(text);
}
