// `zonewright job list`.

import type { JsonObject, JsonValue } from "../../domain/json.ts";
import { readObjects, textIn } from "../client/api_call.ts";
import { type Arguments, cannot, type Flag, usageError } from "../command/arguments.ts";
import { type Command, EXIT, type Invocation } from "../command/command.ts";
import { PAST_FORMS, typedPast } from "../command/typed_time.ts";
import { ageText, aheadText, parseJsonText } from "../output/printer.ts";
import { isUuid } from "../../domain/id.ts";
import { nearest } from "../../domain/field_check.ts";

// Which jobs are meant, as flags say it. `job list` makes a query of it, and the changes of many jobs
// send it as it is.

/** A job must fit every key that is there; the words are those of the HTTP interface. */
export interface JobSelection {
  readonly execution?: string;
  readonly workflow_uuid?: string;
  /** Name of the job's workflow. */
  readonly name?: string;
  readonly target?: string;
  readonly since?: string;
  readonly until?: string;
  readonly params?: Readonly<Record<string, string>>;
}

/** The flags that make a filter. */
export const FILTER_FLAGS: readonly Flag[] = [
  {
    name: "execution",
    also: "state",
    placeholder: "STATE",
    words: ["queued", "running", "waiting", "succeeded", "failed", "canceled"],
    help: "only queued, running, waiting, succeeded, failed or canceled; also --state",
  },
  { name: "workflow", placeholder: "WORKFLOW", help: "only jobs of this workflow: name or uuid" },
  { name: "target", placeholder: "TARGET", help: "only jobs with this target" },
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

/** The filter of a command line. @throws {AgentError} `invalid_argument` */
export function filterOf({ args, terminal }: Invocation): JobSelection {
  const execution = args.text("execution");
  const workflow = args.text("workflow");
  const target = args.text("target");
  const since = instantOf(args, "since", terminal.nowMs());
  const until = instantOf(args, "until", terminal.nowMs());
  const params = Object.entries(readParams(args.texts("param"))).map(([name, value]) =>
    [name, typeof value === "string" ? value : JSON.stringify(value)] as const
  );
  return {
    ...(execution === undefined ? {} : { execution }),
    ...(workflow === undefined ? {} : workflowFilter(workflow)),
    ...(target === undefined ? {} : { target }),
    ...(since === undefined ? {} : { since }),
    ...(until === undefined ? {} : { until }),
    ...(params.length === 0 ? {} : { params: Object.fromEntries(params) }),
  };
}

/** Jobs keep the name of their workflow, so that those of a deleted one are found by it too. */
function workflowFilter(word: string): JobSelection {
  const folded = word.toLowerCase();
  return isUuid(folded) ? { workflow_uuid: folded } : { name: word };
}

function instantOf(args: Arguments, flag: string, nowMs: number): string | undefined {
  const text = args.text(flag);
  return text === undefined ? undefined : typedPast(text, `--${flag}`, nowMs);
}

/** Keys of the list that mean something else than a param of that name. */
const LIST_KEYS: readonly string[] = [
  "execution",
  "limit",
  "offset",
  "since",
  "until",
  "target",
  "name",
  "workflow_uuid",
];

/** Names of params by which the list of jobs cannot filter, since its own keys have these names. */
export function hiddenParams({ params = {} }: JobSelection): string[] {
  return Object.keys(params).filter((name) => LIST_KEYS.includes(name));
}

/** The query of GET /jobs; params that it cannot tell are left out, see hiddenParams(). */
export function queryOf({ params = {}, ...filter }: JobSelection): URLSearchParams {
  const listed = Object.entries(params).filter(([name]) => !LIST_KEYS.includes(name));
  return new URLSearchParams({ ...Object.fromEntries(listed), ...filter });
}

/** A filter as a person reads it: `execution failed, param vm_uuid=…`. */
export function filterText({ params = {}, ...filter }: JobSelection): string {
  return [
    ...Object.entries(filter).map(([name, value]) => `${name} ${JSON.stringify(value)}`),
    ...Object.entries(params).map(([name, value]) => `param ${name}=${JSON.stringify(value)}`),
  ].join(", ");
}

/** Where no job matches: says so when it is because no workflow has the name that was typed. */
export async function noteUnknownWorkflow(call: Invocation, { name }: JobSelection): Promise<void> {
  if (name === undefined) return;
  const all = readObjects(await call.client.get("/workflows?builtin=true"), "the workflows");
  const names = all.flatMap((workflow) => textIn(workflow, "name") ?? []);
  if (names.includes(name)) return;
  call.printer.note(`no workflow has the name ${JSON.stringify(name)}${nearest(name, names)}`);
}

/** An integer that a flag names. @throws {AgentError} `invalid_argument` */
export function limitOf(args: Arguments): number | undefined {
  const text = args.text("limit");
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,8}$/.test(text)) {
    throw cannot(`use --limit ${JSON.stringify(text)}: expected a number such as 100`);
  }
  return Number(text);
}

