// The schemas of machines and of jobs in responses, the machine and the job of the examples, and the views of jobs.

import { type ShapeOf, shapeRef } from "../../domain/description/answer.ts";
import type { Instant } from "../../domain/instant.ts";
import { FAILED_ATTEMPT, TASK_RESULT } from "../../domain/job/job.ts";
import { SUMMARY, SUMMARY_TASK } from "../../domain/job/summary.ts";
import { LOG_LINE } from "../../domain/job/log_line.ts";
import { EXECUTION, JOB as JOB_SHAPE } from "../../domain/job/wire.ts";
import type { JsonObject } from "../../domain/json.ts";
import {
  COUNT_QUERY_FIELDS,
  JOB_COUNTS,
  JOB_READ,
  LOG_PAGE,
  LOG_QUERY_FIELDS,
  SUMMARY_PAGE,
  SUMMARY_QUERY_FIELDS,
} from "../routes/jobs/view.ts";
import { refusals } from "./errors.ts";
import { HOST_UUID } from "./hosts.ts";
import { jsonAnswer, type OpenapiPart, parameterRef, queryParameters } from "./operation.ts";
import { CHAIN, ONERROR, WORKFLOW_UUID } from "./workflows.ts";
import { DRY_RUN } from "../../machines/dry_run.ts";
import { MACHINE, MACHINE_DISK, MACHINE_NIC, MACHINE_STARTED } from "../../domain/machine/shown.ts";
import { CONSOLE } from "../routes/machines/console.ts";
import { CONSOLE_TICKET } from "../routes/machines/console_ticket.ts";
import { MACHINE_READ, VNC_ADDRESS, VNC_INFO } from "../routes/machines/machines.ts";

/** The machine of the examples. */
export const MACHINE_UUID = "0f5c9a2e-6d1b-4c3a-9e8f-1a2b3c4d5e6f";
/** The job that made it. */
export const MACHINE_JOB = "b7f6a3a0-3c0e-4e59-8f6e-54a9c3e0d7f2";

/** A stopped machine in the examples. */
export const STOPPED_UUID = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";

/** A description that fits the default policy. @see document 3 */
export const DESCRIPTION: JsonObject = {
  brand: "kvm",
  alias: "web1",
  vcpus: 1,
  ram: 1024,
  autoboot: false,
  resolvers: ["192.0.2.53", "198.51.100.53"],
  disks: [{ boot: true, model: "virtio", size: 40_960 }],
  nics: [{
    nic_tag: "admin",
    model: "virtio",
    ip: "192.0.2.69",
    netmask: "255.255.255.0",
    gateway: "192.0.2.2",
    primary: 1,
  }],
};

/** The response to POST /agent/v1/machines. */
export const STARTED: ShapeOf<typeof MACHINE_STARTED> = {
  uuid: MACHINE_UUID,
  job_uuid: MACHINE_JOB,
};

/** A machine as lists show it. */
export const LISTED_MACHINE: ShapeOf<typeof MACHINE> = {
  uuid: MACHINE_UUID,
  host: "gz-7.example.com",
  host_uuid: HOST_UUID,
  age_seconds: 12,
  alias: "web1",
  brand: "kvm",
  state: "running",
  zone_state: "running",
  ram: 1024,
  vcpus: 1,
  created_at: "2026-11-20T12:00:04.000Z",
  owner_uuid: "00000000-0000-0000-0000-000000000000",
  disks: [{
    path: `/dev/zvol/rdsk/zones/${MACHINE_UUID}-disk0`,
    media: "disk",
    model: "virtio",
    size: 40_960,
    boot: true,
  }],
  nics: [{
    interface: "net0",
    mac: "e2:14:1a:7b:f3:4",
    nic_tag: "admin",
    vlan_id: null,
    model: "virtio",
    gateway: "192.0.2.2",
    primary: true,
    ips: ["192.0.2.69/24"],
  }],
  media: { path: "/media/installer.iso" },
  medium: "/installer.iso",
  job_uuid: MACHINE_JOB,
  job_execution: "success",
};

/** The schemas of responses about machines. */
export const MACHINE_SCHEMAS: JsonObject = {
  Machine: MACHINE,
  MachineRead: MACHINE_READ,
  MachineDisk: MACHINE_DISK,
  MachineNic: MACHINE_NIC,
  MachineDryRun: DRY_RUN,
  VncAddress: VNC_ADDRESS,
  VncInfo: VNC_INFO,
  Console: CONSOLE,
  ConsoleTicket: CONSOLE_TICKET,
  MachineStarted: MACHINE_STARTED,
};

