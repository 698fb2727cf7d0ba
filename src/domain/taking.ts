// Which jobs of a shared store a host accepts: those of the workflows and callers that its operator lists. Anyone who
// can write to the database can give a job any name and any caller. Only a digest, which the host computes from the
// tasks it is about to run, is safe against that.

import { sha256Hex } from "./digest.ts";
import type { WorkflowUuid } from "./id.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "./json.ts";

/** What a host accepts from a shared store; an empty list accepts everything. */
export interface Taking {
  /** Names of workflows, alone or with `@sha256:` and the digest of their tasks. */
  readonly allow_workflow: readonly string[];
  /** Callers, as `ordered_by` of jobs names them. */
  readonly allow_caller: readonly string[];
}

/** The settings of these lists, as refusals name them. */
export const TAKING_SETTINGS = {
  allow_workflow: "policy.allow_workflow",
  allow_caller: "policy.allow_caller",
} as const satisfies Record<keyof Taking, string>;

/** An entry that matches no workflow: with it alone, only the agent's own workflows are accepted. */
export const BUILTIN_ALONE = "builtin";

/** The caller of a job that records none, such as one moved from a file. */
const UNKNOWN_CALLER = "unknown";

/** Error code of a job that its host refuses, and of the task that it would have started with. */
export const NOT_TAKEN = "not_taken";

/** Whether a host accepts every job. */
export function takesAll({ allow_workflow, allow_caller }: Taking): boolean {
  return allow_workflow.length === 0 && allow_caller.length === 0;
}

/** Tasks as they were sent; their uuids differ between copies of a workflow. */
type TaskList = readonly object[];

/** The tasks of a workflow or of a job. */
interface Tasks {
  readonly chain: TaskList;
  readonly onerror: TaskList;
  readonly oncancel?: TaskList;
}

/** `sha256:` and the digest of all tasks without their uuids. */
export async function tasksDigest({ chain, onerror, oncancel = [] }: Tasks): Promise<string> {
  const plain = (tasks: TaskList) =>
    tasks.map((task) => Object.fromEntries(Object.entries(task).filter(([key]) => key !== "uuid")));
  const lists = { chain: plain(chain), onerror: plain(onerror), oncancel: plain(oncancel) };
  // Tasks were parsed from JSON.
  const bytes = new TextEncoder().encode(canonicalJson(lists as JsonValue));
  return `sha256:${await sha256Hex(bytes)}`;
}

/** What an agent needs to judge a job. */
export interface TakenJobs {
  /** The lists of its host; they change with the configuration. */
  readonly taking: Taking;
  /** The agent's own workflow with this uuid, if there is one. */
  own(workflow: WorkflowUuid): Tasks | undefined;
}

/** Who ordered a job, from its `props`. */
function ordererOf({ ordered_by }: JsonObject): string {
  return typeof ordered_by === "string" ? ordered_by : UNKNOWN_CALLER;
}

/** The parts of a job that are judged: its tasks as they would run, its name, and who ordered it. */
interface JudgedJob extends Tasks {
  readonly name: string;
  readonly props: JsonObject;
}

/**
 * Why a host refuses a job, in words that follow the host's name; undefined when it accepts it.
 * @param own the agent's own workflow that the job claims to be of; its tasks are always accepted
 */
export async function refusalOf(
  { allow_workflow, allow_caller }: Taking,
  job: JudgedJob,
  own: Tasks | undefined,
): Promise<string | undefined> {
  const caller = ordererOf(job.props);
  if (allow_caller.length > 0 && !allow_caller.includes(caller)) {
    return `runs no job that ${JSON.stringify(caller)} has ordered: ` +
      `${TAKING_SETTINGS.allow_caller} lists ${allow_caller.join(", ")}`;
  }
  if (allow_workflow.length === 0) return undefined;
  const listed = (entry: string) => entry !== BUILTIN_ALONE && allow_workflow.includes(entry);
  if (listed(job.name)) return undefined;
  const digest = await tasksDigest(job);
  if (listed(`${job.name}@${digest}`)) return undefined;
  if (own !== undefined && await tasksDigest(own) === digest) return undefined;
  return `runs no workflow ${JSON.stringify(job.name)} with the tasks ${digest}: ` +
    `${TAKING_SETTINGS.allow_workflow} does not list it`;
}
