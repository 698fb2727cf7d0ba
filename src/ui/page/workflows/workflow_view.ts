// Workflows as the agent has them. They cause no events, so a page reads them when it is opened, when the stream
// returns, and when the user returns to the tab.

import { signal } from "@preact/signals";
import { type Call, read, send, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Answers, Schemas } from "../../client/schema.ts";

/** A named chain of tasks. */
export type Workflow = Schemas["Workflow"];

/** The command that creates a workflow. */
export const CREATE_WORDS = ["workflow", "create", "-f", "workflow.json"] as const;

/** The workflows of a list. @param builtin whether to include those of the agent itself */
export function openWorkflowList(builtin: boolean) {
  const workflows = signal<readonly Workflow[] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  const load = async () => {
    try {
      const found = await read("GET /workflows", `/workflows?builtin=${builtin}`, closing.signal);
      workflows.value = found.toSorted((a, b) => a.name.localeCompare(b.name, "en"));
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const again = () => void load();
  const stop = follow("kind=host", { load: again });
  addEventListener("focus", again);
  return {
    workflows,
    error,
    close: () => {
      stop();
      removeEventListener("focus", again);
      closing.abort();
    },
  };
}

/** Newest jobs whose params suggest the fields of the form. */
const JOBS_READ = 20;

/** A workflow, with the params that its jobs had. */
export function openWorkflow(uuid: string) {
  const workflow = signal<Workflow | undefined>(undefined);
  const jobs = signal<readonly Schemas["JobSummary"][] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  const load = async () => {
    try {
      const query = `workflow_uuid=${uuid}&limit=${JOBS_READ}`;
      const [found, page] = await Promise.all([
        read("GET /workflows/{wf_uuid}", `/workflows/${uuid}`, closing.signal),
        read("GET /agent/v1/jobs", `/agent/v1/jobs?${query}`, closing.signal),
      ]);
      jobs.value = page.jobs;
      workflow.value = found;
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const stop = follow("kind=job", {
    load: () => void load(),
    job: ({ job }) => {
      if (job?.workflow_uuid !== uuid || jobs.value === undefined) return;
      const known = jobs.value.some((one) => one.uuid === job.uuid);
      jobs.value = known
        ? jobs.value.map((one) => one.uuid === job.uuid ? job : one)
        : [job, ...jobs.value].slice(0, JOBS_READ);
    },
  });
  return {
    workflow,
    jobs,
    error,
    close: () => {
      stop();
      closing.abort();
    },
  };
}

/** A param of a form: its name, and the value of the newest job that had it. */
export interface ParamField {
  readonly name: string;
  readonly value: unknown;
}

/** What summaries show instead of a secret. */
const MASK = "***";

/** The params of a workflow's jobs, those of the newest job first. Secrets must be typed again. */
export function paramFieldsOf(jobs: readonly Schemas["JobSummary"][]): readonly ParamField[] {
  const fields = new Map<string, unknown>();
  for (const { params } of jobs) {
    for (const [name, value] of Object.entries(params ?? {})) {
      if (!fields.has(name)) fields.set(name, value === MASK ? "" : value);
    }
  }
  return [...fields].map(([name, value]) => ({ name, value }));
}

/** The call that asks the agent whether it would accept a workflow. */
export function validateCallOf(body: unknown): Call {
  return { method: "POST", path: "/agent/v1/workflows/validate", body };
}

/** Asks the agent whether it would accept a workflow. @throws {CallError} with every incorrect field */
export async function validate(
  body: unknown,
): Promise<Answers["POST /agent/v1/workflows/validate"]> {
  // The agent's description guarantees the type.
  return await send(validateCallOf(body)) as Answers["POST /agent/v1/workflows/validate"];
}