/** The job of the examples. */
export const JOB_UUID = "51fe1f0c-2f6c-4a33-9c0a-7f2f3f9d8e10";

/** When the job of the examples started. */
const STARTED_AT: Instant = "2026-01-31T18:30:00.020Z";
const FINISHED_AT: Instant = "2026-01-31T18:30:04.512Z";

/** The body of POST /jobs in the examples. */
export const JOB_REQUEST: JsonObject = {
  workflow: WORKFLOW_UUID,
  exec_after: "2026-01-31T18:30:00Z",
  target: `/machines/${MACHINE_UUID}`,
  machine: MACHINE_UUID,
};

type JobExample = ShapeOf<typeof JOB_SHAPE>;

const JOB: JobExample = {
  uuid: JOB_UUID,
  workflow_uuid: WORKFLOW_UUID,
  name: "stop-machine",
  execution: "queued",
  chain: CHAIN,
  onerror: ONERROR,
  timeout: 600,
  exec_after: "2026-01-31T18:30:00.000Z",
  target: `/machines/${MACHINE_UUID}`,
  params: { machine: MACHINE_UUID },
  chain_results: [],
  onerror_results: [],
  created_at: "2026-01-31T18:29:12.345Z",
  elapsed: 0,
};

/** The same request with its optional fields. */
export const LOCKING_REQUEST: JsonObject = {
  ...JOB_REQUEST,
  locks: `^/machines/${MACHINE_UUID}(/|$)`,
  callback_url: "https://hooks.example.com/jobs",
};

/** A job that was just made. */
export const QUEUED_JOB: JobExample = {
  ...JOB,
  reason: "scheduled",
  next_run_at: "2026-01-31T18:30:00.000Z",
};

/** The same job after a resume. */
export const RESUMED_JOB: JobExample = { ...JOB, reason: "waiting_for_slot" };

/** The same job after it has succeeded. */
export const FINISHED_JOB: JobExample = {
  ...JOB,
  execution: "success",
  chain_results: [{
    result: "stopped",
    error: "",
    name: "stop",
    started_at: STARTED_AT,
    finished_at: FINISHED_AT,
    attempts: 1,
  }],
  elapsed: 4.492,
  started_at: STARTED_AT,
  finished_at: FINISHED_AT,
};

/** The same job after a cancel. */
export const CANCELED_JOB: JobExample = {
  ...JOB,
  execution: "canceled",
  finished_at: FINISHED_AT,
};

/** Schemas of jobs and their parts, by name. @see document 2, Job */
export const JOB_SCHEMAS: JsonObject = {
  Execution: EXECUTION,
  TaskResult: TASK_RESULT,
  Job: JOB_SHAPE,
  JobInfo: {
    type: "object",
    description: "One entry of reported progress.",
    minProperties: 1,
    additionalProperties: true,
  },
};

const FAILED_AT = "2026-01-31T18:30:02.120Z";

const SUMMARY_EXAMPLE: ShapeOf<typeof SUMMARY> = {
  uuid: JOB_UUID,
  name: "stop-machine",
  workflow_uuid: WORKFLOW_UUID,
  state: "running",
  reason: "waiting_for_retry",
  next_run_at: null,
  task: {
    name: "stop",
    phase: "chain",
    index: 0,
    attempt: 2,
    since: null,
    next_retry_at: "2026-01-31T18:30:07.120Z",
  },
  tasks_done: 0,
  tasks_total: 1,
  progress: null,
  error: null,
  target: `/machines/${MACHINE_UUID}`,
  machine: { uuid: MACHINE_UUID, alias: "web-1" },
  host: "gz-7.example.com",
  host_uuid: "6f3bd7a0-2f6c-4f0e-9a51-8d1d6a3c0b11",
  host_state: "connected",
  created_at: "2026-01-31T18:29:12.345Z",
  started_at: STARTED_AT,
  finished_at: null,
  elapsed: 3.1,
  duration: 3.1,
  params: { machine: MACHINE_UUID, password: "***" },
  params_bytes: 79,
  prev_attempt: null,
  next_attempt: null,
};

const ATTEMPT: ShapeOf<typeof FAILED_ATTEMPT> = {
  task: "stop",
  phase: "chain",
  index: 0,
  attempt: 1,
  fallback: false,
  error: { name: "Error", message: "the guest does not answer" },
  message: "the guest does not answer",
  started_at: STARTED_AT,
  finished_at: FAILED_AT,
  wait_seconds: 5,
};

