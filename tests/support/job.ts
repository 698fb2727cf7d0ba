// Workflows and jobs for tests.

import type {
  JobUuid,
  MachineUuid,
  RunnerId,
  TaskUuid,
  WorkflowUuid,
} from "../../src/domain/id.ts";
import type { Job, NewJob, TaskResult } from "../../src/domain/job/job.ts";
import type { JsonObject } from "../../src/domain/json.ts";
import type { Task, Workflow } from "../../src/domain/job/workflow.ts";

export const T0 = "2026-01-01T12:00:00.000Z";

/** A uuid that ends in a number, so that a failing test shows which one it was. */
export function uuidOf<T extends JobUuid | WorkflowUuid | TaskUuid | MachineUuid>(
  number: number,
): T {
  // The text has the form of a uuid, which is what the brand stands for.
  return `00000000-0000-4000-8000-${String(number).padStart(12, "0")}` as T;
}

export const RUNNER = "11111111-0000-4000-8000-000000000001" as RunnerId;
export const OTHER_RUNNER = "11111111-0000-4000-8000-000000000002" as RunnerId;

export function taskOf(name: string, body = "function (job, cb) { cb(); }"): Task {
  return { uuid: uuidOf<TaskUuid>(900), name, body };
}

export function workflowOf(
  fields: Partial<Pick<Workflow, "uuid" | "name" | "chain" | "onerror" | "oncancel" | "timeout">> =
    {},
): Workflow {
  return {
    uuid: uuidOf<WorkflowUuid>(1),
    name: "sample",
    chain: [taskOf("first"), taskOf("second")],
    onerror: [],
    ...fields,
  };
}

export function jobOf(
  number: number,
  fields: Partial<NewJob> & { params?: JsonObject } = {},
): NewJob {
  return {
    uuid: uuidOf<JobUuid>(number),
    workflow: workflowOf(),
    target: null,
    params: {},
    ...fields,
  };
}

export function resultOf(name: string, fields: Partial<TaskResult> = {}): TaskResult {
  return { result: "OK", error: "", name, started_at: T0, finished_at: T0, attempts: 1, ...fields };
}

/** A job as the store keeps it; queued unless said otherwise. */
export function storedJob(fields: Partial<Job> = {}): Job {
  const { workflow, ...job } = jobOf(5);
  return {
    uuid: job.uuid,
    workflow_uuid: workflow.uuid,
    name: workflow.name,
    execution: "queued",
    phase: "chain",
    chain: workflow.chain,
    onerror: [],
    oncancel: [],
    timeout: 3600,
    exec_after: T0,
    claimable_at: null,
    target: null,
    locks: null,
    callback_url: null,
    machine_uuid: null,
    host: null,
    params: {},
    requested_params: fields.params ?? {},
    props: {},
    chain_results: [],
    onerror_results: [],
    oncancel_results: [],
    created_at: T0,
    started_at: null,
    finished_at: null,
    elapsed_ms: 0,
    phases_ms: 0,
    elapsed_at: null,
    failures: 0,
    retry_at: null,
    runner_id: null,
    lease: 0,
    starts: 0,
    ...fields,
  };
}