// Params of jobs as they are typed: `k=v` is a text, `k:=v` is JSON.

/**
 * The params that several `--param` name.
 * @throws {AgentError} `invalid_argument` for a text of another form, and for a name given twice
 */
export function readParams(texts: readonly string[]): Record<string, JsonValue> {
  const params = new Map<string, JsonValue>();
  for (const text of texts) {
    const match = /^([^=:]+)(:?=)(.*)$/s.exec(text);
    const [, name = "", sign, value = ""] = match ?? [];
    if (match === null) {
      throw cannot(`use --param ${JSON.stringify(text)}: expected K=V, or K:=JSON`);
    }
    if (params.has(name)) throw usageError(`--param ${name} is given twice`);
    params.set(name, sign === ":=" ? parseJsonText(value, `--param ${name}`) : value);
  }
  return Object.fromEntries(params);
}

const LIST_LIMIT = 100;

/** `zonewright job list`. */
export const LIST: Command = {
  summary: "list jobs, newest first",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["job list", "the newest jobs"],
    [
      "job list --execution failed --since 1d --json",
      "failures of the last day, for scripts",
    ],
    ['job list --param vm_uuid="$UUID" --limit 5', "the last five about one machine"],
  ],
  flags: [
    ...FILTER_FLAGS,
    { name: "limit", placeholder: "N", help: `at most this many [${LIST_LIMIT}]` },
  ],
  notes: [
    "WAITS says why a job does not run: slot (all are in use), resume (a task waits for an answer), or\n" +
    "the time until it is due.",
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer, terminal } = call;
    const filter = filterOf(call);
    const [hidden] = hiddenParams(filter);
    if (hidden !== undefined) {
      throw cannot(
        `filter by --param ${hidden}: ${JSON.stringify(hidden)} is a key of the list itself`,
      );
    }
    const query = queryOf(filter);
    query.set("limit", String(limitOf(args) ?? LIST_LIMIT));
    const sent = await client.send({ method: "GET", path: `/jobs?${query}` });
    if (sent.kind === "printed") return EXIT.ok;
    const jobs = readObjects(sent.body, "the jobs");
    if (printer.json) printer.document(jobs);
    else showTable(call, jobs, terminal.nowMs());
    const more = Number(sent.headers.get("x-count")) - jobs.length;
    if (more > 0) printer.note(`${more} older jobs are not shown; see --limit`);
    if (jobs.length === 0) await noteUnknownWorkflow(call, filter);
    return EXIT.ok;
  },
};

function showTable({ printer }: Invocation, jobs: readonly JsonObject[], nowMs: number): void {
  printer.table(
    [
      { head: "UUID" },
      { head: "NAME", flexible: true },
      { head: "STATE" },
      { head: "WAITS" },
      { head: "TARGET", flexible: true },
      { head: "AGE", right: true },
    ],
    jobs.map((job) => [
      textIn(job, "uuid") ?? "",
      textIn(job, "name") ?? "",
      textIn(job, "execution") ?? "",
      waitWord(job, nowMs),
      textIn(job, "target") ?? "-",
      ageText(textIn(job, "created_at"), nowMs),
    ]),
  );
}

/** What a job waits for in one word; a reason that is not known is shown as it came. */
function waitWord(job: JsonObject, nowMs: number): string {
  const next_run_at = textIn(job, "next_run_at");
  if (next_run_at !== undefined) return `in ${aheadText(next_run_at, nowMs)}`;
  return textIn(job, "reason")?.replace("waiting_for_", "") ?? "-";
}