const LINES: ShapeOf<typeof LOG_LINE>[] = [{
  sequence: 4711,
  time: STARTED_AT,
  task: "stop",
  attempt: 1,
  level: "info",
  message: "asked the guest to power off",
  progress: null,
  fields: null,
}, {
  sequence: 4712,
  time: FAILED_AT,
  task: "stop",
  attempt: 1,
  level: "warn",
  message: "attempt 1 failed: the guest does not answer; the next one follows after 5 s",
  progress: null,
  fields: { phase: "chain", started_at: STARTED_AT, wait_seconds: 5 },
}];

/** A filter of jobs, key by key. */
const COUNT_EXAMPLES: JsonObject = {
  uuid: JOB_UUID.slice(0, 8),
  search: "web-1",
  since: "2025-12-31",
  until: "2026-12-31T00:00:00Z",
  target: JOB_REQUEST.target ?? "",
  machine: MACHINE_UUID,
  name: "stop-machine",
  workflow_uuid: WORKFLOW_UUID,
  host: HOST_UUID,
  params: JSON.stringify({ machine: MACHINE_UUID }),
  finished_since: "2026-01-31T00:00:00Z",
};

/** The views, added to the part about jobs. */
export const JOB_VIEWS: Pick<OpenapiPart, "schemas" | "paths"> = {
  schemas: {
    SummaryTask: SUMMARY_TASK,
    JobSummary: SUMMARY,
    JobCounts: JOB_COUNTS,
    FailedAttempt: FAILED_ATTEMPT,
    LogLine: LOG_LINE,
  },
  paths: {
    "/agent/v1/jobs": {
      get: {
        operationId: "job_summary_list",
        summary: "Summaries of jobs, newest first",
        description:
          "A page scans a limited number of jobs, so it may be short or empty; continue while " +
          "`next` is not null.",
        parameters: queryParameters(SUMMARY_QUERY_FIELDS, {
          ...COUNT_EXAMPLES,
          state: "failed,canceled",
          limit: 20,
          cursor: "aWQgNDcxMSA",
        }),
        responses: {
          "200": jsonAnswer(
            "A page.",
            SUMMARY_PAGE,
            { jobs: [SUMMARY_EXAMPLE], next: null },
          ),
          ...refusals("409"),
        },
      },
    },
    "/agent/v1/jobs/counts": {
      get: {
        operationId: "job_counts",
        summary: "Number of matching jobs by state",
        description:
          "Scans a limited number of jobs, newest first. Without a filter, `GET /stats` counts " +
          "all jobs.",
        parameters: queryParameters(COUNT_QUERY_FIELDS, COUNT_EXAMPLES),
        responses: {
          "200": jsonAnswer("The numbers.", shapeRef("JobCounts", JOB_COUNTS), {
            counts: {
              queued: 0,
              running: 1,
              waiting: 0,
              succeeded: 12,
              failed: 2,
              canceled: 0,
              retried: 1,
            },
            whole: true,
          }),
          ...refusals("409"),
        },
      },
    },
    "/agent/v1/jobs/{job_uuid}": {
      get: {
        operationId: "job_summary_get",
        summary: "The summary of a job, with its failed attempts",
        description:
          "The first 5 and the last 20 failed attempts of each task are kept, and the last 50 of " +
          "a chain are shown; the log has the others.",
        parameters: [parameterRef("JobUuid")],
        responses: {
          "200": jsonAnswer(
            "The job.",
            JOB_READ,
            { ...SUMMARY_EXAMPLE, secret_params: ["license_key"], attempts: [ATTEMPT] },
          ),
          ...refusals("404", "409"),
        },
      },
    },
    "/agent/v1/jobs/{job_uuid}/log": {
      get: {
        operationId: "job_log",
        summary: "The log of a job, oldest line first",
        description:
          "What its tasks and others reported, the calls of its tasks, and every failed attempt. " +
          "A page has at most about 256 KiB.",
        parameters: [
          parameterRef("JobUuid"),
          ...queryParameters(LOG_QUERY_FIELDS, { last: 20, before: 1_000_000, after: 0 }),
        ],
        responses: {
          "200": jsonAnswer(
            "A page.",
            LOG_PAGE,
            { lines: LINES, before: null, after: 4712, more: false },
          ),
          ...refusals("404", "409"),
        },
      },
    },
  },
};
