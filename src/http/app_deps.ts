// What the HTTP room is given by agent.ts, and what every request carries through it.

import type { Hono } from "hono";
import type { JobUuid, MachineUuid, NewUuid, WorkflowUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { JobLimits } from "../domain/job/request.ts";
import type { Wording } from "../domain/job/wire.ts";
import type { JsonObject } from "../domain/json.ts";
import type { MemoryBudget } from "../domain/memory_budget.ts";
import type { MachineAction } from "../domain/machine/action.ts";
import type { Policy } from "../domain/policy.ts";
import type { CheckSources, WorkflowLimits } from "../domain/job/workflow.ts";
import type { VncAddress, VncConsole } from "../host/vmadm/vmadm.ts";
import type { Log } from "../metrics/log.ts";
import type { Bells } from "../program/loop.ts";
import type { KnownFiles } from "../mirror/media/known_files.ts";
import type { RequestCount } from "../metrics/meters.ts";
import type { Store } from "../store/store.ts";
import type { Access, Caller } from "./request/caller.ts";
import type { RequestMemory } from "./request/request_memory.ts";
import type { AuditTrail } from "./request/audit_file.ts";
import type { RawBytes } from "./listen/runtime_connection.ts";

/** Everything that the routes need. */
export interface AppDeps {
  readonly store: Store;
  /** The accountant of memory that documents take. */
  readonly budget: MemoryBudget;
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
  /** Reads the sources of tasks. */
  readonly checkSources: CheckSources;
  readonly wording: Wording;
  readonly log: Log;
  readonly machines: MachineDeps;
  readonly media: MediaDeps;
  /** Host names besides the loopback ones under which the agent may be called, without ports. */
  readonly allowedHosts: readonly string[];
  /** What tells callers apart; without it everybody who gets through is an administrator. */
  readonly access?: Access;
  /** Where calls that change something are recorded besides the log. */
  readonly auditTrail?: AuditTrail;
  /** Further routes with their whole paths, such as the index tree. */
  readonly routes: readonly Hono[];
  /** Counts requests by their routes; nobody does unless it is given. */
  readonly requests?: RequestCount;
  /** Aborted when the agent begins to stop: requests that wait for a job are answered then. */
  readonly closing: AbortSignal;
}

/** What the media routes need. */
export interface MediaDeps {
  readonly files: KnownFiles;
  /** The built-in workflow whose jobs fetch media. */
  readonly workflow: WorkflowUuid;
}

/** What the machine routes need. */
export interface MachineDeps {
  readonly vmadm: MachineReader;
  readonly policy: Policy;
  /** The built-in workflow whose jobs make machines. */
  readonly provisionWorkflow: WorkflowUuid;
  /** The built-in workflows whose jobs act on machines. */
  readonly actionWorkflows: Readonly<Record<MachineAction, WorkflowUuid>>;
}

/** The reading side of host/vmadm.ts: a request may look at machines, only jobs change them. */
export interface MachineReader {
  get(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<JsonObject | null>;
  list(options?: { signal?: AbortSignal }): Promise<JsonObject[]>;
  infoVnc(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<VncAddress | null>;
  vncConsole(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<VncConsole | null>;
  connectVnc(address: VncAddress, options?: { signal?: AbortSignal }): Promise<ConsoleStream>;
}

/** The bytes of a console, both ways. */
export interface ConsoleStream {
  /** What the console has sent so far. */
  readonly greeting: Uint8Array<ArrayBuffer>;
  /** Reads on; null at the end. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of it; ends when the console has room for it. */
  write(bytes: Uint8Array): Promise<void>;
  /** May be called twice; a read or a write that is under way fails or ends. */
  close(): void;
}

/** Largest sizes of what is sent, and of the crowd that may send it. */
export interface HttpLimits extends WorkflowLimits, JobLimits {
  /** Header fields of one request. */
  readonly headerFieldsMax: number;
  /** Characters of the names and values of all header fields of one request. */
  readonly headerCharsMax: number;
  /** Bytes of one request body. */
  readonly bodyBytesMax: number;
  /** Bytes of the body of a request that needs but a few words, such as a cancel. */
  readonly smallBodyBytesMax: number;
  /** Seconds in which a body must have arrived. */
  readonly bodySeconds: number;
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
  /** Consoles that are open at the same time. */
  readonly consolesMax: number;
  /** Consoles of one machine that are open at the same time. */
  readonly machineConsolesMax: number;
  /** Seconds after which a console without a byte in either direction is closed. */
  readonly consoleIdleSeconds: number;
  /** Seconds for which a ticket opens a console. */
  readonly consoleTicketSeconds: number;
  /** Tickets for consoles that were not used yet. */
  readonly consoleTicketsMax: number;
  /** Jobs that are not final. */
  readonly unfinishedJobsMax: number;
  readonly workflowsMax: number;
}

/** The limits when nothing is configured. */
export const DEFAULT_HTTP_LIMITS: HttpLimits = {
  headerFieldsMax: 64,
  headerCharsMax: 32 * 1024,
  bodyBytesMax: 2 * 1024 * 1024,
  smallBodyBytesMax: 64 * 1024,
  bodySeconds: 30,
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
  consolesMax: 64,
  machineConsolesMax: 4,
  consoleIdleSeconds: 3600,
  consoleTicketSeconds: 30,
  consoleTicketsMax: 256,
  unfinishedJobsMax: 100_000,
  workflowsMax: 10_000,
  callbackHosts: [],
};

/** What one request carries through middleware and handlers. */
export interface HttpEnv {
  Bindings: {
    /** Where the request came from; absent means TCP, which is checked most strictly. */
    remote?: Deno.Addr;
    /** Whether it came by TLS; absent means no. */
    secure?: boolean;
    /** Takes the connection from HTTP; see RequestInfo. Absent where nothing listens. */
    takeOver?: () => RawBytes;
  };
  Variables: {
    request_id: string;
    /** Who calls; absent while nobody has been let in. */
    caller?: Caller;
    /** The memory that this request holds; given back when it was answered. */
    memory: RequestMemory;
    /** Ends the counting of this request, for handlers that go on to wait. */
    release: () => void;
    /** Goes on counting it while its answer is written; what is returned ends that. */
    keep: () => () => void;
  };
}
