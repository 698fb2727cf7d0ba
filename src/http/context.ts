// What the HTTP room works with, and what each request carries through it. The agent makes one context;
// a route names the part of it that it uses.

import type { Hono } from "hono";
import type { HostUuid, JobUuid, MachineUuid, NewUuid } from "../domain/id.ts";
import type { Now } from "../domain/instant.ts";
import type { JobLimits } from "../domain/job/request.ts";
import type { Wording } from "../domain/job/wire.ts";
import type { JsonObject } from "../domain/json.ts";
import type { MemoryBudget, RequestMemory } from "../domain/memory_budget.ts";
import type { Policy } from "../domain/policy.ts";
import type { PayloadCheck } from "../machines/dry_run.ts";
import type { MediumLookup } from "../machines/provision_job.ts";
import type { CheckSources, WorkflowLimits } from "../domain/job/workflow.ts";
import type { VncAddress, VncConsole } from "../host/vmadm/vnc.ts";
import type { Log } from "../metrics/log.ts";
import type { Notifiers } from "../runtime/waiting.ts";
import type { MediaLibrary } from "../mirror/media/library.ts";
import type { KnownFiles } from "../mirror/media/known_files.ts";
import type { RequestCount } from "../metrics/meters.ts";
import type { Store } from "../store/store.ts";
import type { Access, Caller } from "./request/caller.ts";
import type { Peers } from "./peers/peers.ts";
import type { RawBytes } from "./listen/runtime_connection.ts";

/** What the application is made of. */
export interface HttpContext {
  readonly store: Store;
  /** The budget of memory for documents. */
  readonly budget: MemoryBudget;
  /** Hints to the runner to stop a canceled job now. */
  readonly cancelRunning: (uuid: JobUuid) => void;
  /** Notifies requests that wait for a job. */
  readonly changes: Notifiers<JobUuid>;
  /** Announces that a request has changed a job. */
  readonly changed: (uuid: JobUuid) => void;
  readonly now: Now;
  readonly newUuid: NewUuid;
  readonly limits: HttpLimits;
  readonly checkSources: CheckSources;
  readonly wording: Wording;
  readonly log: Log;
  readonly machines: MachineAccess;
  /** This host among those of the store. */
  readonly hostUuid: HostUuid;
  /** Hints to the runner that a request has cordoned or admitted this host. */
  readonly hostChanged: () => void;
  /** The other hosts of a shared store. */
  readonly peers?: Peers | undefined;
  readonly mediaFiles: KnownFiles;
  readonly library: MediaLibrary;
  /** Host names, without ports, that requests may use besides the loopback ones. */
  readonly allowedHosts: readonly string[];
  /** Who may call; without it, every caller that gets through is an administrator. */
  readonly access?: Access;
  /** Where changing calls are recorded besides the log. */
  readonly auditTrail?: AuditTrail;
  /** More routes with their whole paths, such as the index tree. */
  readonly routes: readonly Hono<HttpEnv>[];
  readonly requests?: RequestCount;
  /** Aborted when the agent begins to stop; requests that wait for a job are then answered. */
  readonly closing: AbortSignal;
}

/** What requests need to work with machines. */
export interface MachineAccess {
  readonly vmadm: MachineReader;
  readonly policy: Policy;
  /** Looks up the medium that a request boots from; see Mirror.expect(). */
  readonly media: MediumLookup;
  /** The name that answers give the managed host. */
  readonly host: string;
  /** What a dry run asks the host. */
  readonly payloadChecks: readonly PayloadCheck[];
}

/** The reading side of vmadm: requests look at machines, only jobs change them. Errors are those of Vmadm. */
export interface MachineReader {
  /** A machine as vmadm describes it, without passwords; null when there is none. */
  get(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<JsonObject | null>;
  /** All machines. @param options `detailed`: with all properties, which takes vmadm longer */
  list(options?: { signal?: AbortSignal; detailed?: boolean }): Promise<JsonObject[]>;
  /** Where the console of a running machine is; null while it has none. */
  infoVnc(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<VncAddress | null>;
  /** The same with the password of the console. */
  vncConsole(uuid: MachineUuid, options?: { signal?: AbortSignal }): Promise<VncConsole | null>;
  /** Connects to a console that infoVnc() has named. */
  connectVnc(address: VncAddress, options?: { signal?: AbortSignal }): Promise<ConsoleStream>;
}

/** The bytes of a console, both ways. */
export interface ConsoleStream {
  /** What the console has sent while connecting. */
  readonly greeting: Uint8Array<ArrayBuffer>;
  /** Reads on; null at the end. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of it; ends when the console has room for it. */
  write(bytes: Uint8Array): Promise<void>;
  /** May be called twice. A pending read or write fails or ends. */
  close(): void;
}

/** The limits of what a request may hold or wait for. */
export interface HttpLimits extends WorkflowLimits, JobLimits {
  /** Header fields of one request. */
  readonly headerFieldsMax: number;
  /** Characters of the names and values of all header fields of one request. */
  readonly headerCharsMax: number;
  /** Bytes of one request body. */
  readonly bodyBytesMax: number;
  /** Bytes of the body of a short request, such as a cancel. */
  readonly smallBodyBytesMax: number;
  /** Seconds for a body to arrive. */
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
  /** Streams of events that are open at the same time. */
  readonly eventStreamsMax: number;
  /** Consoles that are open at the same time. */
  readonly consolesMax: number;
  /** Seconds without a byte in either direction after which a console is closed. */
  readonly consoleIdleSeconds: number;
  /** Seconds for which a console ticket is valid. */
  readonly consoleTicketSeconds: number;
  /** Unused console tickets at the same time. */
  readonly consoleTicketsMax: number;
  /** Unfinished jobs at the same time. */
  readonly unfinishedJobsMax: number;
  readonly workflowsMax: number;
}

/** What a request carries through middleware and handlers. */
export interface HttpEnv {
  Bindings: {
    /** Where the request came from. Absent means TCP, which is checked most strictly. */
    remote?: Deno.Addr;
    /** Whether it came over TLS. */
    secure?: boolean;
    /** Takes the connection over from HTTP; absent where nothing listens. */
    takeOver?: () => RawBytes;
    /** Reports that the caller has read a part of an endless response. */
    moved?: () => void;
  };
  Variables: {
    request_id: string;
    /** Who calls; absent before access is granted, and for probes without a token. */
    caller?: Caller;
    /** The memory that this request holds, released with its answer. */
    memory: RequestMemory;
    /** Stops counting this request as active, for handlers that wait. */
    release: () => void;
    /** Keeps counting it while its answer is written, until the returned function is called. */
    keep: () => () => void;
  };
}

/** The record of one call. */
export interface AuditEntry {
  readonly ts: string;
  readonly request_id: string;
  /**
   * `socket`, `loopback`, `token:NAME`, `ticket:` and its maker, `host:NAME:` and the caller of the agent of that host,
   * or `refused` for a caller without access.
   */
  readonly who: string;
  /** The address of the caller, or `socket`. */
  readonly peer: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The job that the call made. */
  readonly job_uuid?: string;
}

/** Where entries are kept besides the log. */
export interface AuditTrail {
  /** Writes one entry. A failure is logged and does not fail the call. */
  append(entry: AuditEntry): Promise<void>;
}
