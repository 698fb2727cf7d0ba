// Workflows and tasks: the fields of document 2 and their parser, which names every incorrect field by its path.
// Unknown keys are stored and returned as sent. A task gets only a uuid, so that clients can compare what they read
// with what they sent.

import {
  always,
  COUNT,
  listOf as shapeListOf,
  objectOf,
  type Shape,
  type ShapeOf,
  shapeRef,
  TEXT,
  UUID,
  WHOLE_SECONDS,
} from "../description/answer.ts";
import { accepted, type Description, openFindings } from "../description/description.ts";
import { type Fields, object } from "../description/object.ts";
import {
  about,
  anyText,
  anything,
  integer,
  listOf,
  named,
  oneOf,
  refused,
  wholeText,
} from "../description/value.ts";
import { isUuid, type NewUuid, type TaskUuid, type WorkflowUuid } from "../id.ts";
import type { Instant } from "../instant.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../json.ts";

/** A task in answers; requests are checked by workflowRequest(). @see document 2, Task */
export const TASK = objectOf("A task as it was sent, with its uuid.", ["uuid", "body"], {
  uuid: UUID as Shape<TaskUuid>,
  name: TEXT,
  /** Source of a function of `job` and `cb`. */
  body: TEXT,
  /** Source of a function of `err`, `job` and `cb`; called after the last attempt of the body has failed. */
  fallback: TEXT,
  /** Further executions after the first one has failed. */
  retry: COUNT,
  /** Seconds for one execution of body or fallback. */
  timeout: WHOLE_SECONDS,
  /** Seconds between a failed execution and the next; an extension. */
  retry_delay: COUNT,
}, "open");

/** One task as sent, plus its uuid. @see document 2, Task */
export interface Task extends ShapeOf<typeof TASK> {
  readonly [key: string]: unknown;
}

/** The name of a task in results, logs and events; its uuid when it has none. */
export function taskName({ name, uuid }: Pick<Task, "name" | "uuid">): string {
  return name ?? uuid;
}

/** `placement` of a workflow whose jobs any host may run. */
export const ANY_HOST = "any";

const TASKS = shapeListOf(shapeRef<Task>("Task", TASK));

/** What answers show of a workflow. */
export const WORKFLOW_FIELDS = {
  uuid: UUID as Shape<WorkflowUuid>,
  name: TEXT,
  chain: TASKS,
  onerror: TASKS,
  /** Tasks that run after a cancel. */
  oncancel: TASKS,
  /** Seconds for the execution of the chain. */
  timeout: WHOLE_SECONDS,
  /** Whether any host may run its jobs; an extension. */
  placement: always(ANY_HOST),
  /** Names of fields whose values only administrators may see; an extension. */
  secret_params: shapeListOf(TEXT),
};

/** A workflow in answers, with the further keys of its author. @see document 2, Workflow */
export const WORKFLOW = objectOf(
  "A named chain of tasks.",
  ["uuid", "name", "chain", "onerror"],
  WORKFLOW_FIELDS,
  "open",
);

/** A named chain of tasks with its fallback chain. @see document 2, Workflow */
export interface Workflow extends ShapeOf<typeof WORKFLOW> {
  readonly [key: string]: unknown;
}

/** A workflow with what the store records about it. */
export interface StoredWorkflow {
  readonly workflow: Workflow;
  /** Whether it is part of the agent: it can be read and run, but not changed or deleted. */
  readonly builtin: boolean;
  readonly created_at: Instant;
}

/** Limits of one workflow; the configuration may set others. */
export interface WorkflowLimits {
  /** Most tasks in one chain. */
  readonly tasksMax: number;
  /** Characters of one body or fallback. */
  readonly sourceCharsMax: number;
  /** Largest `retry` of a task. */
  readonly retryMax: number;
  /** Largest `timeout`, seconds. */
  readonly timeoutSecondsMax: number;
}

/** Seconds that a chain may run when its workflow names no `timeout`. */
export const DEFAULT_TIMEOUT_SECONDS = 3600;

