// Which jobs of a shared store a host runs: those of the workflows and callers that its operator lists. Anyone who
// writes to the database can give a job any name and any caller, so only a digest, which the host itself computes from
// the tasks that it is about to run, holds against that.

import { sha256Hex } from "../digest.ts";
import type { WorkflowUuid } from "../id.ts";
import { canonicalJson, type JsonObject, type JsonValue } from "../json.ts";

/** What a host runs for the hosts that share its store; an empty list allows all. */
export interface Taking {
  /** Names of workflows, each alone or with `@sha256:` and the digest of its tasks. */
  readonly allow_workflow: readonly string[];
  /** Callers, as `ordered_by` of jobs names them. */
  readonly allow_caller: readonly string[];
}

/** The settings behind them, as refusals name them. */
export const TAKING_SETTINGS = {
  allow_workflow: "policy.allow_workflow",
  allow_caller: "policy.allow_caller",
} as const satisfies Record<keyof Taking, string>;

/** The entry that stands for no workflow: beside it only the agent's own are allowed. */
export const BUILTIN_ALONE = "builtin";

/** Who ordered a job that does not say so, as one that was moved from a file. */
const UNKNOWN_CALLER = "unknown";

/** Code of the error of a job that its host does not run, and of the task that did not begin. */
export const NOT_TAKEN = "not_taken";

/** Whether a host runs whatever there is. */
export function takesAll({ allow_workflow, allow_caller }: Taking): boolean {
  return allow_workflow.length === 0 && allow_caller.length === 0;
}

/** Tasks as they were sent, with the uuids that each copy of a workflow may have others of. */
type TaskList = readonly object[];

/** The tasks of a workflow or of a job. */
interface Tasks {
  readonly chain: TaskList;
  readonly onerror: TaskList;
  readonly oncancel?: TaskList;
}

/** `sha256:` and the digest of all tasks but for their uuids. */
export async function tasksDigest({ chain, onerror, oncancel = [] }: Tasks): Promise<string> {
  const plain = (tasks: TaskList) =>
    tasks.map((task) => Object.fromEntries(Object.entries(task).filter(([key]) => key !== "uuid")));
  const lists = { chain: plain(chain), onerror: plain(onerror), oncancel: plain(oncancel) };
  // Tasks are what was parsed from JSON.
  const bytes = new TextEncoder().encode(canonicalJson(lists as JsonValue));
  return `sha256:${await sha256Hex(bytes)}`;
}

/** What an agent knows when it judges a job. */
export interface TakenJobs {
  /** Of its host; it changes with the configuration. */
  readonly taking: Taking;
  /** The workflow of a uuid that is part of the agent itself. */
  own(workflow: WorkflowUuid): Tasks | undefined;
}

/** Who ordered a job, by its `props`. */
function ordererOf({ ordered_by }: JsonObject): string {
  return typeof ordered_by === "string" ? ordered_by : UNKNOWN_CALLER;
}

/** What is judged of a job: its tasks as they would run, and who ordered it. */
interface JudgedJob extends Tasks {
  readonly name: string;
  readonly props: JsonObject;
}

/**
 * Why a host does not run a job, in words that follow its name; undefined when it does.
 * @param own the workflow of the agent itself that the job says to be of, whose tasks are always allowed
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
