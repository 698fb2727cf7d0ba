// What the HTTP room is given by agent.ts, and what every request carries through it.

import type { Hono } from "hono";
import type { JobUuid, MachineUuid, NewUuid, WorkflowUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { JobLimits } from "../domain/job_request.ts";
import type { Wording } from "../domain/job_wire.ts";
import type { JsonObject } from "../domain/json.ts";
import type { Policy } from "../domain/policy.ts";
import type { WorkflowLimits } from "../domain/workflow.ts";
import type { Log } from "../log.ts";
import type { Bells } from "../loop.ts";
import type { Store } from "../store/store.ts";

/** Everything that the routes need. */
export interface AppDeps {
  readonly store: Store;
  /** Tells the runner that a job may be due; a hint, the row is what counts. */
  readonly wake: () => void;
  /** Tells the runner to stop a job that was canceled at once; a hint too. */
  readonly cancelRunning: (uuid: JobUuid) => void;
  /** Rung when a job has changed, for requests that wait for one. */
  readonly changes: Bells<JobUuid>;
  /** Tells everybody that a request has changed a job. */
  readonly changed: (uuid: JobUuid) => void;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly limits: HttpLimits;
  readonly wording: Wording;
  readonly log: Log;
  readonly machines: MachineDeps;
  /** Host names besides the loopback ones under which the agent may be called, without ports. */
  readonly allowedHosts: readonly string[];
  /** Further routes with their whole paths, such as the index tree. */
  readonly routes: readonly Hono[];
  /** Aborted when the agent begins to stop: requests that wait for a job are answered then. */
  readonly closing: AbortSignal;
}

/** What the machine routes need. */
export interface MachineDeps {
  readonly vmadm: MachineReader;
  readonly policy: Policy;
  /** The built-in workflow whose jobs make machines. */
  readonly provisionWorkflow: WorkflowUuid;
}

/** The reading side of host/vmadm.ts: a request may look at machines, only jobs change them. */
export interface MachineReader {
  get(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<JsonObject | null>;
  list(options?: { signal?: AbortSignal }): Promise<JsonObject[]>;
  infoVnc(
    uuid: MachineUuid,
    options?: { signal?: AbortSignal },
  ): Promise<{ host: string; port: number; display?: number } | null>;
}

/** Largest sizes of what is sent, and of the crowd that may send it. */
export interface HttpLimits extends WorkflowLimits, JobLimits {
  /** Bytes of one request body. */
  readonly bodyBytesMax: number;
  /** Nesting of a request body. */
  readonly jsonDepthMax: number;
  /** Requests that are answered at the same time. */
  readonly requestsMax: number;
  /** Requests that wait for a job at the same time. */
  readonly waitsMax: number;
  /** Bytes of one info entry as JSON. */
  readonly infoEntryBytesMax: number;
  /** Info entries of one job. */
  readonly infoEntriesMax: number;
  /** Jobs that are not final. */
  readonly unfinishedJobsMax: number;
  readonly workflowsMax: number;
}

/** The limits when nothing is configured. */
export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  bodyBytesMax: 2 * 1024 * 1024,
  jsonDepthMax: 64,
  requestsMax: 256,
  waitsMax: 128,
  tasksMax: 1000,
  sourceCharsMax: 256 * 1024,
  retryMax: 1000,
  timeoutSecondsMax: 30 * 86_400,
  targetCharsMax: 1024,
  paramsCharsMax: 2 * 1024 * 1024,
  infoEntryBytesMax: 64 * 1024,
  infoEntriesMax: 100_000,
  unfinishedJobsMax: 100_000,
  workflowsMax: 10_000,
  callbackHosts: [],
};

/** What one request carries through middleware and handlers. */
export interface HttpEnv {
  Bindings: {
    /** Where the request came from; absent means TCP, which is checked most strictly. */
    remote?: Deno.Addr;
  };
  Variables: {
    request_id: string;
    /** Ends the counting of this request, for handlers that go on to wait. */
    release: () => void;
    /** Goes on counting it while its answer is written; what is returned ends that. */
    keep: () => () => void;
  };
}