const NAME_CHARS_MAX = 255;
/** Most names in `secret_params`. */
const SECRET_PARAMS_MAX = 64;

/**
 * Why each source is not the definition of one function, in words that follow the name of its field; undefined for a
 * valid one.
 * @throws {AgentError} `invalid_argument` when they take too much to parse; `aborted`, `overloaded`
 */
export type CheckSources = (
  sources: readonly string[],
  signal: AbortSignal,
) => Promise<readonly (string | undefined)[]>;

/** A workflow whose fields were checked, but not its sources: only a decoder parses those. */
interface ReadWorkflow {
  /** Each body and fallback that is a text within the limit, in the order of their fields. */
  readonly sources: readonly string[];
  /**
   * The workflow as sent, with `uuid`, and a uuid in every task.
   * @param problems the answer of CheckSources about `sources`; empty for sources known to be valid
   * @throws {AgentError} `invalid_argument` naming every incorrect field
   */
  accept(problems: readonly (string | undefined)[]): Workflow;
}

const TASK_TEXTS = ["body", "fallback"] as const;

/** The described value, or null. */
function orNull<T>(description: Description<T>): Description<T | null> {
  return {
    ...description,
    read: (value, field, findings) =>
      value === null ? null : description.read(value, field, findings),
    schema: (components) => ({ anyOf: [description.schema(components), { type: "null" }] }),
  };
}

/** A non-empty text; an empty one counts as missing. */
function given(description: Description<string>): Description<string> {
  return {
    ...description,
    read(value, field, findings) {
      if (value !== "") return description.read(value, field, findings);
      findings.add(field, "Missing", `must be ${description.words}, found ""`);
      return undefined;
    },
    schema: (components) => ({ ...description.schema(components), minLength: 1 }),
  };
}

/** A task as sent. Further keys are kept, unless they look misspelt. */
function taskRequest(limits: WorkflowLimits): Description<JsonObject> {
  const { sourceCharsMax, retryMax, timeoutSecondsMax } = limits;
  return object({
    uuid: about("Kept if it is a uuid; otherwise the agent chooses one.", anything),
    name: anyText(),
    body: about(
      "A JavaScript function of `job` and `cb`. `cb()` and `cb(null, result)` succeed, " +
        "`cb(error)` fails; `cb('wait')` makes the job wait, `cb('queue')` returns it to the " +
        "queue.",
      given(anyText(sourceCharsMax)),
    ),
    fallback: about(
      "A JavaScript function of `err`, `job` and `cb`, called after the body has failed for " +
        "good.",
      anyText(sourceCharsMax),
    ),
    retry: about(
      "Further runs of a failed body before `fallback` or failure; with `compat = " +
        '"node-workflow"` the first run counts too.',
      integer(0, retryMax),
      { default: 0 },
    ),
    timeout: about("Seconds for one run of `body` or `fallback`.", integer(1, timeoutSecondsMax)),
    retry_delay: about("Seconds between a failed run and the next.", integer(0, timeoutSecondsMax)),
    modules: refused("is refused: a task body has no modules, see docs/tasks.md"),
  } as Fields, { required: ["body"], others: "distinct" });
}

/**
 * The body of POST and PUT /workflows, without a check of its sources. Further keys are kept, unless they look
 * misspelt.
 */
export function workflowRequest(limits: WorkflowLimits) {
  const chain = orNull(listOf(named("TaskRequest", taskRequest(limits)), limits.tasksMax, "tasks"));
  const name = wholeText(NAME_CHARS_MAX);
  return object({
    name,
    chain,
    onerror: about("Tasks that run when the chain has failed.", chain),
    oncancel: about("Tasks that run when a job is canceled after it has started.", chain),
    // Document 2 writes the lists as `chain[]`.
    "chain[]": about("Another name of `chain`.", chain),
    "onerror[]": about("Another name of `onerror`.", chain),
    timeout: about(
      `Seconds for the chain, ${DEFAULT_TIMEOUT_SECONDS} by default. Time spent queued or waiting does not ` +
        "count.",
      integer(1, limits.timeoutSecondsMax),
    ),
    placement: about(
      "Whether any host of a shared store may run its jobs. Their tasks cannot call `vmadm`, `media`, " +
        "`images` and `vnc`. Without it a job runs on one host.",
      oneOf([ANY_HOST]),
    ),
    secret_params: about(
      "Names of further secret fields of jobs, results and info; only administrators see " +
        "their values.",
      listOf(name, SECRET_PARAMS_MAX, "names"),
    ),
    max_attempts: about(
      "Jobs that `cb('retry')` may create in all, including the first; 10 by default.",
      anything,
    ),
    initial_delay: about(
      "Milliseconds before the first job that `cb('retry')` creates; it doubles for each " +
        "further one.",
      anything,
    ),
    max_delay: about("Maximum milliseconds before such a job.", anything),
  }, { required: ["name"], others: "distinct" });
}

/** Reads the body of POST or PUT /workflows, except its sources. @see document 2, Endpoints */
export function readWorkflow(
  body: unknown,
  uuid: WorkflowUuid,
  newUuid: NewUuid,
  limits: WorkflowLimits,
): ReadWorkflow {
  const findings = openFindings();
  const read = workflowRequest(limits).read(body, "", findings);
  const sources = sourcesOf(body, limits);
  return {
    sources: sources.map(({ source }) => source),
    accept(problems) {
      for (const [index, { field }] of sources.entries()) {
        const problem = problems[index];
        if (problem !== undefined) findings.add(field, "Invalid", problem);
      }
      const workflow = accepted(read, findings, "workflow");
      // GET adds `wf_uuid`. A client that sends back what it read must not make it part of the workflow.
      const { wf_uuid: _, "chain[]": chainList, "onerror[]": onerrorList, ...sent } = workflow as
        & typeof workflow
        & { wf_uuid?: unknown };
      const tasks = (list: readonly (JsonObject | null)[] | null | undefined): Task[] =>
        (list ?? []).flatMap((task) => task === null ? [] : [withUuid(task, newUuid)]);
      return {
        ...sent,
        uuid,
        chain: tasks(sent.chain ?? chainList),
        onerror: tasks(sent.onerror ?? onerrorList),
        ...(sent.oncancel === undefined ? {} : { oncancel: tasks(sent.oncancel) }),
      } as Workflow; // Its fields were read by their descriptions.
    },
  };
}

/** Keeps the uuid that was sent, so that a workflow that is read and written back does not change. */
function withUuid(task: JsonObject, newUuid: NewUuid): Task {
  const uuid = isUuid(task.uuid) ? (task.uuid as TaskUuid) : newUuid<TaskUuid>();
  // The description requires the body to be a text.
  return { ...task, uuid, body: task.body as string };
}

/** The bodies and fallbacks of a workflow that are texts within their limit. */
function sourcesOf(
  body: unknown,
  { tasksMax, sourceCharsMax }: WorkflowLimits,
): { readonly field: string; readonly source: string }[] {
  if (!isJsonObject(body)) return [];
  const lists: [field: string, list: JsonValue | undefined][] = [
    body.chain === undefined || body.chain === null
      ? ["chain[]", body["chain[]"]]
      : ["chain", body.chain],
    body.onerror === undefined || body.onerror === null
      ? ["onerror[]", body["onerror[]"]]
      : ["onerror", body.onerror],
    ["oncancel", body.oncancel],
  ];
  return lists.flatMap(([field, list]) =>
    !Array.isArray(list) || list.length > tasksMax
      ? []
      : list.flatMap((task, index) =>
        TASK_TEXTS.flatMap((name) => {
          const source = isJsonObject(task) ? task[name] : undefined;
          if (
            typeof source !== "string" || source === "" || source.length > sourceCharsMax
          ) return [];
          return [{ field: `${field}[${index}].${name}`, source }];
        })
      )
  );
}
